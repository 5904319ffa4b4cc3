//! The queue of a thread.

use super::declare::payloads;
use crate::fact::{id::TurnId, part::Part, words::words};

words! {
    /// What happened to a queue. Steered: the input went to the running turn.
    QueueChange {
        Added = "added",
        Removed = "removed",
        Promoted = "promoted",
        Started = "started",
        Cleared = "cleared",
        Steered = "steered",
    }
}

payloads! {
    /// Turns were queued, unqueued or put into another order.
    QueueChanged {
        /// What happened.
        change: QueueChange,
        /// What is queued now, the next first.
        queue: Vec<TurnId>,
        ..
        /// The turn that it happened to.
        changed_turn_id: Option<TurnId>,
        /// Why.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
        /// What the running turn was told.
        input: Vec<Part>,
    }
}
