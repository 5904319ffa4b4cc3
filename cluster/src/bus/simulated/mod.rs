//! The simulated driver: one network that the nodes of a simulation share, with faults on demand.
//!
//! It stands for a message server and the lines between it and the nodes. Messages may be lost, doubled,
//! delayed and thereby reordered; nodes may be parted from each other; the server may be gone. Every action
//! of a node passes its [`Lifeline`], so a node can die between any two of them. On one thread, with paused
//! time and one seed, two runs deliver the same messages at the same moments in the same order.
//!
//! Not simulated: the loss of a message is never noticed by its sender, and "no responders" is always
//! answered at once.

mod connection;
mod faults;
mod network;
#[cfg(test)]
mod tests;

pub use connection::SimConnection;
pub use faults::Faults;

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use self::network::{Network, State};
use crate::sim::{Dice, Lifeline, Trace};

/// The network. Clones are the same network.
#[derive(Debug, Clone)]
pub struct SimBus(Arc<Network>);

impl SimBus {
    /// A network without faults, which draws its later ones from `dice`.
    pub fn new(dice: Dice) -> Self {
        Self(Arc::new(Network::new(dice)))
    }

    /// A node's connection. Nodes are told apart by the name of their line; a node that starts again after a
    /// crash brings a new line.
    pub fn connect(&self, lifeline: Lifeline) -> SimConnection {
        SimConnection::new(self.0.clone(), lifeline)
    }

    /// The faults from now on, for messages not yet sent.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Parts two nodes: nothing passes between them, what is under way is lost.
    pub fn partition(&self, one: &str, other: &str) {
        self.block(one, other);
        self.block(other, one);
    }

    /// Parts two nodes in one direction only.
    pub fn block(&self, from: &str, to: &str) {
        self.state().block(from, to);
    }

    /// Lets messages pass again between two nodes, both ways.
    pub fn heal(&self, one: &str, other: &str) {
        let mut state = self.state();
        state.unblock(one, other);
        state.unblock(other, one);
    }

    /// Lets all messages pass again.
    pub fn heal_all(&self) {
        self.state().unblock_all();
    }

    /// Takes the whole bus down or brings it back. While it is down every action fails as unavailable and
    /// what is under way is lost; subscriptions survive.
    pub fn set_outage(&self, outage: bool) {
        self.state().set_outage(outage);
    }

    /// How long the server takes to notice that a node died. Until then requests to that node time out,
    /// afterwards nobody listens. At first: no time.
    pub fn set_death_notice(&self, delay: Duration) {
        self.state().death_notice = delay;
    }

    /// The largest payload from now on.
    pub fn set_max_payload(&self, limit: usize) {
        self.state().max_payload = limit;
    }

    /// How many messages a subscription made from now on holds before further ones are lost.
    ///
    /// # Panics
    /// When it is zero.
    pub fn set_queue_capacity(&self, capacity: usize) {
        assert!(capacity > 0, "a subscription holds at least one message");
        self.state().queue_capacity = capacity;
    }

    /// Writes down from now on what happens to every message.
    pub fn trace_into(&self, trace: Trace) {
        self.state().trace = Some(trace);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state()
    }
}
