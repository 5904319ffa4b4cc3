//! How a client reaches the cluster: over the bus, or through a node in its own process, and through another when
//! that one dies.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{Dice, Lifeline, bank::Bank, nodes::SimNode};
use crate::{
    address::Address,
    host::{CallError, Called, Client, Entity, Node},
};

pub(super) enum Door {
    Bus(Client),
    Process(Process),
}

/// A process with a node in it.
pub(super) struct Process {
    nodes: Vec<Arc<SimNode<Bank>>>,
    dice: Dice,
    current: Mutex<Option<(Client, Lifeline)>>,
}

impl Door {
    const TIMEOUT: Duration = Duration::from_secs(5);

    pub fn in_process(nodes: &[Arc<SimNode<Bank>>], dice: Dice) -> Self {
        Self::Process(Process { nodes: nodes.to_vec(), dice, current: Mutex::default() })
    }

    pub fn is_in_process(&self) -> bool {
        matches!(self, Self::Process(_))
    }

    pub async fn call<E: Entity>(
        &self,
        who: &Address,
        command: &E::Command,
        key: Option<&str>,
    ) -> Result<Called<E::Reply>, CallError<E::Refusal>> {
        let process = match self {
            Self::Bus(client) => return client.call::<E>(who, command, key, Self::TIMEOUT).await,
            Self::Process(process) => process,
        };
        let (client, lifeline) = process.node().await;
        tokio::select! {
            biased;
            // What a dead process would have been told, nobody was told.
            () = lifeline.cut_happened() => Err(CallError::OutcomeUnknown),
            called = client.call::<E>(who, command, key, Self::TIMEOUT) => called,
        }
    }
}

impl Process {
    /// The node in this process; another one when it has died.
    async fn node(&self) -> (Client, Lifeline) {
        loop {
            if let Some(node) = self.try_node() {
                return node;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn try_node(&self) -> Option<(Client, Lifeline)> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|(_, lifeline)| lifeline.is_cut()) {
            *current = self.dice.pick(&self.nodes).try_enter(Node::client);
        }
        current.clone()
    }
}
