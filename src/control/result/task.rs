//! Tasks and their edges.

use super::declare::results;
use crate::fact::{
    id::{RunId, SessionId, TaskId, ThreadId, TurnId},
    status::TaskStatus,
};

results! {
    /// How a task stands.
    TaskState {
        /// The task.
        task_id: TaskId,
        /// Where it stands.
        status: TaskStatus,
        ..
        /// Its session.
        session_id: Option<SessionId>,
        /// Which attempt runs or ran last, from 1.
        attempt: Option<u32>,
        /// That attempt.
        run_id: Option<RunId>,
        /// The thread of that attempt.
        thread_id: Option<ThreadId>,
        /// The turn of that attempt.
        turn_id: Option<TurnId>,
    }

    /// An edge between two tasks.
    TaskLink {
        /// The task that it belongs to.
        from: TaskId,
        /// The other end.
        to: TaskId,
        /// What it means.
        kind: String,
        /// Whether it is there now.
        linked: bool,
        ..
        /// How the first task stands.
        status: Option<TaskStatus>,
    }
}
