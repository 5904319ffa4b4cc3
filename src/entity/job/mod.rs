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
//! after `maxRuns`, when no time is left, or at its next time after its session was archived. Each run begins with
//! `job.started` and takes all items anew; the attempts of an item are numbered through all runs, and the retry policy counts
//! within one. A run that is due while the former goes on is a missed one.
//!
//! `retry_job_item` opens a job that has ended: it is told as `job.started` again, and ends with a further terminal fact.
//! An item that waits to be tried again, or whose children live on, keeps its slot; so what a job holds is bounded by its
//! concurrency.

mod attempt;
mod command;
mod decide;
mod ending;
mod fetch;
mod flow;
mod item;
mod load;
mod prepare;
mod record;
mod removal;
mod round;
pub mod schedule;
mod slots;
mod spec;
mod tell;
#[cfg(test)]
mod tests;
mod work;

use async_trait::async_trait;
use cadre_cluster::{
    address::Address,
    feed::NewEvent,
    host::{Decision, EffectContext, EffectError, Entity, Input, Moment},
    store::Store,
};
use serde::{Deserialize, Serialize};

pub use self::{
    command::{Command, Reply},
    item::{ItemCommand, ItemReply, ItemState, JobItem},
    prepare::{ABANDONED_AFTER_MS, Preparation},
    record::{ItemRecord, Loaded, decode_view, encode_view},
    slots::{Phase, Slot, Slots},
    spec::{CONCURRENCY_DEFAULT, CONCURRENCY_MAX, Create, NewJob, Spec},
    work::{Counts, Finish, Work},
};
use super::{Host, Message, Named, kind};
use crate::{
    control::Error,
    exec::{Change, Effect, Outcome},
    fact::id::{Id, RunId, child_suffix},
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
    /// While its items are being written, or removed because it never was.
    #[serde(default)]
    pub preparation: Option<Preparation>,
}

/// What a job keeps to itself.
#[derive(Debug, Clone)]
pub enum Kept {
    /// What it needs to go on.
    Work(Box<Work>),
    /// That it is being got ready.
    Preparation(Preparation),
    /// Nothing: it never was.
    Nothing,
}

cadre_cluster::stored! { State: "job" = 2, Command: "job command", Reply: "job reply" }

/// What the ids of an attempt of an item end in: its run, its thread and its turn. The base is the job's own secret, and
/// not its id, which everybody knows: nobody can say before what an attempt will be called.
pub fn run_suffix(base: &str, index: u32, attempt: u32) -> String {
    child_suffix(base, u64::from(index) << 32 | u64::from(attempt))
}

/// The entity that makes an attempt is called like its run.
pub fn run_id(base: &str, index: u32, attempt: u32) -> RunId {
    RunId::with_suffix(&run_suffix(base, index, attempt))
}

#[async_trait]
impl Entity for Job {
    const KIND: &'static str = kind::JOB;
    type State = State;
    type Command = Command;
    type Reply = Reply;
    type Refusal = Error;
    type Message = Message;
    type Fact = Change<Kept>;
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

    fn is_kept(refusal: &Error) -> bool {
        !refusal.retryable
    }

    fn apply(state: &mut State, change: &Change<Kept>) {
        match change {
            // What it says of an item is in that item's record already.
            Change::Told(fact, _) => drop(state.view.apply(fact)),
            Change::Kept(kept) => match &**kept {
                Kept::Work(work) => {
                    state.view.session_id = Some(work.session.clone());
                    state.work = Some((**work).clone());
                    state.preparation = None;
                }
                Kept::Preparation(preparation) => state.preparation = Some(preparation.clone()),
                Kept::Nothing => state.preparation = None,
            },
        }
    }

    fn feed(&self, state: &State, _: &Address) -> Option<String> {
        state.work.as_ref().map(|work| work.session.to_string())
    }

    fn event(&self, change: &Change<Kept>, sequence: u64, moment: &Moment<'_>) -> Option<NewEvent> {
        match change {
            Change::Told(fact, trace) => Some(Host::event(fact, trace.as_deref(), sequence, moment)),
            Change::Kept(_) => None,
        }
    }

    async fn perform(&self, effect: Effect, context: EffectContext) -> Result<Outcome, EffectError> {
        match effect {
            Effect::Items { job, ranges, again, base } => {
                let base = base.as_deref().unwrap_or(job.suffix());
                load::load(&self.store, context.address.tenant(), (&job, base), &ranges, again).await
            }
            Effect::IsOpen { session } => {
                load::is_open(&self.store, context.address.tenant(), &session).await
            }
            Effect::Remove { job, from, to } => {
                let blobs = self.host.engine.blobs.as_ref();
                removal::remove(&self.store, blobs, context.address.tenant(), &job, (from, to)).await
            }
            other => self.host.engine.perform::<Self>(other, context).await,
        }
    }

    fn is_over(&self, state: &State) -> bool {
        state.work.as_ref().is_some_and(|work| work.closed)
    }

    fn is_forgotten(&self, state: &State) -> bool {
        state.work.is_none() && state.preparation.is_none()
    }
}
