//! A subagent: a child context with a thread of its own, that runs an agent and tells its parent how it ended.

mod decide;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use cadre_cluster::{
    address::Address,
    feed::NewEvent,
    host::{Decision, EffectContext, EffectError, Entity, Input, Moment},
};
use serde::{Deserialize, Serialize};

use super::{Host, Lineage, Message, Named, Parent, SubagentSpec, kind};
use crate::{
    control::{Error, args::SpawnSubagent},
    exec::{Change, Effect, Outcome, Response, Run, Source},
    fact::{
        Part,
        id::{SessionId, SubagentId, ThreadId, TurnId},
        status::SubagentStatus,
    },
    view::SubagentView,
};

/// The kind.
pub struct Subagent(pub Host);

/// A subagent as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// What is served.
    pub view: Named<SubagentView>,
    /// What it needs to go on; `None` before it is started.
    pub work: Option<Work>,
}

/// What a subagent has to remember.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Its session.
    pub session: SessionId,
    /// Who started it.
    pub parent: Option<Parent>,
    /// Where it comes from.
    pub lineage: Lineage,
    /// What it was asked to be.
    pub spec: SubagentSpec,
    /// How it stands.
    pub status: SubagentStatus,
    /// What it runs, or ran last.
    pub run: Run,
    /// Whether its parent knows that its tree is closed.
    pub closed: bool,
}

/// What a caller asks of a subagent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Hear this.
    Input {
        /// What.
        input: Vec<Part>,
        /// From whom.
        by: String,
    },
    /// Try again.
    Resume {
        /// What it is given this time, if not the same as before.
        source: Option<Source>,
        /// Why.
        reason: Option<String>,
        /// Who wants it.
        by: String,
    },
    /// End.
    Close {
        /// Why.
        reason: Option<String>,
        /// Who wants it.
        by: String,
    },
    /// Somebody has decided.
    Respond(Response),
    /// Start a child.
    Spawn {
        /// Which.
        args: Named<Box<SpawnSubagent>>,
        /// What it is given.
        source: Source,
    },
}

/// What a caller is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// The subagent: this one, or the child that was started.
    pub subagent: SubagentId,
    /// Its thread.
    pub thread: ThreadId,
    /// Its current turn.
    pub turn: TurnId,
    /// How it stands.
    pub status: SubagentStatus,
    /// Its session.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// Which attempt, from 1.
    #[serde(default)]
    pub attempt: Option<u32>,
}

cadre_cluster::stored! { State: "subagent", Command: "subagent command", Reply: "subagent reply" }

#[async_trait]
impl Entity for Subagent {
    const KIND: &'static str = kind::SUBAGENT;
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
        decide::decide(&self.0, state, input, moment)
    }

    fn is_kept(refusal: &Error) -> bool {
        !refusal.retryable
    }

    fn apply(state: &mut State, change: &Change<Work>) {
        match change {
            Change::Told(fact, _) => state.view.apply(fact),
            Change::Kept(work) => state.work = Some((**work).clone()),
        }
    }

    fn feed(&self, state: &State, _: &Address) -> Option<String> {
        state.work.as_ref().map(|work| work.session.to_string())
    }

    fn event(&self, change: &Change<Work>, sequence: u64, moment: &Moment<'_>) -> Option<NewEvent> {
        match change {
            Change::Told(fact, trace) => Some(Host::event(fact, trace.as_deref(), sequence, moment)),
            Change::Kept(_) => None,
        }
    }

    async fn perform(&self, effect: Effect, context: EffectContext) -> Result<Outcome, EffectError> {
        self.0.engine.perform::<Self>(effect, context).await
    }

    fn is_over(&self, state: &State) -> bool {
        state.work.as_ref().is_some_and(|work| work.closed)
    }
}
