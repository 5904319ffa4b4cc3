//! A job: many items under one instruction. The items are records of their own.

use super::{
    bound::{self, NAME_MAX, TEXT_MAX, cut, cut_some},
    declare::views,
    item::ItemChange,
};
use crate::fact::{
    Fact,
    failure::{Failure, RetryPolicy},
    id::{JobId, SessionId, TaskId},
    payload::{JobCreated, Object, Payload},
    status::{ItemStatus, JobStatus},
    time::Time,
};

const INSTRUCTION_MAX: usize = 4096;
const METADATA_MAX: usize = 4096;

views! {
    /// How many items stand how.
    #[derive(Default, Copy, Eq)]
    ItemCounts {
        /// All.
        total: u32,
        /// Not begun, or to be tried again.
        pending: u32,
        /// Begun.
        running: u32,
        /// Done.
        completed: u32,
        /// Failed, timed out or lost.
        failed: u32,
        /// Cancelled.
        cancelled: u32,
    }

    /// A job. It is kept by the job's entity, which changes it only with [`apply`](Self::apply), as a replay does.
    #[derive(Default)]
    JobView {
        /// How it stands.
        status: JobStatus,
        /// How many items stand how.
        counts: ItemCounts,
        ..
        /// Its id.
        job_id: Option<JobId>,
        /// Its session. No fact says it: whoever owns the view sets it.
        session_id: Option<SessionId>,
        /// The task that it works for.
        task_id: Option<TaskId>,
        /// What to do with each item.
        instruction: String,
        /// Who does it.
        agent: Option<String>,
        /// How many at once.
        concurrency: Option<u32>,
        /// How an item is tried again.
        retry_policy: Option<RetryPolicy>,
        /// When it runs, when not at once.
        schedule: Option<String>,
        /// When it runs next. Like the three below, no fact says it: it is only there when the job is read by itself.
        next_run_at: Option<Time>,
        /// What happens to times that it missed: `skip`, `run_once` or `run_all`.
        missed_runs: Option<String>,
        /// It does not run before.
        start_at: Option<Time>,
        /// It ends after so many runs.
        max_runs: Option<u32>,
        /// How long all of it may take.
        max_runtime_ms: Option<u64>,
        /// The caller's own.
        metadata: Object,
        /// When it was created.
        created_at: Option<Time>,
        /// When it began.
        started_at: Option<Time>,
        /// When it must have ended.
        deadline_at: Option<Time>,
        /// When something was last heard of it.
        updated_at: Option<Time>,
        /// When it ended.
        ended_at: Option<Time>,
        /// The result in short.
        summary: Option<String>,
        /// What went wrong last.
        last_error: Option<Failure>,
        /// Why it stands as it does.
        reason: Option<String>,
    }
}

impl ItemCounts {
    /// What is neither begun nor ended.
    fn settle(&mut self) {
        let others = [self.running, self.completed, self.failed, self.cancelled];
        self.pending = others.into_iter().fold(self.total, u32::saturating_sub);
    }

    fn ended(&mut self, total: u32, completed: u32, failed: u32, cancelled: u32) {
        *self = Self { total, completed, failed, cancelled, ..Self::default() };
        self.settle();
    }

    /// How much has ended, 0 to 100; none when there is nothing to do.
    pub fn percent(&self) -> Option<f64> {
        let ended = u64::from(self.completed) + u64::from(self.failed) + u64::from(self.cancelled);
        (self.total > 0).then(|| bound::number((ended as f64 / f64::from(self.total) * 100.0).min(100.0)))
    }
}

impl JobView {
    /// Whether nothing follows any more.
    pub fn is_over(&self) -> bool {
        self.status.is_terminal()
    }

    /// Takes in a fact of this job. Gives back what changed of an item, to be applied to the item's own record.
    pub fn apply(&mut self, fact: &Fact) -> Option<ItemChange> {
        let at = bound::time(fact.at);
        self.updated_at = self.updated_at.max(Some(at));
        match &fact.payload {
            Payload::JobCreated(created) => self.created(fact, created),
            Payload::JobStarted(started) => {
                self.started_at.get_or_insert(at);
                self.deadline_at = started.deadline_at.map(bound::time);
                self.counts.total = started.total.unwrap_or(self.counts.total);
                self.counts.settle();
                self.stands(fact, started.status, None);
            }
            Payload::JobProgress(progress) => {
                self.counts = ItemCounts {
                    total: progress.total,
                    pending: progress.pending,
                    running: progress.running,
                    completed: progress.completed,
                    failed: progress.failed,
                    cancelled: progress.cancelled,
                };
                if let Some(status) = progress.status {
                    self.stands(fact, status, None);
                }
            }
            Payload::JobCompleted(end) => {
                self.counts.ended(end.total, end.completed, end.failed, end.cancelled);
                self.summary = cut_some(end.summary.as_deref(), TEXT_MAX);
                self.stands(fact, end.status, None);
            }
            Payload::JobFailed(end) => {
                self.counts.ended(end.total, end.completed, end.failed, end.cancelled);
                self.last_error = Some(bound::failure(&end.error));
                self.stands(fact, end.status, end.reason.as_deref());
            }
            Payload::JobCancelled(end) => {
                self.counts.ended(end.total, end.completed, end.failed, end.cancelled);
                self.stands(fact, end.status, end.reason.as_deref());
            }
            _ => return self.item(fact),
        }
        None
    }

    fn created(&mut self, fact: &Fact, created: &JobCreated) {
        bound::set(&mut self.job_id, fact.ids.job());
        bound::set(&mut self.task_id, fact.ids.task());
        self.created_at = Some(bound::time(fact.at));
        self.status = created.status;
        self.instruction = cut(&created.instruction, INSTRUCTION_MAX);
        self.counts = ItemCounts { total: created.items, pending: created.items, ..ItemCounts::default() };
        self.agent = cut_some(created.agent.as_deref(), NAME_MAX);
        self.concurrency = created.concurrency;
        self.retry_policy = created.retry_policy;
        self.max_runtime_ms = created.max_runtime_ms;
        self.schedule = cut_some(created.schedule.as_deref(), TEXT_MAX);
        self.metadata = bound::object(&created.metadata, METADATA_MAX);
    }

    fn stands(&mut self, fact: &Fact, status: JobStatus, reason: Option<&str>) {
        self.status = status;
        self.reason = cut_some(reason, TEXT_MAX);
        self.ended_at = status.is_terminal().then(|| bound::time(fact.at));
    }

    fn item(&mut self, fact: &Fact) -> Option<ItemChange> {
        let change = ItemChange::of(fact)?;
        let counts = &mut self.counts;
        // An item that ends without an attempt was never begun.
        let begun = change.attempt.is_none_or(|attempt| attempt > 0);
        if change.status.is_terminal() && begun {
            counts.running = counts.running.saturating_sub(1);
        }
        match change.status {
            ItemStatus::Running => counts.running = counts.running.saturating_add(1),
            _ if change.will_retry => {}
            ItemStatus::Completed => counts.completed = counts.completed.saturating_add(1),
            ItemStatus::Failed | ItemStatus::TimedOut | ItemStatus::Lost => {
                counts.failed = counts.failed.saturating_add(1);
            }
            ItemStatus::Cancelled => counts.cancelled = counts.cancelled.saturating_add(1),
            ItemStatus::Pending => {}
        }
        counts.settle();
        bound::set(&mut self.last_error, change.error.as_ref());
        Some(change)
    }
}
