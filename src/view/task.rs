//! A task: its objective, its attempts, what it has to do with others, and what came of it.

use std::collections::BTreeMap;

use super::{
    attempt::AttemptView, declare::views, relationship::Relationship, summary::ArtifactEntry, turn::TurnView,
};
use crate::fact::{
    OutputRef, Ref,
    failure::{Failure, RetryPolicy},
    id::{ActionId, RunId, SessionId, TaskId, ThreadId, TurnId},
    payload::{Object, Visibility},
    status::{AcceptanceOutcome, TaskStatus},
    time::Time,
};

views! {
    /// How far a task is.
    #[derive(Default)]
    Progress {
        ..
        /// What it is doing.
        phase: Option<String>,
        /// How much is done, 0 to 100.
        percent: Option<f64>,
        /// In words.
        summary: Option<String>,
        /// In numbers.
        counters: BTreeMap<String, i64>,
        /// The last of what it has produced.
        output_refs: Vec<OutputRef>,
        /// When that was said.
        at: Option<Time>,
    }

    /// What a task delivered.
    Delivered {
        /// Where it is.
        #[serde(rename = "ref")]
        reference: Ref,
        ..
        /// What is known of it.
        artifact: Option<ArtifactEntry>,
    }

    /// A task. It is kept by the task's entity, which changes it only with [`apply`](Self::apply), as a replay does.
    #[derive(Default)]
    TaskView {
        /// How it stands.
        status: TaskStatus,
        ..
        /// Its id.
        task_id: Option<TaskId>,
        /// The task of which it is a part.
        parent_task_id: Option<TaskId>,
        /// The task at the root.
        root_task_id: Option<TaskId>,
        /// Its session. No fact says it: whoever owns the view sets it.
        session_id: Option<SessionId>,
        /// The thread of its current run.
        thread_id: Option<ThreadId>,
        /// The turn of its current run.
        turn_id: Option<TurnId>,
        /// What people call it.
        title: Option<String>,
        /// What is to be achieved.
        objective: String,
        /// What kind of work it is.
        task_kind: Option<String>,
        /// Who sees it.
        visibility: Option<Visibility>,
        /// How urgent it is.
        priority: Option<String>,
        /// Who is to do it.
        assignee: Option<Object>,
        /// Which agent does it.
        agent: Option<String>,
        /// What it must keep to.
        constraints: Object,
        /// What its models need to be able to do.
        task_profile: Object,
        /// When it counts as done.
        acceptance: Vec<Object>,
        /// What became of each of those, in their order, once it is done: `unknown` where nobody has looked.
        acceptance_outcomes: Vec<AcceptanceOutcome>,
        /// The caller's own.
        metadata: Object,
        /// What must be completed before it starts.
        depends_on: Vec<TaskId>,
        /// How it is tried again.
        retry_policy: Option<RetryPolicy>,
        /// How long an attempt may take.
        timeout_ms: Option<u64>,
        /// How far it is.
        progress: Option<Progress>,
        /// Its current or last run.
        current_run_id: Option<RunId>,
        /// Its last attempts.
        attempts: Vec<AttemptView>,
        /// How many attempts there were.
        attempts_total: u32,
        /// When the next attempt comes.
        next_attempt_at: Option<Time>,
        /// What it has to do with others.
        relationships: Vec<Relationship>,
        /// How many more edges there are than there is room to tell.
        relationships_omitted: u32,
        /// What it waits for.
        waiting_for: Vec<TaskId>,
        /// The decision that it waits for.
        action_id: Option<ActionId>,
        /// What it delivered.
        artifacts: Vec<Delivered>,
        /// How much it delivered.
        artifacts_total: u32,
        /// What proves it.
        evidence_refs: Vec<Ref>,
        /// How much proves it.
        evidence_total: u32,
        /// How far its results have come to whoever wants them.
        delivery_state: Option<Object>,
        /// The result in short.
        summary: Option<String>,
        /// What went wrong last.
        last_error: Option<Failure>,
        /// Why it stands as it does.
        status_reason: Option<String>,
        /// When it was created.
        created_at: Option<Time>,
        /// When something was last heard of it.
        updated_at: Option<Time>,
        /// When it first began to run.
        started_at: Option<Time>,
        /// When it ended.
        ended_at: Option<Time>,
        /// The turn of its current run.
        turn: Option<Box<TurnView>>,
    }
}

impl TaskView {
    /// How many attempts are told of.
    pub const ATTEMPTS_MAX: usize = 10;
    /// How many edges are told of.
    pub const RELATIONSHIPS_MAX: usize = 16;
    /// How many tasks that it waits for are told of.
    pub const DEPENDS_ON_MAX: usize = 32;
    /// How much of what it delivered is told of.
    pub const ARTIFACTS_MAX: usize = 6;
    /// How much of what proves it is told of.
    pub const EVIDENCE_MAX: usize = 8;
    /// How much of its objective is kept.
    pub const OBJECTIVE_MAX: usize = 4096;

    /// Whether nothing follows any more, unless a command says otherwise.
    pub fn is_over(&self) -> bool {
        self.status.is_terminal()
    }

    /// Whether it cannot go on by itself.
    pub fn is_blocked(&self) -> bool {
        matches!(
            self.status,
            TaskStatus::Blocked
                | TaskStatus::WaitingInput
                | TaskStatus::WaitingPermission
                | TaskStatus::WaitingResource
        )
    }
}
