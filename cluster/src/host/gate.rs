//! The gate for attempts that must not be repeated.
//!
//! A shard that moves while such an attempt runs would lose it: nobody could tell the next owner how far it got. So a
//! shard moves when none runs, and the gate is closed first, so that none begins between the look and the move.
//! What finds it closed is begun by the next owner, or here when the move is called off.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// One per shard that is served. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate(Arc<State>);

#[derive(Debug, Default)]
struct State {
    closed: AtomicBool,
    inside: AtomicUsize,
}

/// One attempt that runs.
#[derive(Debug)]
pub(super) struct Inside(Gate);

impl Gate {
    /// Begins an attempt, unless the gate is closed.
    pub fn enter(&self) -> Option<Inside> {
        // In before looking at the gate: whoever closes it and then counts either sees us or is seen.
        self.0.inside.fetch_add(1, Ordering::SeqCst);
        let inside = Inside(self.clone());
        (!self.0.closed.load(Ordering::SeqCst)).then_some(inside)
    }

    pub fn close(&self) {
        self.0.closed.store(true, Ordering::SeqCst);
    }

    pub fn open(&self) {
        self.0.closed.store(false, Ordering::SeqCst);
    }

    pub fn is_empty(&self) -> bool {
        self.0.inside.load(Ordering::SeqCst) == 0
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_enters_a_closed_gate_and_what_is_inside_is_counted_until_it_leaves() {
        let gate = Gate::default();
        let inside = gate.enter().expect("it is open");
        gate.close();
        assert!(gate.enter().is_none());
        assert!(!gate.is_empty());
        drop(inside);
        assert!(gate.is_empty(), "who was turned away is not counted");
        gate.open();
        assert!(gate.enter().is_some());
    }
}
