//! What tasks have to do with each other, and their attempts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Object, declare::payloads};
use crate::fact::{
    failure::Failure,
    id::{JobId, SubagentId, TaskId, ThreadId},
    part::OutputRef,
    status::AttemptStatus,
    time::Time,
};

payloads! {
    /// What a task needs of a model was worked out.
    TaskProfileResolved {
        ..
        /// What kind of work it is.
        task_kind: Option<String>,
        /// What a model must be able to do.
        capabilities: Vec<String>,
        /// Where this comes from: `request`, `agent`, `default`.
        source: Option<String>,
        /// The whole profile.
        profile: Object,
    }

    /// A task was handed on.
    TaskDelegated {
        ..
        /// To a task of its own.
        child_task_id: Option<TaskId>,
        /// To a subagent.
        subagent_id: Option<SubagentId>,
        /// To a job.
        job_id: Option<JobId>,
        /// To a thread.
        target_thread_id: Option<ThreadId>,
        /// To an agent.
        agent: Option<String>,
        /// To somebody else.
        assignee: Option<Object>,
        /// Why.
        reason: Option<String>,
    }

    /// Who works on something.
    Worker {
        /// The node or process.
        id: String,
        ..
        /// What it is: `node`, `runner`, `remote`.
        kind: Option<String>,
    }

    /// An attempt began.
    TaskAttemptStarted {
        /// Running.
        status: AttemptStatus,
        /// Which, from 1.
        attempt: u32,
        ..
        /// Who works on it.
        worker: Option<Worker>,
        /// Which agent does it.
        agent: Option<String>,
        /// When it must have ended.
        deadline_at: Option<Time>,
    }

    /// An attempt reached the objective.
    TaskAttemptCompleted {
        /// Completed.
        status: AttemptStatus,
        /// Which, from 1.
        attempt: u32,
        ..
        /// The result in short.
        summary: Option<String>,
        /// What it produced.
        output_refs: Vec<OutputRef>,
        /// How long it took.
        duration_ms: Option<u64>,
    }

    /// An attempt ended in another way.
    TaskAttemptFailed {
        /// In which way.
        status: AttemptStatus,
        /// Whether trying again may help.
        retryable: bool,
        ..
        /// Which, from 1.
        attempt: Option<u32>,
        /// What happened.
        error: Option<Failure>,
        /// What kind of failure it is: `tool_failed`, `model_failed`, `timeout`, …
        failure_category: Option<String>,
        /// What decides about the next attempt.
        next_attempt_policy: Option<String>,
        /// When the next attempt comes.
        next_attempt_at: Option<Time>,
        /// How long it took.
        duration_ms: Option<u64>,
    }
}

/// An edge between this task and another was added, changed or removed. Without the other end it would say nothing, so
/// it has no default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskDependencyUpdated {
    /// What the edge means: `depends_on`, `parent`, `source`, …
    pub kind: String,
    /// The other end.
    pub target: TaskId,
    /// How the other end stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the edge is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}
