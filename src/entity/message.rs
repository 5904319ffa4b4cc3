//! What entities tell each other.

use cadre_cluster::address::Address;
use serde::{Deserialize, Serialize};

use super::{Named, job::NewJob, session::fingerprint};
use crate::{
    control::args::CreateTask,
    exec::{Budget, Draft, Run, Source},
    fact::{
        Failure,
        id::{ItemId, JobId, RunId, SessionId, SubagentId, TaskId, ThreadId, TurnId},
        status::{SubagentStatus, TaskStatus},
    },
};

/// A message between entities of the runtime. Every kind takes the same type, so that a parent need not know what
/// its children are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// To itself: there is more to do than one step should.
    GoOn {
        /// For which turn; `None` for what belongs to none.
        turn: Option<TurnId>,
    },
    /// From a parent: begin.
    Start(Box<Start>),
    /// From a parent: end, with everything below.
    Close(Close),
    /// From a child: it has ended.
    ChildEnded {
        /// Whose child it is.
        parent: Slot,
        /// Which child.
        id: String,
        /// How.
        status: SubagentStatus,
        /// Whether children of its own go on.
        live: bool,
        /// What went wrong, where a parent cares.
        error: Option<Failure>,
    },
    /// From a child that had ended: now its tree is closed, too.
    ChildClosed {
        /// Whose child it is.
        parent: Slot,
    },
    /// From a child that had ended: it goes on, or somebody below it does.
    ChildReopened {
        /// Whose child it is.
        parent: Slot,
        /// Which child, and how.
        again: Reopened,
    },
    /// From a task: tell me when you end.
    Watch {
        /// Who waits.
        task: TaskId,
    },
    /// From a task: I do not wait for you any more.
    Unwatch {
        /// Who waited.
        task: TaskId,
    },
    /// From a task that somebody waits for.
    DependencyEnded {
        /// Which task.
        task: TaskId,
        /// How.
        status: TaskStatus,
    },
    /// From a job to an attempt that is closed: nobody needs what is known of you any more.
    Forget,
}

/// How a child goes on that had ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reopened {
    /// Which child.
    pub id: String,
    /// As what it had ended, unless only somebody below it goes on; a job that goes on with some of its items says `None`,
    /// too: for who waits for it, it has ended as it first had.
    pub ended_as: Option<SubagentStatus>,
    /// Whether its tree had been closed.
    pub was_closed: bool,
}

/// Which group of which turn of a parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The turn, if the group belongs to one.
    pub turn: Option<TurnId>,
    /// The group.
    pub group: u32,
}

/// Who started an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Where it is.
    pub address: Address,
    /// What it is to it.
    pub slot: Slot,
}

impl Parent {
    /// Whether that is whose child an entity is: only its parent closes it.
    pub fn is(parent: Option<&Self>, other: &Address) -> bool {
        parent.is_some_and(|parent| parent.address == *other)
    }

    /// Tells it, once, that the tree of a child that has ended is closed.
    pub fn tell_closed(parent: Option<&Self>, closed: &mut bool, draft: &mut Draft<'_>) {
        if !std::mem::replace(closed, true)
            && let Some(Self { address, slot }) = parent.cloned()
        {
            draft.send(address, Message::ChildClosed { parent: slot });
        }
    }
}

/// What an entity is started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The session it belongs to.
    pub session: SessionId,
    /// Who starts it.
    pub parent: Option<Parent>,
    /// The parent's ids, for facts.
    pub lineage: Lineage,
    /// Which agent it runs.
    pub agent: String,
    /// What it is given.
    pub input: Source,
    /// How far it is from a session's own turn.
    pub depth: u32,
    /// What it shall be.
    pub what: Child,
    /// What a run of it may use up, when that is less than what the node allows.
    #[serde(default)]
    pub budget: Option<Budget>,
}

impl Start {
    /// A hash by which the same request is recognised.
    pub fn fingerprint(&self) -> u128 {
        fingerprint(&(&self.what, &self.input, &self.session))
    }

    /// About how much it takes as a message.
    pub fn size(&self) -> usize {
        let what = match &self.what {
            Child::Job(job) => job.spec.instruction.len(),
            _ => 0,
        };
        400 + self.input.size() + what
    }
}

/// Where an entity comes from, as its facts say it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The thread that started it.
    pub thread: Option<ThreadId>,
    /// The turn that started it.
    pub turn: Option<TurnId>,
    /// The task that it works for.
    pub task: Option<TaskId>,
    /// The subagent that started it.
    pub subagent: Option<SubagentId>,
}

/// What a child shall be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Child {
    /// A subagent.
    Subagent(SubagentSpec),
    /// A task.
    Task(Named<Box<CreateTask>>),
    /// An item of a job.
    Item(ItemSpec),
    /// A job, whose items are written.
    Job(NewJob),
}

/// What a subagent is asked to be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubagentSpec {
    /// What it is for.
    pub role: Option<String>,
    /// What people call it.
    pub nickname: Option<String>,
    /// How it is kept apart.
    pub isolation: Option<String>,
    /// How its model is chosen, as JSON text.
    pub model_policy: Option<String>,
    /// How long it may take.
    pub deadline_ms: Option<u64>,
    /// Its thread, when that does not follow from its id.
    pub thread: Option<ThreadId>,
    /// Its first turn, when that does not follow from its id.
    pub turn: Option<TurnId>,
    /// A hash of the request that it was asked for with, to recognise the same one; 0 when there was none.
    pub fingerprint: u128,
}

/// What an item of a job is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemSpec {
    /// Which job.
    pub job: JobId,
    /// Which item.
    pub item: ItemId,
    /// Which run of it.
    pub run: RunId,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// How long it may take.
    pub deadline_ms: Option<u64>,
    /// How often a step of it is tried again: not at all when the job tries items again as a whole.
    pub retries_max: u32,
    /// What the attempt before left, which knows what has failed how often.
    pub former: Option<Box<Run>>,
}

/// An order to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Close {
    /// Why.
    pub reason: Option<String>,
    /// Who wants it.
    pub by: String,
}

impl Close {
    /// How much of a reason is remembered, in characters.
    const REASON_CHARS_MAX: usize = 128;

    /// As it is remembered for whoever has to be told later: an entity may hold many of these (P9).
    pub fn kept(&self) -> Self {
        let shorter = |reason: &String| reason.chars().take(Self::REASON_CHARS_MAX).collect();
        Self { reason: self.reason.as_ref().map(shorter), by: self.by.clone() }
    }
}

cadre_cluster::stored! { Message: "runtime message" = 2 }
