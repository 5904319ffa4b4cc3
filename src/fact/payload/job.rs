//! Jobs: many items under one instruction.

use super::{Object, declare::payloads};
use crate::fact::{
    failure::{Failure, RetryPolicy},
    id::{ThreadId, TurnId},
    part::OutputRef,
    status::{ItemStatus, JobStatus},
    time::Time,
};

payloads! {
    /// A job was created.
    JobCreated {
        /// Accepted or scheduled.
        status: JobStatus,
        /// What to do with each item.
        instruction: String,
        /// How many items.
        items: u32,
        ..
        /// Who does it.
        agent: Option<String>,
        /// How many at once.
        concurrency: Option<u32>,
        /// How an item is tried again.
        retry_policy: Option<RetryPolicy>,
        /// How long all of it may take.
        max_runtime_ms: Option<u64>,
        /// When it runs, when not now.
        schedule: Option<String>,
        /// The caller's own.
        metadata: Object,
    }

    /// A job began.
    JobStarted {
        /// Running.
        status: JobStatus,
        ..
        /// How many items.
        total: Option<u32>,
        /// When it must have ended.
        deadline_at: Option<Time>,
        /// The time that its schedule named.
        scheduled_at: Option<Time>,
    }

    /// How far a job is.
    JobProgress {
        /// How many items.
        total: u32,
        /// Not begun.
        pending: u32,
        /// Begun.
        running: u32,
        /// Done.
        completed: u32,
        /// Failed, timed out or lost.
        failed: u32,
        /// Cancelled.
        cancelled: u32,
        /// How much has ended, 0 to 100.
        percent: f64,
        ..
        /// Where it stands.
        status: Option<JobStatus>,
    }

    /// An item began.
    JobItemStarted {
        /// Running.
        status: ItemStatus,
        /// Which attempt, from 1.
        attempt: u32,
        ..
        /// Which item, from 0.
        index: Option<u32>,
        /// Who works on it.
        worker: Option<String>,
        /// The thread in which it runs.
        assigned_thread_id: Option<ThreadId>,
        /// The turn in which it runs.
        assigned_turn_id: Option<TurnId>,
    }

    /// An item is done.
    JobItemCompleted {
        /// Completed.
        status: ItemStatus,
        /// Which attempt, from 1.
        attempt: u32,
        ..
        /// Which item, from 0.
        index: Option<u32>,
        /// The result in short.
        summary: Option<String>,
        /// What it produced.
        output_refs: Vec<OutputRef>,
        /// How long it took.
        duration_ms: Option<u64>,
    }

    /// An item ended in another way.
    JobItemFailed {
        /// In which way.
        status: ItemStatus,
        /// What happened.
        error: Failure,
        /// Which attempt, from 1.
        attempt: u32,
        ..
        /// Which item, from 0.
        index: Option<u32>,
        /// Whether trying again may help.
        retryable: bool,
        /// Whether it is tried again.
        will_retry: bool,
        /// When.
        next_attempt_at: Option<Time>,
    }

    /// Every item has ended.
    JobCompleted {
        /// Completed.
        status: JobStatus,
        /// How many items.
        total: u32,
        /// Done.
        completed: u32,
        /// Failed, timed out or lost.
        failed: u32,
        /// Cancelled.
        cancelled: u32,
        ..
        /// The result in short.
        summary: Option<String>,
        /// How long it took.
        duration_ms: Option<u64>,
    }

    /// The job as a whole failed or took too long.
    JobFailed {
        /// Which of the two.
        status: JobStatus,
        /// What happened.
        error: Failure,
        /// How many items.
        total: u32,
        /// Done.
        completed: u32,
        /// Failed, timed out or lost.
        failed: u32,
        /// Cancelled.
        cancelled: u32,
        ..
        /// Why.
        reason: Option<String>,
    }

    /// The job was stopped.
    JobCancelled {
        /// Cancelled.
        status: JobStatus,
        /// How many items.
        total: u32,
        /// Done.
        completed: u32,
        /// Failed, timed out or lost.
        failed: u32,
        /// Cancelled.
        cancelled: u32,
        ..
        /// Why.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
    }
}
