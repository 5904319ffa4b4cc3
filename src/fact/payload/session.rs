//! Sessions and threads.

use super::{Object, declare::payloads};
use crate::fact::{
    id::{SubagentId, ThreadId, TurnId},
    status::{SessionStatus, ThreadStatus},
};

payloads! {
    /// A session began.
    SessionCreated {
        /// Active.
        status: SessionStatus,
        ..
        /// What people call it.
        title: Option<String>,
        /// The agent of its turns, unless they name another.
        agent: Option<String>,
        /// The caller's own.
        metadata: Object,
    }

    /// What is known about a session changed. Absent is unchanged.
    SessionUpdated {
        ..
        /// The new status.
        status: Option<SessionStatus>,
        /// The new title.
        title: Option<String>,
        /// The new agent.
        agent: Option<String>,
        /// The new metadata, whole.
        metadata: Option<Object>,
        /// Why.
        reason: Option<String>,
    }

    /// A thread began.
    ThreadStarted {
        ..
        /// Idle, usually.
        status: Option<ThreadStatus>,
        /// What people call it.
        title: Option<String>,
        /// The agent of its turns.
        agent: Option<String>,
        /// The thread from which it came.
        parent_thread_id: Option<ThreadId>,
        /// The subagent whose thread it is.
        subagent_id: Option<SubagentId>,
        /// What began it: `user`, `task`, `subagent`, `job`.
        source: Option<String>,
    }

    /// What a read model says of a thread changed. Absent is unchanged.
    ThreadUpdated {
        ..
        /// The new status.
        status: Option<ThreadStatus>,
        /// The turn that runs now.
        active_turn_id: Option<TurnId>,
        /// The new title.
        title: Option<String>,
        /// Why.
        reason: Option<String>,
    }
}
