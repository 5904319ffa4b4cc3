//! Subagents: children with threads of their own.

use super::{Object, Usage, declare::payloads};
use crate::fact::{
    failure::Failure,
    id::{SubagentId, TaskId, ThreadId, TurnId},
    part::{OutputRef, Part},
    status::SubagentStatus,
};

payloads! {
    /// A subagent was made.
    SubagentSpawned {
        /// Queued or running.
        status: SubagentStatus,
        /// Who it is.
        agent: String,
        /// How far it is from the root; a turn's own subagents have 1.
        depth: u32,
        ..
        /// The subagent that made it.
        parent_subagent_id: Option<SubagentId>,
        /// The task that it works for.
        parent_task_id: Option<TaskId>,
        /// The turn that made it.
        parent_turn_id: Option<TurnId>,
        /// The thread of that turn.
        parent_thread_id: Option<ThreadId>,
        /// What it is for.
        role: Option<String>,
        /// What people call it.
        nickname: Option<String>,
        /// What it shares with its parent.
        isolation: Option<String>,
        /// Which models it may use.
        model_policy: Option<Object>,
        /// How long it may take.
        deadline_ms: Option<u64>,
        /// What it was asked.
        input: Vec<Part>,
    }

    /// A subagent stands differently.
    SubagentStatusChanged {
        /// How.
        status: SubagentStatus,
        ..
        /// Why.
        reason: Option<String>,
        /// Which attempt, from 1.
        attempt: Option<u32>,
        /// By whom.
        by: Option<String>,
    }

    /// A subagent was told something.
    SubagentInput {
        /// What.
        input: Vec<Part>,
        ..
        /// By whom.
        source: Option<String>,
        /// The turn that answers.
        input_turn_id: Option<TurnId>,
    }

    /// A subagent did what it was asked.
    SubagentCompleted {
        /// Completed.
        status: SubagentStatus,
        ..
        /// Which attempt, from 1.
        attempt: Option<u32>,
        /// The answer in short.
        summary: Option<String>,
        /// What it produced.
        output_refs: Vec<OutputRef>,
        /// What its models used.
        usage: Option<Usage>,
        /// How long it took.
        duration_ms: Option<u64>,
    }

    /// A subagent ended in another way.
    SubagentFailed {
        /// In which way.
        status: SubagentStatus,
        /// What happened.
        error: Failure,
        ..
        /// Which attempt, from 1.
        attempt: Option<u32>,
        /// Why.
        reason: Option<String>,
        /// What was done before.
        summary: Option<String>,
        /// What its models used.
        usage: Option<Usage>,
    }

    /// A subagent was closed before it ended by itself.
    SubagentClosed {
        /// Cancelled, usually.
        status: SubagentStatus,
        ..
        /// Why.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
    }
}
