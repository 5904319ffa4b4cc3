//! What later turns of a thread see of its past.

use super::declare::results;
use crate::fact::{
    id::{SessionId, ThreadId, TurnId},
    status::ThreadStatus,
};

results! {
    /// A thread of which turns were taken back.
    ThreadRolledBack {
        /// The session.
        session_id: SessionId,
        /// The thread.
        thread_id: ThreadId,
        /// How it stands then.
        status: ThreadStatus,
        /// The turns that were taken back, in their order. None when the turn was the last one already.
        turns: Vec<TurnId>,
        /// How many turns its history has left.
        remaining: u64,
        ..
        /// The turn that is the last one then, when there is one.
        to_turn_id: Option<TurnId>,
    }

    /// A thread whose beginning is summed up.
    ContextCompacted {
        /// The session.
        session_id: SessionId,
        /// The thread.
        thread_id: ThreadId,
        /// The last turn that the summary stands for.
        last_turn_id: TurnId,
        /// For how many turns it stands.
        turns: u32,
        ..
        /// The first of them, where it is known.
        first_turn_id: Option<TurnId>,
    }
}
