//! Jobs and their items.

use super::declare::results;
use crate::fact::{
    Time,
    id::{ItemId, JobId, SessionId},
    status::{ItemStatus, JobStatus},
};

results! {
    /// How a job stands.
    JobState {
        /// The job.
        job_id: JobId,
        /// Where it stands.
        status: JobStatus,
        ..
        /// Its session.
        session_id: Option<SessionId>,
        /// How many items it has.
        total: Option<u32>,
        /// When it runs next, when it has a schedule.
        next_run_at: Option<Time>,
    }

    /// How an item stands.
    JobItemState {
        /// The job.
        job_id: JobId,
        /// The item.
        item_id: ItemId,
        /// Where it stands.
        status: ItemStatus,
        /// Which attempt, from 1.
        attempt: u32,
    }
}
