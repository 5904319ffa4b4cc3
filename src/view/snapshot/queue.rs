//! The queue of a thread: what makes it go on. The turns in it are told of beside it.

use crate::{
    fact::{id::TurnId, status::QueueState},
    view::{ThreadView, declare::views},
};

views! {
    /// The queue of a thread.
    QueueSnapshot {
        /// What makes it go on.
        resume_state: QueueState,
        /// The turns that wait, the next first.
        order: Vec<TurnId>,
        ..
        /// How many more wait.
        omitted: u32,
        /// The turn behind which they wait.
        active_turn_id: Option<TurnId>,
    }
}

impl QueueSnapshot {
    /// The queue of a thread.
    pub fn of(thread: &ThreadView) -> Self {
        let is_empty = thread.queue.is_empty() && thread.queue_omitted == 0;
        let asks = thread.turns.iter().any(|turn| turn.is_active() && turn.is_pending());
        let resume_state = match &thread.active_turn_id {
            _ if is_empty => QueueState::Empty,
            Some(_) if asks => QueueState::Blocked,
            Some(_) => QueueState::BehindTurn,
            None => QueueState::Ready,
        };
        Self {
            resume_state,
            order: thread.queue.clone(),
            omitted: thread.queue_omitted,
            active_turn_id: thread.active_turn_id.clone(),
        }
    }
}
