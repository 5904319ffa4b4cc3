//! Tasks: what they are.

use serde_json::{Value, json};

use super::{budget::RunBudget, declare::arguments, input};
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::{
        Part, RetryPolicy,
        id::{SessionId, TaskId, ThreadId},
        payload::{Object, Visibility},
    },
};

arguments! {
    /// Makes a task: a unit of work with an objective, attempts and dependencies. It starts by itself as soon as what
    /// it depends on is completed, unless `autoStart` is false.
    CreateTask {
        /// What is to be achieved, at most 16 KiB.
        objective: String,
        ..
        /// The id that it shall have. The same id with the same arguments is the same task.
        task_id: Option<TaskId>,
        /// The session that it belongs to. A new one is made when absent.
        session_id: Option<SessionId>,
        /// The thread that it belongs to. Its attempts have threads of their own.
        thread_id: Option<ThreadId>,
        /// The task that it is a part of. Cancelling that one cancels this one.
        parent_task_id: Option<TaskId>,
        /// What people call it, at most 512 characters.
        title: Option<String>,
        /// What kind of work it is: `coding`, `research`, …
        task_kind: Option<String>,
        /// Who sees it.
        visibility: Option<Visibility>,
        /// How urgent it is, in the words of the tenant: `low`, `high`, …
        priority: Option<String>,
        /// Who is to do it, when that is not an agent: at most 16 KiB as JSON.
        assignee: Option<Object>,
        /// Which agent does it: the session's own when absent.
        agent: Option<String>,
        /// What it works on, in parts, at most 1 MiB. Absent: the objective says it all.
        #[serde(deserialize_with = "input::parts")]
        input: Vec<Part>,
        /// What it must keep to, at most 16 KiB as JSON. `budget` is what each attempt of an agent may use up: `steps`,
        /// `tokens`, `costUsd`. `heartbeatMs` is how often a worker outside has to say how it goes.
        constraints: Object,
        /// What its models need to be able to do, at most 16 KiB as JSON.
        profile: Object,
        /// When it counts as done: a list of criteria, at most 16 KiB as JSON. `{"artifact": REF}` and `{"evidence": REF}`
        /// are met by what `complete_task` names, and so are `{"kind": "artifact"}` and `{"kind": "evidence"}`, with a
        /// `ref` by that one. The former are required unless they say `required: false`, the latter when they say
        /// `required: true`. Without what is required `complete_task` is a conflict, and when an agent is done the task is
        /// `waiting_input` until it is delivered. Of any other criterion it is `unknown` whether it is met.
        acceptance: Vec<Object>,
        /// The tasks that must be completed before it starts: at most 256, none twice.
        depends_on: Vec<TaskId>,
        /// How it is tried again: `maxAttempts` 1 to 100, waits that double from `backoffMs` up to `maxBackoffMs`.
        /// Absent: one attempt.
        retry_policy: Option<RetryPolicy>,
        /// How long one attempt may take, in milliseconds, at most 30 days.
        timeout_ms: Option<u64>,
        /// Whether it starts by itself. Absent: yes.
        auto_start: bool = "yes",
    }

    /// Changes what is known about a task that has not ended. Absent is unchanged; objects and lists are replaced
    /// whole. A running attempt goes on with what it began with.
    UpdateTask {
        /// The task.
        task_id: TaskId,
        ..
        /// The new title, at most 512 characters.
        title: Option<String>,
        /// The new objective, at most 16 KiB.
        objective: Option<String>,
        /// Who sees it now.
        visibility: Option<Visibility>,
        /// How urgent it is now.
        priority: Option<String>,
        /// Who is to do it now.
        assignee: Option<Object>,
        /// Which agent does it from the next attempt on.
        agent: Option<String>,
        /// The new constraints.
        constraints: Option<Object>,
        /// The new profile.
        profile: Option<Object>,
        /// The new criteria.
        acceptance: Option<Vec<Object>>,
        /// How it is tried again from now on.
        retry_policy: Option<RetryPolicy>,
        /// How long the next attempt may take, in milliseconds, at most 30 days.
        timeout_ms: Option<u64>,
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }
}

/// The default of what happens unless it is forbidden.
pub(super) fn yes() -> bool {
    true
}

impl Arguments for CreateTask {
    fn check(&self) -> Result<(), Error> {
        check::prose("objective", &self.objective)?;
        check::line("title", self.title.as_deref(), check::LINE_CHARS_MAX)?;
        check::name("taskKind", self.task_kind.as_deref())?;
        check::name("priority", self.priority.as_deref())?;
        check::json("assignee", &self.assignee, check::OBJECT_BYTES_MAX)?;
        check::name("agent", self.agent.as_deref())?;
        check::optional_input("input", &self.input)?;
        check::object("constraints", &self.constraints)?;
        RunBudget::check_in(&self.constraints)?;
        check::object("profile", &self.profile)?;
        check::json("acceptance", &self.acceptance, check::OBJECT_BYTES_MAX)?;
        check::count("dependsOn", self.depends_on.len(), 0..=check::DEPENDENCIES_MAX)?;
        check::distinct("dependsOn", &self.depends_on)?;
        if let Some(own) = &self.task_id {
            check::not_itself("dependsOn", self.depends_on.contains(own))?;
            check::not_itself("parentTaskId", self.parent_task_id.as_ref() == Some(own))?;
        }
        check::together(self, &self.input, check::TASK_BYTES_MAX)?;
        check::retry_policy(self.retry_policy.as_ref())?;
        check::range("timeoutMs", self.timeout_ms, check::WAIT_MS)
    }

    fn example() -> Value {
        json!({
            "taskId": "task_notes",
            "sessionId": "sess_demo",
            "title": "Release notes",
            "objective": "Write the release notes of version 2",
            "dependsOn": ["task_changelog"],
            "retryPolicy": { "maxAttempts": 3, "backoffMs": 1_000, "maxBackoffMs": 60_000 },
            "timeoutMs": 600_000,
        })
    }
}

impl Arguments for UpdateTask {
    fn check(&self) -> Result<(), Error> {
        if let Some(objective) = &self.objective {
            check::prose("objective", objective)?;
        }
        check::line("title", self.title.as_deref(), check::LINE_CHARS_MAX)?;
        check::name("priority", self.priority.as_deref())?;
        check::json("assignee", &self.assignee, check::OBJECT_BYTES_MAX)?;
        check::name("agent", self.agent.as_deref())?;
        check::json("constraints", &self.constraints, check::OBJECT_BYTES_MAX)?;
        self.constraints.as_ref().map_or(Ok(()), RunBudget::check_in)?;
        check::json("profile", &self.profile, check::OBJECT_BYTES_MAX)?;
        check::json("acceptance", &self.acceptance, check::OBJECT_BYTES_MAX)?;
        check::retry_policy(self.retry_policy.as_ref())?;
        check::range("timeoutMs", self.timeout_ms, check::WAIT_MS)?;
        check::together(self, &(), check::TASK_BYTES_MAX)?;
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({ "taskId": "task_notes", "priority": "high", "reason": "the release is tomorrow" })
    }
}
