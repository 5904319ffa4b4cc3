//! One attempt of an item of a job: runs the job's agent in a thread of its own, and tells the job how that ended. What
//! becomes of the item is the job's to say.

mod decide;

use async_trait::async_trait;
use cadre_cluster::{
    address::Address,
    feed::NewEvent,
    host::{Decision, EffectContext, EffectError, Entity, Input, Moment},
};
use serde::{Deserialize, Serialize};

use crate::{
    control::Error,
    entity::{Host, ItemSpec, Message, Parent, kind},
    exec::{Change, Effect, Outcome, Response, Run},
    fact::{
        id::{ItemId, JobId, RunId, SessionId},
        status::SubagentStatus,
    },
};

/// The kind.
pub struct JobItem(pub Host);

/// An attempt as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ItemState {
    /// What it needs to go on; `None` before it is started, and after it is forgotten.
    pub work: Option<Work>,
}

/// What an attempt has to remember.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Its session.
    pub session: SessionId,
    /// The job.
    pub parent: Option<Parent>,
    /// Which item and which attempt it is.
    pub spec: ItemSpec,
    /// How it stands.
    pub status: SubagentStatus,
    /// What it runs, or ran.
    pub run: Run,
    /// Whether the job knows that its tree is closed.
    pub closed: bool,
}

/// What a caller asks of an attempt. It is started and closed by its job alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum ItemCommand {
    /// Somebody has decided.
    Respond(Response),
}

/// What a caller is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemReply {
    /// Its job.
    pub job: JobId,
    /// The item.
    pub item: ItemId,
    /// The attempt.
    pub run: RunId,
    /// How it stands.
    pub status: SubagentStatus,
}

cadre_cluster::stored! { ItemState: "item", ItemCommand: "item command", ItemReply: "item reply" }

#[async_trait]
impl Entity for JobItem {
    const KIND: &'static str = kind::ITEM;
    type State = ItemState;
    type Command = ItemCommand;
    type Reply = ItemReply;
    type Refusal = Error;
    type Message = Message;
    type Fact = Change<Option<Work>>;
    type Effect = Effect;
    type Outcome = Outcome;

    fn decide(
        &self,
        state: &ItemState,
        input: Input<Self>,
        moment: &Moment<'_>,
    ) -> Result<Decision<Self>, Error> {
        decide::decide(&self.0, state, input, moment)
    }

    fn is_kept(refusal: &Error) -> bool {
        !refusal.retryable
    }

    fn apply(state: &mut ItemState, change: &Change<Option<Work>>) {
        if let Change::Kept(work) = change {
            state.work = (**work).clone();
        }
    }

    fn feed(&self, state: &ItemState, _: &Address) -> Option<String> {
        state.work.as_ref().map(|work| work.session.to_string())
    }

    fn event(&self, change: &Change<Option<Work>>, sequence: u64, moment: &Moment<'_>) -> Option<NewEvent> {
        match change {
            Change::Told(fact, trace) => Some(Host::event(fact, trace.as_deref(), sequence, moment)),
            Change::Kept(_) => None,
        }
    }

    async fn perform(&self, effect: Effect, context: EffectContext) -> Result<Outcome, EffectError> {
        self.0.engine.perform::<Self>(effect, context).await
    }

    fn is_over(&self, state: &ItemState) -> bool {
        state.work.as_ref().is_none_or(|work| work.closed)
    }

    fn is_forgotten(&self, state: &ItemState) -> bool {
        state.work.is_none()
    }
}
