//! Subagents, and waiting for them.

use super::declare::results;
use crate::{
    control::args::WaitMode,
    fact::{
        Failure,
        id::{SessionId, SubagentId, ThreadId, TurnId},
        status::SubagentStatus,
    },
};

results! {
    /// How a subagent stands.
    SubagentState {
        /// The subagent.
        subagent_id: SubagentId,
        /// Its thread.
        thread_id: ThreadId,
        /// Its turn, the newest.
        turn_id: TurnId,
        /// Where it stands.
        status: SubagentStatus,
        ..
        /// Its session.
        session_id: Option<SessionId>,
        /// Which attempt, from 1.
        attempt: Option<u32>,
    }

    /// What became of a wait.
    Waited {
        /// How they stand: at most 1,000, those that ended first.
        subagents: Vec<WaitedSubagent>,
        /// Whether the time was over first.
        timed_out: bool,
        /// How many had to end.
        mode: WaitMode,
        /// How many were waited for.
        total: u64,
        /// How many of them have ended.
        ended: u64,
    }

    /// One of those that were waited for.
    WaitedSubagent {
        /// The subagent.
        subagent_id: SubagentId,
        /// Where it stands.
        status: SubagentStatus,
        ..
        /// Its answer in short.
        summary: Option<String>,
        /// What happened, when it did not complete.
        error: Option<Failure>,
    }
}
