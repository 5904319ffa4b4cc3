//! What a job has to remember in order to go on.

use std::collections::VecDeque;

use cadre_cluster::clock::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Loaded, Slots, Spec};
use crate::{
    entity::{Lineage, Named, Parent},
    fact::{
        Failure,
        id::{Id, JobId, SessionId},
        status::{ItemStatus, JobStatus},
    },
};

/// What a job has to remember.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Its id.
    pub id: JobId,
    /// Its session.
    pub session: SessionId,
    /// Who started it.
    pub parent: Option<Parent>,
    /// Where it comes from.
    pub lineage: Lineage,
    /// How far it is from a session's own turn.
    pub depth: u32,
    /// A hash of what it was created with, to recognise the same request.
    pub fingerprint: u128,
    /// When it was created.
    pub created: Timestamp,
    /// What holds for all items.
    pub spec: Named<Box<Spec>>,
    /// How many items there are.
    pub items: u32,
    /// How it stands.
    pub status: JobStatus,
    /// How many items of this run have ended how.
    pub counts: Counts,
    /// How many had ended when that was last told.
    pub told: u32,
    /// When this run began.
    pub since: Timestamp,
    /// The first item of this run that was not started.
    pub next: u32,
    /// The items that are under way.
    pub slots: Slots,
    /// Ended items that somebody wants tried again, in the order of asking.
    pub asked: VecDeque<u32>,
    /// Items that were fetched and are not started.
    pub buffer: VecDeque<Loaded>,
    /// Whether items are being fetched.
    pub loading: bool,
    /// How often items were fetched; the number of the fetch that goes on.
    pub loads: u64,
    /// When the timer for further attempts is set to.
    pub retry_at: Option<Timestamp>,
    /// How this run will end once everything is closed.
    pub ending: Option<Finish>,
    /// The next scheduled time that nothing was done about.
    pub scheduled: Option<Timestamp>,
    /// How often it has run.
    pub runs: u32,
    /// Whether nothing is open.
    pub closed: bool,
    /// Set once it has been over for so long that its items go: every item below is removed.
    #[serde(default)]
    pub removed: Option<u32>,
    /// What the ids of attempts come from, which nobody else knows; those of older jobs come from the job's id.
    #[serde(default)]
    pub base: Option<String>,
    /// The time whose run begins if the session still takes new work, which is being looked at.
    #[serde(default)]
    pub due: Option<Timestamp>,
}

impl Work {
    /// What the ids of attempts come from.
    pub fn base(&self) -> &str {
        self.base.as_deref().unwrap_or(self.id.suffix())
    }
}

/// How many items have ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// As they should.
    pub completed: u32,
    /// Failed, timed out or lost.
    pub failed: u32,
    /// Cancelled, or never begun when the job was.
    pub cancelled: u32,
}

impl Work {
    /// The time of the next run, if there is to be one.
    pub fn next_run(&self) -> Option<Timestamp> {
        let max = self.spec.schedule.as_ref().and_then(|schedule| schedule.max_runs);
        self.scheduled.filter(|_| max.is_none_or(|max| self.runs < max))
    }

    /// Whether the last run was over before an item had ended, or even begun: no fact says it of the item, that of the
    /// run does of all of them. `ended` is when the item last ended, in whatever run.
    pub fn was_left_out(&self, index: u32, ended: Option<Timestamp>) -> bool {
        let waits = index >= self.next || self.asked.contains(&index) || self.slots.get(index).is_some();
        !waits && ended.is_none_or(|at| at < self.since)
    }
}

impl Counts {
    /// All that have ended.
    pub fn ended(&self) -> u32 {
        self.completed + self.failed + self.cancelled
    }

    /// The count of a status, if it is one of an end.
    pub(super) fn of(&mut self, status: ItemStatus) -> Option<&mut u32> {
        match status {
            ItemStatus::Completed => Some(&mut self.completed),
            ItemStatus::Failed | ItemStatus::TimedOut | ItemStatus::Lost => Some(&mut self.failed),
            ItemStatus::Cancelled => Some(&mut self.cancelled),
            ItemStatus::Pending | ItemStatus::Running => None,
        }
    }
}

/// How a run of a job ends before its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finish {
    /// Cancelled or timed out.
    pub status: JobStatus,
    /// What went wrong.
    pub error: Failure,
    /// Why.
    pub reason: Option<String>,
    /// Who wanted it.
    pub by: String,
    /// Every item below this index was told.
    pub told: u32,
}
