//! A job: one instruction for many items, so many at once, each with attempts of its own.
//!
//! There may be a hundred thousand items, so none of them is in the state of the job: what they are given and how they
//! stand are records, fetched in small batches as slots become free, and written in the step in which an item
//! changes. Each attempt is an entity of its own, started and closed by messages like a subagent; it says how
//! the run goes, and the job how the item does. A finished item is behind the position of the job, which is durable with
//! the facts about it: after a crash none is repeated, and none is left out.
//!
//! A run of a job is over when every item has ended. The job is `completed` when every item is, and `failed` when any
//! ended otherwise; the counts say how many. With a [schedule] it is `scheduled` between runs and ends with a cancel,
//! after `maxRuns`, or when no time is left. Each run begins with `job.started` and takes all items anew; the attempts of
//! an item are numbered through all runs, and the retry policy counts within one. A run that is due while the former goes
//! on is a missed one.
//!
//! `retry_job_item` opens a job that has ended: it is told as `job.started` again, and ends with a further terminal fact.
//! An item that waits to be tried again, or whose children live on, keeps its slot; so what a job holds is bounded by its
//! concurrency.

mod decide;
mod ending;
mod flow;
mod item;
mod load;
mod record;
mod round;
pub mod schedule;
mod slots;
mod spec;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use async_trait::async_trait;
use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    feed::NewEvent,
    host::{Decision, EffectContext, EffectError, Entity, Input, Moment},
    store::Store,
};
use serde::{Deserialize, Serialize};

pub use self::{
    item::{ItemCommand, ItemReply, ItemState, JobItem},
    record::{ItemRecord, Loaded, decode_view, encode_view},
    slots::{Phase, Slot, Slots},
    spec::{CONCURRENCY_DEFAULT, CONCURRENCY_MAX, Create, Spec},
};
use super::{Host, Lineage, Message, Named, Parent, kind};
use crate::{
    control::Error,
    exec::{Change, Effect, Outcome},
    fact::{
        Failure,
        id::{Id, ItemId, JobId, RunId, SessionId, child_suffix},
        status::{ItemStatus, JobStatus},
    },
    view::JobView,
};

/// The kind.
pub struct Job {
    host: Host,
    store: Store,
}

impl Job {
    /// With these boundaries; items are fetched from this store.
    pub fn new(host: Host, store: Store) -> Self {
        Self { host, store }
    }
}

/// A job as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// What is served.
    pub view: Named<JobView>,
    /// What it needs to go on; `None` before it is created.
    pub work: Option<Work>,
}

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
    /// Whether it has ended before.
    pub ended_before: bool,
    /// Whether nothing is open.
    pub closed: bool,
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

impl Counts {
    /// All that have ended.
    pub fn ended(&self) -> u32 {
        self.completed + self.failed + self.cancelled
    }

    /// The count of a status, if it is one of an end.
    fn of(&mut self, status: ItemStatus) -> Option<&mut u32> {
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

/// What a caller asks of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Be. The records of all items are there.
    Create(Box<Create>),
    /// Try an item again.
    Retry {
        /// Its place.
        index: u32,
        /// Its id.
        item: ItemId,
        /// How its record says that it stands; pending when it has none.
        status: ItemStatus,
        /// Who wants it.
        by: String,
    },
    /// End, with everything below.
    Cancel {
        /// Why.
        reason: Option<String>,
        /// Who wants it.
        by: String,
    },
}

/// What a caller is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The job.
    pub job: JobId,
    /// Its session.
    pub session: SessionId,
    /// How it stands.
    pub status: JobStatus,
}

cadre_cluster::stored! { State: "job", Command: "job command", Reply: "job reply" }

/// What the ids of an attempt of an item end in: its run, its thread and its turn.
pub fn run_suffix(job: &JobId, index: u32, attempt: u32) -> String {
    child_suffix(job.suffix(), u64::from(index) << 32 | u64::from(attempt))
}

/// The entity that makes an attempt is called like its run.
pub fn run_id(job: &JobId, index: u32, attempt: u32) -> RunId {
    RunId::with_suffix(&run_suffix(job, index, attempt))
}

#[async_trait]
impl Entity for Job {
    const KIND: &'static str = kind::JOB;
    type State = State;
    type Command = Command;
    type Reply = Reply;
    type Refusal = Error;
    type Message = Message;
    type Fact = Change<Work>;
    type Effect = Effect;
    type Outcome = Outcome;

    fn decide(
        &self,
        state: &State,
        input: Input<Self>,
        moment: &Moment<'_>,
    ) -> Result<Decision<Self>, Error> {
        decide::decide(&self.host, state, input, moment)
    }

    fn apply(state: &mut State, change: &Change<Work>) {
        match change {
            // What it says of an item is in that item's record already.
            Change::Told(fact) => drop(state.view.apply(fact)),
            Change::Kept(work) => {
                state.view.session_id = Some(work.session.clone());
                state.work = Some((**work).clone());
            }
        }
    }

    fn feed(&self, state: &State, _: &Address) -> Option<String> {
        state.work.as_ref().map(|work| work.session.to_string())
    }

    fn event(&self, change: &Change<Work>, sequence: u64, moment: &Moment<'_>) -> Option<NewEvent> {
        match change {
            Change::Told(fact) => Some(Host::event(fact, sequence, moment)),
            Change::Kept(_) => None,
        }
    }

    async fn perform(&self, effect: Effect, context: EffectContext) -> Result<Outcome, EffectError> {
        match effect {
            Effect::Items { job, ranges, again } => {
                load::load(&self.store, context.address.tenant(), &job, &ranges, again).await
            }
            other => self.host.engine.perform::<Self>(other, context).await,
        }
    }

    fn is_over(&self, state: &State) -> bool {
        state.work.as_ref().is_some_and(|work| work.closed)
    }
}
