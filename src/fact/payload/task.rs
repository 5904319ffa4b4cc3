//! Tasks: units of work with an objective, from creation to the archive.

use std::collections::BTreeMap;

use super::{Object, declare::payloads};
use crate::fact::{
    failure::{Failure, RetryPolicy},
    id::{ActionId, TaskId},
    part::{OutputRef, Part, Ref},
    status::{AcceptanceOutcome, TaskStatus},
    time::Time,
    words::words,
};

words! {
    /// Who sees a task.
    Visibility {
        Foreground = "foreground",
        Background = "background",
        Internal = "internal",
        Hidden = "hidden",
        Unknown = "unknown",
    }
}

payloads! {
    /// A task was created.
    TaskCreated {
        /// Draft when it waits to be started, accepted otherwise.
        status: TaskStatus,
        /// What is to be achieved.
        objective: String,
        ..
        /// What people call it.
        title: Option<String>,
        /// What kind of work it is: `coding`, `research`, …
        task_kind: Option<String>,
        /// Who sees it.
        visibility: Option<Visibility>,
        /// How urgent it is.
        priority: Option<String>,
        /// Who is to do it.
        assignee: Option<Object>,
        /// Which agent does it.
        agent: Option<String>,
        /// What it works on.
        input: Vec<Part>,
        /// What it must keep to.
        constraints: Object,
        /// What its models need to be able to do.
        profile: Object,
        /// When it counts as done.
        acceptance: Vec<Object>,
        /// What must be completed before it starts.
        depends_on: Vec<TaskId>,
        /// How it is tried again.
        retry_policy: Option<RetryPolicy>,
        /// How long an attempt may take.
        timeout_ms: Option<u64>,
        /// Whether it starts by itself.
        auto_start: bool,
        /// The caller's own.
        metadata: Object,
    }

    /// A task was taken on.
    TaskAccepted {
        /// Accepted.
        status: TaskStatus,
        ..
        /// Who took it on.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    }

    /// A task waits for its turn.
    TaskQueued {
        /// Queued.
        status: TaskStatus,
        ..
        /// Behind what.
        reason: Option<String>,
        /// Its place; 1 is next.
        queue_position: Option<u32>,
    }

    /// A task began to run.
    TaskStarted {
        /// Preparing or running.
        status: TaskStatus,
        ..
        /// Which attempt, from 1.
        attempt: Option<u32>,
        /// Which agent does it.
        agent: Option<String>,
        /// Who started it.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
    }

    /// What is known about a task changed. Absent is unchanged.
    TaskUpdated {
        ..
        /// The new status.
        status: Option<TaskStatus>,
        /// The new title.
        title: Option<String>,
        /// The new objective.
        objective: Option<String>,
        /// The new visibility.
        visibility: Option<Visibility>,
        /// The new priority.
        priority: Option<String>,
        /// The new assignee.
        assignee: Option<Object>,
        /// The new agent.
        agent: Option<String>,
        /// The new constraints, whole.
        constraints: Option<Object>,
        /// The new profile, whole.
        profile: Option<Object>,
        /// The new acceptance, whole.
        acceptance: Option<Vec<Object>>,
        /// The new retry policy.
        retry_policy: Option<RetryPolicy>,
        /// The new time limit of an attempt.
        timeout_ms: Option<u64>,
        /// The new metadata, whole.
        metadata: Option<Object>,
        /// Why.
        reason: Option<String>,
    }

    /// How far a task is.
    TaskProgress {
        ..
        /// Where it stands.
        status: Option<TaskStatus>,
        /// What it is doing.
        phase: Option<String>,
        /// How much is done, 0 to 100.
        percent: Option<f64>,
        /// In words.
        summary: Option<String>,
        /// In numbers.
        counters: BTreeMap<String, i64>,
        /// What it has produced.
        output_refs: Vec<OutputRef>,
        /// How far its results have come to whoever wants them.
        delivery_state: Option<Object>,
    }

    /// A task waits for a person, a permission or a resource.
    TaskWaiting {
        /// For which of them.
        status: TaskStatus,
        ..
        /// Why.
        reason: Option<String>,
        /// The decision that it waits for.
        action_id: Option<ActionId>,
        /// The resource that it waits for.
        resource: Option<String>,
        /// When it stops waiting.
        until: Option<Time>,
    }

    /// A task cannot go on.
    TaskBlocked {
        /// Blocked.
        status: TaskStatus,
        /// What is missing.
        reason: String,
        ..
        /// The tasks that must be completed first.
        waiting_for: Vec<TaskId>,
    }

    /// A task was told to pause.
    TaskPaused {
        /// Paused.
        status: TaskStatus,
        ..
        /// Why.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
    }

    /// A paused, waiting or blocked task goes on.
    TaskResumed {
        /// Where it stands now.
        status: TaskStatus,
        ..
        /// Why.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
    }

    /// A task is tried again.
    TaskRetrying {
        /// Retrying.
        status: TaskStatus,
        /// The attempt that comes, from 1.
        attempt: u32,
        ..
        /// When it comes.
        next_attempt_at: Option<Time>,
        /// Why the last one failed.
        error: Option<Failure>,
        /// Why.
        reason: Option<String>,
        /// By whom, when a command asked for it.
        by: Option<String>,
    }

    /// A task was told to stop.
    TaskCancelRequested {
        /// Cancelling.
        status: TaskStatus,
        ..
        /// Why.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
        /// Whether what it started stops too.
        propagate: bool,
    }

    /// A task was stopped.
    TaskCancelled {
        /// Cancelled.
        status: TaskStatus,
        ..
        /// What was left undone.
        error: Option<Failure>,
        /// Why.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
        /// What was done before.
        summary: Option<String>,
    }

    /// A task took too long.
    TaskTimedOut {
        /// Timed out.
        status: TaskStatus,
        ..
        /// What happened.
        error: Option<Failure>,
        /// Which limit.
        reason: Option<String>,
        /// What was done before.
        summary: Option<String>,
        /// How long it was allowed to take.
        timeout_ms: Option<u64>,
    }

    /// A task failed for good.
    TaskFailed {
        /// Failed.
        status: TaskStatus,
        ..
        /// What happened.
        error: Option<Failure>,
        /// Why.
        reason: Option<String>,
        /// What was done before.
        summary: Option<String>,
        /// How many attempts were made.
        attempts: Option<u32>,
    }

    /// It cannot be known how a task ended.
    TaskLost {
        /// Lost.
        status: TaskStatus,
        ..
        /// What is known.
        error: Option<Failure>,
        /// Why.
        reason: Option<String>,
        /// What was done before.
        summary: Option<String>,
    }

    /// A task reached its objective.
    TaskCompleted {
        /// Completed.
        status: TaskStatus,
        ..
        /// The result in short.
        summary: Option<String>,
        /// Why it counts as done.
        reason: Option<String>,
        /// What it produced.
        output_refs: Vec<OutputRef>,
        /// What it delivered.
        artifacts: Vec<Ref>,
        /// What proves it.
        evidence_refs: Vec<Ref>,
        /// What became of each criterion of acceptance, in their order.
        acceptance: Vec<AcceptanceOutcome>,
        /// How many attempts were made.
        attempts: Option<u32>,
        /// How far its results have come to whoever wants them.
        delivery_state: Option<Object>,
    }

    /// A task was put away.
    TaskArchived {
        /// Archived.
        status: TaskStatus,
        ..
        /// Why.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
    }
}
