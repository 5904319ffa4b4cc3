//! Turns, their queue, and decisions.

use super::declare::results;
use crate::{
    control::words::words,
    fact::{
        id::{ActionId, SessionId, ThreadId, TurnId},
        status::{ActionStatus, ThreadStatus, TurnStatus},
    },
};

words! {
    /// What a submit came to.
    SubmissionStatus {
        /// It runs, or the running turn has its input.
        Accepted = "accepted",
        /// It waits behind others.
        Queued = "queued",
    }

    /// What an interrupt came to.
    InterruptStatus {
        /// Nothing was running.
        Idle = "idle",
        /// It is still being closed; a fact will say when it is.
        Cancelling = "cancelling",
        /// It is closed, with all that it started.
        Cancelled = "cancelled",
        /// It had completed before.
        Completed = "completed",
        /// It had failed before.
        Failed = "failed",
        /// It had timed out before.
        TimedOut = "timed_out",
        /// It had been lost before.
        Lost = "lost",
    }
}

impl From<TurnStatus> for InterruptStatus {
    fn from(status: TurnStatus) -> Self {
        match status {
            TurnStatus::Completed => Self::Completed,
            TurnStatus::Failed => Self::Failed,
            TurnStatus::TimedOut => Self::TimedOut,
            TurnStatus::Lost => Self::Lost,
            TurnStatus::Cancelled => Self::Cancelled,
            TurnStatus::Accepted
            | TurnStatus::Queued
            | TurnStatus::Preparing
            | TurnStatus::Running
            | TurnStatus::WaitingInput
            | TurnStatus::WaitingPermission
            | TurnStatus::WaitingResource
            | TurnStatus::Blocked
            | TurnStatus::Streaming
            | TurnStatus::Retrying
            | TurnStatus::Cancelling => Self::Cancelling,
        }
    }
}

results! {
    /// A turn that was submitted, or the running one that was steered.
    TurnSubmission {
        /// The session.
        session_id: SessionId,
        /// The thread.
        thread_id: ThreadId,
        /// The turn.
        turn_id: TurnId,
        /// Whether it waits behind others.
        status: SubmissionStatus,
        ..
        /// Its place in the queue; 1 runs next.
        queue_position: Option<u32>,
    }

    /// What became of an interrupt.
    Interrupted {
        /// The session.
        session_id: SessionId,
        /// What it came to.
        status: InterruptStatus,
        ..
        /// The thread.
        thread_id: Option<ThreadId>,
        /// The turn, when one was running.
        turn_id: Option<TurnId>,
        /// The waiting turns that were removed.
        removed: Vec<TurnId>,
    }

    /// A thread that was told to go on.
    ThreadResumed {
        /// The session.
        session_id: SessionId,
        /// The thread.
        thread_id: ThreadId,
        /// How it stands now.
        status: ThreadStatus,
        /// Whether it had stopped. One that runs is left alone.
        resumed: bool,
        ..
        /// The turn that runs.
        turn_id: Option<TurnId>,
    }

    /// The queue of a thread after a change.
    QueueState {
        /// The session.
        session_id: SessionId,
        /// The thread.
        thread_id: ThreadId,
        /// The turn that it happened to.
        turn_id: TurnId,
        /// How that turn stands now.
        status: TurnStatus,
        /// What is queued now, the next first.
        queue: Vec<TurnId>,
    }

    /// A decision that was made.
    ActionState {
        /// The action.
        action_id: ActionId,
        /// Resolved.
        status: ActionStatus,
        /// What was decided.
        decision: String,
        ..
        /// The session.
        session_id: Option<SessionId>,
    }
}
