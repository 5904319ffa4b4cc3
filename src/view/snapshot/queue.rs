//! The queue of a thread.

use crate::{
    fact::{
        id::{SessionId, ThreadId, TurnId},
        status::ThreadStatus,
    },
    view::{QueuedTurn, ThreadView, declare::views},
};

views! {
    /// The queue of a thread.
    QueueSnapshot {
        /// The session.
        session_id: SessionId,
        /// The thread.
        thread_id: ThreadId,
        /// How the thread stands.
        status: ThreadStatus,
        /// The turns that wait, the next first.
        queued_turns: Vec<QueuedTurn>,
        ..
        /// How many more wait.
        omitted: u32,
        /// The turn behind which they wait.
        active_turn_id: Option<TurnId>,
    }
}

impl QueueSnapshot {
    /// The queue of a thread.
    pub fn of(session_id: &SessionId, thread: &ThreadView) -> Self {
        Self {
            session_id: session_id.clone(),
            thread_id: thread.thread_id.clone(),
            status: thread.status,
            queued_turns: thread.queued_turns(),
            omitted: thread.queue_omitted,
            active_turn_id: thread.active_turn_id.clone(),
        }
    }
}
