//! Jobs: many items under one instruction.

use serde_json::{Value, json};

use super::{budget::RunBudget, declare::arguments, input, limit::Limit, schedule::Schedule};
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::{
        Part, RetryPolicy,
        id::{ItemId, JobId, SessionId, TaskId},
        status::JobStatus,
    },
};

arguments! {
    /// Makes a job: the same instruction for many items, so many at once, each with its own attempts. With a
    /// `schedule` it runs again and again.
    CreateJob {
        /// What to do with each item, at most 16 KiB.
        instruction: String,
        /// The items: 1 to 100,000, at most 16 MiB in all.
        items: Vec<NewItem>,
        ..
        /// The id that it shall have. The same id with the same arguments is the same job.
        job_id: Option<JobId>,
        /// The session that it belongs to. A new one is made when absent.
        session_id: Option<SessionId>,
        /// The task that it works for, and whose session it belongs to. It is part of that task's tree: the task is not
        /// completed before it has ended, and cancelling the task ends it.
        task_id: Option<TaskId>,
        /// Who does it: the session's agent when absent.
        agent: Option<String>,
        /// How many items at once, 1 to 1,000.
        concurrency: Option<u32>,
        /// How an item is tried again. Absent: one attempt.
        retry_policy: Option<RetryPolicy>,
        /// How long one run may take in all, in milliseconds, at most 30 days.
        max_runtime_ms: Option<u64>,
        /// When it runs. Absent: now, once.
        schedule: Option<Schedule>,
        /// What each attempt at an item may use up: at least one bound. It can only lower what the task and the node
        /// allow.
        budget: Option<RunBudget>,
    }

    /// One item of a new job.
    NewItem {
        /// What it works on, in parts: at least one, at most 1 MiB in all.
        #[serde(deserialize_with = "input::parts")]
        input: Vec<Part>,
        ..
        /// The id that it shall have within the job.
        item_id: Option<ItemId>,
    }

    /// Lists jobs by their ids, the last one first: of ids that Cadre made that is the newest. Ids that callers bring are
    /// among them as text.
    ListJobs {
        ..
        /// Only those of this session.
        session_id: Option<SessionId>,
        /// Only those of this task.
        task_id: Option<TaskId>,
        /// Only those with this status.
        status: Option<JobStatus>,
        /// Go on after this place: the `cursor` of the page before.
        after: Option<String>,
        /// How many at most.
        limit: Limit,
    }

    /// Reads a job: how it stands, and a page of its items in their order. Items that never began because the job was
    /// cancelled or timed out are `cancelled`, as its counts have them. Items expire 30 days after the job has ended;
    /// the job itself stays, with its counts.
    GetJob {
        /// The job.
        job_id: JobId,
        ..
        /// Go on after this place: the `cursor` of the page before.
        items_after: Option<String>,
        /// How many items at most.
        limit: Limit,
    }

    /// Starts a new attempt of an item that failed, timed out, was cancelled or lost, or that never began because its job
    /// was cancelled or timed out. A completed one is a conflict.
    RetryJobItem {
        /// The job.
        job_id: JobId,
        /// The item.
        item_id: ItemId,
    }

    /// Ends a job and its items. Answers when all of them are closed, or with `cancelling` when that takes longer than
    /// the caller waits. A schedule ends, too.
    CancelJob {
        /// The job.
        job_id: JobId,
        ..
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }
}

impl Arguments for CreateJob {
    fn check(&self) -> Result<(), Error> {
        check::prose("instruction", &self.instruction)?;
        check::count("items", self.items.len(), check::ITEMS)?;
        let mut bytes = 0;
        let mut ids = std::collections::BTreeSet::new();
        for (index, item) in self.items.iter().enumerate() {
            check::input(&format!("items[{index}].input"), &item.input)?;
            bytes += check::input_bytes(&item.input);
            if item.item_id.as_ref().is_some_and(|id| !ids.insert(id)) {
                return Err(Error::invalid(format!("items[{index}].itemId"), "is there twice"));
            }
        }
        if bytes > check::JOB_INPUT_BYTES_MAX {
            let error = Error::too_large(check::JOB_INPUT_BYTES_MAX as u64, bytes as u64);
            return Err(error.with("field", "items"));
        }
        check::name("agent", self.agent.as_deref())?;
        check::range("concurrency", self.concurrency, check::CONCURRENCY)?;
        check::retry_policy(self.retry_policy.as_ref())?;
        check::range("maxRuntimeMs", self.max_runtime_ms, check::WAIT_MS)?;
        self.budget.map_or(Ok(()), |budget| budget.check("budget"))?;
        self.schedule.as_ref().map_or(Ok(()), |schedule| schedule.check("schedule"))
    }

    fn example() -> Value {
        json!({
            "jobId": "job_translate",
            "instruction": "Translate into French",
            "items": [
                { "itemId": "intro", "input": [{ "type": "text", "text": "Welcome" }] },
                { "itemId": "end", "input": [{ "type": "text", "text": "Goodbye" }] },
            ],
            "concurrency": 8,
            "retryPolicy": { "maxAttempts": 3, "backoffMs": 500, "maxBackoffMs": 10_000 },
            "schedule": { "cron": "0 9 * * MON-FRI", "timeZone": "Europe/Berlin", "missedRuns": "run_once" },
        })
    }
}

impl Arguments for ListJobs {
    fn check(&self) -> Result<(), Error> {
        check::token("after", self.after.as_deref())
    }

    fn example() -> Value {
        json!({ "status": "running", "limit": 20 })
    }
}

impl Arguments for GetJob {
    fn check(&self) -> Result<(), Error> {
        check::token("itemsAfter", self.items_after.as_deref())
    }

    fn example() -> Value {
        json!({ "jobId": "job_translate", "limit": 100 })
    }
}

impl Arguments for RetryJobItem {
    fn example() -> Value {
        json!({ "jobId": "job_translate", "itemId": "intro" })
    }
}

impl Arguments for CancelJob {
    fn check(&self) -> Result<(), Error> {
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({ "jobId": "job_translate", "reason": "the source text changed" })
    }
}
