//! A task: work with an objective, tried in attempts, that may wait for other tasks and have tasks below it.
//!
//! An attempt is run by an agent, or by a worker outside that says how it goes (`start_task`, `append_task_progress`,
//! `complete_task`, `fail_task`). A task ends once, after its attempt and everything below it; only `retry_task` opens it
//! again.

mod acceptance;
mod attempt;
mod below;
mod change;
mod create;
mod cycle;
mod decide;
mod finish;
mod graph;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use cadre_cluster::{
    address::Address,
    feed::NewEvent,
    host::{Decision, EffectContext, EffectError, Entity, Input, Moment},
    store::Store,
};
use serde::{Deserialize, Serialize};

pub use self::{
    cycle::{SearchError, blocks},
    graph::BLOCKS,
};
use super::{Host, Lineage, Message, Named, Parent, Start, kind};
use crate::{
    control::{
        Error,
        args::{AppendTaskProgress, CompleteTask, CreateTask, SpawnSubagent, UpdateTask},
    },
    exec::{Budget, Change, Children, Draft, Effect, Outcome, Response, Run, Source},
    fact::{
        Failure,
        id::{ActionId, JobId, RunId, SessionId, SubagentId, TaskId, ThreadId, TurnId},
        status::TaskStatus,
    },
    view::TaskView,
};

/// The kind.
pub struct Task {
    host: Host,
    store: Store,
}

impl Task {
    /// With these boundaries; those who wait for a task are looked up in this store.
    pub fn new(host: Host, store: Store) -> Self {
        Self { host, store }
    }
}

/// A task as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// What is served.
    pub view: Named<TaskView>,
    /// What it needs to go on; `None` before it is created.
    pub work: Option<Work>,
}

/// What a task has to remember.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Its id.
    pub id: TaskId,
    /// Its session.
    pub session: SessionId,
    /// Who started it.
    pub parent: Option<Parent>,
    /// Where it comes from.
    pub lineage: Lineage,
    /// A hash of what it was created with, to recognise the same request.
    pub fingerprint: u128,
    /// What it shall be.
    pub spec: Named<Box<CreateTask>>,
    /// Which agent runs it; `None` when somebody outside does.
    pub agent: Option<String>,
    /// What an attempt is given.
    pub source: Source,
    /// How far it is from a session's own turn.
    pub depth: u32,
    /// How it stands.
    pub status: TaskStatus,
    /// How it stood when it was paused.
    pub before_pause: Option<TaskStatus>,
    /// The decision that it was last said to wait for.
    #[serde(default)]
    pub waits_for: Option<ActionId>,
    /// Whether it is to start as soon as it can.
    pub wanted: bool,
    /// How many attempts were started.
    pub attempts: u32,
    /// How many of them count against the policy: a retry by hand grants it anew.
    pub attempts_spent: u32,
    /// The attempt that runs or ran last.
    pub attempt: Option<Attempt>,
    /// Tasks below it, and subagents that were started for it by command.
    pub children: Children,
    /// The tasks that it waits for, and how they stand; `None` while that is not known.
    pub needs: BTreeMap<TaskId, Option<TaskStatus>>,
    /// The tasks that wait for it.
    pub watchers: BTreeSet<TaskId>,
    /// How it will end once everything below is closed.
    pub ending: Option<Finish>,
    /// Whether its parent knows that its tree is closed.
    pub closed: bool,
    /// Whether more tasks wait for it than are named here.
    #[serde(default)]
    pub has_more_watchers: bool,
    /// What those who started it grant each of its attempts, when that is less than what the node allows.
    #[serde(default)]
    pub budget: Option<Budget>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its id.
    pub run: RunId,
    /// Which, from 1.
    pub number: u32,
    /// What runs it; `None` when somebody outside does.
    pub agent: Option<Run>,
    /// Whether it goes on.
    pub open: bool,
    /// Since when.
    pub since: cadre_cluster::clock::Timestamp,
}

/// How a task ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finish {
    /// The terminal status.
    pub status: TaskStatus,
    /// What went wrong, if anything.
    pub error: Option<Failure>,
    /// Why.
    pub reason: Option<String>,
    /// Who wanted it.
    pub by: Option<String>,
    /// What was said about the result.
    pub result: Named<Option<Box<CompleteTask>>>,
    /// Whether what is below is left alone.
    pub alone: bool,
}

/// What a caller asks of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Be.
    Create(Box<Start>),
    /// Have a task below.
    AddChild(TaskId, Box<Start>),
    /// Have a job below.
    AddJob(JobId, Box<Start>),
    /// Be otherwise.
    Update(Named<Box<UpdateTask>>),
    /// Begin.
    Start {
        /// Who wants it.
        by: String,
        /// Why.
        #[serde(default)]
        reason: Option<String>,
    },
    /// This is how far it is.
    Progress(Named<Box<AppendTaskProgress>>),
    /// Hold on.
    Pause {
        /// Why.
        reason: Option<String>,
        /// Who wants it.
        by: String,
    },
    /// Go on.
    Resume {
        /// Who wants it.
        by: String,
        /// Why.
        #[serde(default)]
        reason: Option<String>,
    },
    /// End.
    Cancel {
        /// Why.
        reason: Option<String>,
        /// Whether everything below ends, too.
        propagate: bool,
        /// Who wants it.
        by: String,
    },
    /// Try again.
    Retry {
        /// Why.
        reason: Option<String>,
        /// Who wants it.
        by: String,
    },
    /// It is done.
    Complete {
        /// With what.
        args: Named<Box<CompleteTask>>,
        /// Who says so.
        by: String,
    },
    /// It did not work.
    Fail {
        /// Why.
        error: Failure,
        /// Who says so.
        by: String,
    },
    /// Have to do with another task or thing.
    Link {
        /// How: `blocks` means that the target blocks this task.
        kind: String,
        /// What.
        target: String,
        /// Why.
        reason: Option<String>,
    },
    /// Have nothing to do with it any more.
    Unlink {
        /// How.
        kind: String,
        /// What.
        target: String,
        /// Why.
        #[serde(default)]
        reason: Option<String>,
    },
    /// Somebody has decided.
    Respond(Response),
    /// Start a subagent for it.
    Spawn {
        /// Which.
        args: Named<Box<SpawnSubagent>>,
        /// What it is given.
        source: Source,
    },
}

/// What a caller is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// How the task stands.
    Task {
        /// Which.
        task: TaskId,
        /// How.
        status: TaskStatus,
        /// Its current attempt.
        run: Option<RunId>,
        /// Its session.
        #[serde(default)]
        session: Option<SessionId>,
        /// Which attempt that is, from 1.
        #[serde(default)]
        attempt: Option<u32>,
        /// Where the attempt runs, when it runs here.
        #[serde(default)]
        place: Option<(ThreadId, TurnId)>,
    },
    /// A subagent was started.
    Spawned {
        /// Which.
        subagent: SubagentId,
        /// Its thread.
        thread: ThreadId,
        /// Its turn.
        turn: TurnId,
    },
}

cadre_cluster::stored! { State: "task", Command: "task command", Reply: "task reply" }

/// A task that a model asks for: its id and what it shall be.
pub fn from_call(args: &str, draft: &mut Draft<'_>) -> Result<(TaskId, CreateTask), Failure> {
    let value =
        serde_json::from_str(args).map_err(|error| Failure::new("invalid_argument", error.to_string()))?;
    let spec: CreateTask =
        crate::control::parse(value).map_err(|error| Failure::new("invalid_argument", error.message))?;
    let task = spec.task_id.clone().unwrap_or_else(|| draft.ids.next());
    Ok((task, spec))
}

#[async_trait]
impl Entity for Task {
    const KIND: &'static str = kind::TASK;
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
        match effect {
            Effect::Watchers { task, after } => {
                watch::find(&self.store, context.address.tenant(), &task, after.as_ref()).await
            }
            Effect::Cycle { task } => cycle::find(&self.store, context.address.tenant(), &task).await,
            other => self.host.engine.perform::<Self>(other, context).await,
        }
    }

    fn is_over(&self, state: &State) -> bool {
        state.work.as_ref().is_some_and(|work| work.closed)
    }
}
