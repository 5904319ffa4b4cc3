//! How clients come in: through the control plane of any node that is up, as over HTTP behind a balancer.

use std::{sync::Arc, time::Duration};

use cadre_cluster::sim::{Dice, Lifeline, SimNode};
use serde_json::Value;

use super::program::Agents;
use crate::{
    control::{Error, result::Answer},
    runtime::{Caller, Runtime},
};

/// The nodes, seen from outside.
#[derive(Clone)]
pub(super) struct Door {
    nodes: Vec<Arc<SimNode<Agents>>>,
    dice: Dice,
}

impl Door {
    /// How much longer than its deadline a client waits for a node that may be asleep.
    const PATIENCE: Duration = Duration::from_secs(2);

    pub fn new(nodes: &[Arc<SimNode<Agents>>], dice: Dice) -> Self {
        Self { nodes: nodes.to_vec(), dice }
    }

    /// The same door for somebody else.
    pub fn fork(&self) -> Self {
        Self { nodes: self.nodes.clone(), dice: self.dice.fork() }
    }

    /// A node that is up.
    pub async fn enter(&self) -> (Runtime, Lifeline) {
        loop {
            if let Some(entered) = self.dice.pick(&self.nodes).try_enter(Clone::clone) {
                return entered;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Asks one node once. `None`: nobody knows what became of it.
    pub async fn call(
        &self,
        caller: &Caller,
        name: &str,
        args: &Value,
        key: Option<&str>,
        deadline: Duration,
    ) -> Option<Result<Answer, Error>> {
        let (runtime, lifeline) = self.enter().await;
        let call = runtime.call(caller, name, args.clone(), key, deadline);
        tokio::select! {
            biased;
            // What a dead process would have been told, nobody was told.
            () = lifeline.cut_happened() => None,
            answer = tokio::time::timeout(deadline + Self::PATIENCE, call) => answer.ok(),
        }
    }

    /// Reads something, as often as it takes.
    pub async fn read(&self, caller: &Caller, name: &str, args: &Value) -> Result<Value, Error> {
        const DEADLINE: Duration = Duration::from_secs(5);
        loop {
            match self.call(caller, name, args, None, DEADLINE).await {
                Some(Ok(answer)) => return Ok(answer.result),
                Some(Err(error)) if !error.code.is_retryable() => return Err(error),
                _ => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}
