//! A session: a durable container of threads, each with one running turn and a queue behind it.

mod decide;
mod evaluate;
mod expire;
mod history;
mod interrupt;
mod past;
mod submit;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use async_trait::async_trait;
use bytes::Bytes;
use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    feed::NewEvent,
    host::{Decision, EffectContext, EffectError, Entity, Input, Moment},
};
use serde::{Deserialize, Serialize};

pub(crate) use self::decide::fingerprint;
pub use self::{
    expire::Expiry,
    history::{Compaction, Rollback, Seen, at_rest},
    interrupt::not_of_thread,
    past::Past,
};
use super::{Host, Message, Named, kind};
use crate::{
    control::{
        Error,
        args::{CreateSession, InterruptTurn, SpawnSubagent, SubmitTurn, UpdateSession},
    },
    exec::{Budget, Change, Children, Effect, Failures, Outcome, Response, Run, Source},
    fact::{
        id::{SessionId, SubagentId, ThreadId, TurnId},
        payload::PermissionEvaluated,
    },
    view::SessionView,
};

/// The kind.
pub struct Session(pub Host);

/// A session as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// What is served.
    pub view: Named<SessionView>,
    /// What it needs to go on; `None` before it is created.
    pub work: Option<Work>,
}

/// What a session has to remember.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Its id.
    pub id: SessionId,
    /// A hash of what it was created with, to recognise the same request.
    pub fingerprint: u128,
    /// Whether it takes no new work.
    pub archived: bool,
    /// The agent of turns that name none.
    pub agent: Option<String>,
    /// Its threads, in the order of their creation.
    pub threads: Vec<Thread>,
    /// Children that belong to no turn.
    pub loose: Children,
    /// Turns that callers have named lately, to recognise the same request.
    pub named: VecDeque<NamedTurn>,
}

/// A turn that a caller has named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NamedTurn {
    /// Its name.
    pub turn: TurnId,
    /// Its thread.
    pub thread: ThreadId,
    /// A hash of the request, to recognise the same one.
    pub fingerprint: u128,
    /// The turn that heard its input instead, when it was steered there.
    #[serde(default)]
    pub answered: Option<TurnId>,
}

impl Work {
    /// Whether a turn runs or waits, or children of it live on.
    pub fn has(&self, turn: &TurnId) -> bool {
        self.is_open(turn) || self.threads.iter().any(|thread| thread.expects(turn))
    }

    /// Whether a turn runs, or children of it live on.
    pub fn is_open(&self, turn: &TurnId) -> bool {
        self.threads.iter().any(|thread| {
            let mut runs = thread.run.iter().chain(&thread.lingering);
            runs.any(|run| run.turn == *turn)
        })
    }
}

/// A thread of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    /// Its id.
    pub id: ThreadId,
    /// The turn that runs.
    pub run: Option<Run>,
    /// The turns that wait, the next one first.
    pub queue: VecDeque<Queued>,
    /// Turns that are over while children of theirs live on.
    pub lingering: Vec<Run>,
    /// What the last turn was given, if it did not complete: what a resume would try again.
    pub unfinished: Option<Unfinished>,
    /// What later turns see of those that are over.
    #[serde(default)]
    pub past: Past,
}

impl Thread {
    /// Where a turn waits, from 1.
    pub fn place_of(&self, turn: &TurnId) -> Option<u32> {
        let at = self.queue.iter().position(|queued| queued.turn == *turn)?;
        Some(at as u32 + 1)
    }

    /// Whether a turn of it runs or waits.
    pub fn expects(&self, turn: &TurnId) -> bool {
        self.run.as_ref().is_some_and(|run| run.turn == *turn)
            || self.queue.iter().any(|queued| queued.turn == *turn)
    }
}

/// A turn that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Queued {
    /// Its id.
    pub turn: TurnId,
    /// Which agent.
    pub agent: String,
    /// Which model of it.
    pub model: Option<String>,
    /// What it is given.
    pub source: Source,
    /// How urgent: smaller comes first.
    pub rank: u8,
    /// Until when it has time.
    pub deadline: Option<Timestamp>,
    /// Which attempt at the same input.
    pub attempt: u32,
    /// What it may use up.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// What failed how often in the attempts before.
    #[serde(default)]
    pub failures: Failures,
}

/// Input whose turn did not complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unfinished {
    /// Which agent.
    pub agent: String,
    /// What it was given.
    pub source: Source,
    /// Which attempt it was.
    pub attempt: u32,
    /// What it was allowed to use up, and what a resume is.
    #[serde(default)]
    pub budget: Option<Budget>,
    /// Which turn it was.
    #[serde(default)]
    pub turn: Option<TurnId>,
    /// Which model of the agent it was to ask, if anybody cared.
    #[serde(default)]
    pub model: Option<String>,
    /// What failed how often, in all attempts.
    #[serde(default)]
    pub failures: Failures,
}

/// What a caller asks of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Be.
    Create(Named<Box<CreateSession>>),
    /// Be otherwise.
    Update(Named<Box<UpdateSession>>),
    /// Take no new work.
    Archive,
    /// Do this.
    Submit {
        /// What; its input is in `source`.
        args: Named<Box<SubmitTurn>>,
        /// What it is given.
        source: Source,
        /// From where.
        from: String,
    },
    /// Stop.
    Interrupt {
        /// What.
        args: Named<Box<InterruptTurn>>,
        /// Who wants it.
        by: String,
    },
    /// Go on with a thread.
    Resume {
        /// Which.
        thread: ThreadId,
        /// Who wants it.
        by: String,
    },
    /// Forget a turn that waits.
    RemoveQueued {
        /// Of which thread.
        thread: ThreadId,
        /// Which.
        turn: TurnId,
        /// Who wants it.
        by: String,
    },
    /// Put a turn that waits to the front.
    PromoteQueued {
        /// Of which thread.
        thread: ThreadId,
        /// Which.
        turn: TurnId,
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
    /// Keep facts that others have found about the session, as stored events: exports, benchmarks.
    Record(Vec<Bytes>),
    /// It was judged whether something may be done.
    Evaluated {
        /// In which thread; by default the first, or that of the turn.
        thread: Option<ThreadId>,
        /// In which turn; by default in none that there is.
        turn: Option<TurnId>,
        /// The judgement.
        evaluated: Named<Box<PermissionEvaluated>>,
    },
    /// A blob of the session is kept no more.
    Expire(Expiry),
    /// Take turns back.
    Rollback(Box<Rollback>),
    /// Let a summary stand for turns.
    Compact(Box<Compaction>),
}

/// What a caller is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Done.
    Done,
    /// A turn was taken.
    Submitted {
        /// In which thread.
        thread: ThreadId,
        /// Which turn.
        turn: TurnId,
        /// Where it waits, from 1; `None` when it does not.
        position: Option<u32>,
    },
    /// A turn is being stopped, or there was nothing to stop.
    Interrupted {
        /// In which thread.
        thread: Option<ThreadId>,
        /// Which turn.
        turn: Option<TurnId>,
        /// The waiting turns that were removed.
        removed: Vec<TurnId>,
    },
    /// A thread goes on, or there was nothing to go on with.
    Resumed {
        /// With which turn.
        turn: Option<TurnId>,
        /// Whether something was started.
        started: bool,
        /// Whether what was started waits.
        waits: bool,
    },
    /// A child was started.
    Spawned {
        /// Which.
        subagent: SubagentId,
        /// Its thread.
        thread: ThreadId,
        /// Its turn.
        turn: TurnId,
    },
}

cadre_cluster::stored! { State: "session", Command: "session command", Reply: "session reply" }

#[async_trait]
impl Entity for Session {
    const KIND: &'static str = kind::SESSION;
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
            // A turn that is over was written as a record of its own when that was decided.
            Change::Told(fact, trace) => drop(state.view.apply_traced(fact, trace.as_deref())),
            Change::Kept(work) => state.work = Some((**work).clone()),
        }
    }

    fn feed(&self, _: &State, address: &Address) -> Option<String> {
        Some(address.id().to_owned())
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
}
