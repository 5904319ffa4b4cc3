//! What a run is made of, and what is left of it.

use cadre_cluster::clock::Timestamp;

use super::{Failures, History, Phase, Run, Source};
use crate::{
    exec::{Budget, Children, Draft, Used},
    fact::{
        Ids,
        id::{ThreadId, TurnId},
        payload::TurnStarted,
    },
};

/// What a run is made of.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its thread.
    pub thread: ThreadId,
    /// Its turn.
    pub turn: TurnId,
    /// What it is part of.
    pub around: Ids,
    /// Which agent.
    pub agent: String,
    /// Which model of it, if somebody cares.
    pub model: Option<String>,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// How far from a session's own turn.
    pub depth: u32,
    /// What it is given.
    pub source: Source,
    /// How often a step is tried again.
    pub retries_max: u32,
    /// What it may use up, when that is less than what the node allows.
    pub budget: Option<Budget>,
    /// The turns before it, when it knows of any.
    pub history: Option<History>,
    /// Until when it has time.
    pub deadline: Option<Timestamp>,
}

/// How often a step is tried again by default.
pub const STEP_RETRIES_MAX: u32 = 3;

impl Run {
    fn new(new: NewRun, budget: Budget) -> Self {
        Self {
            thread: new.thread,
            turn: new.turn,
            around: new.around,
            agent: new.agent,
            attempt: new.attempt,
            depth: new.depth,
            used: Used::default(),
            children: Children::default(),
            phase: Phase::New,
            source: new.source,
            model_asked: new.model.clone(),
            model: new.model,
            provider: None,
            position: Vec::new(),
            request: None,
            failures: Failures::new(),
            tries: 0,
            retries_max: new.retries_max,
            budget: budget.within(new.budget),
            calls: Vec::new(),
            steered: Vec::new(),
            has_catalog: false,
            paused: false,
            ending: None,
            history: new.history,
        }
    }

    /// What is left of a turn that is over and whose children are not, or not any more.
    pub fn left_of(thread: ThreadId, turn: TurnId) -> Self {
        let new = NewRun {
            thread,
            turn,
            around: Ids::default(),
            agent: String::new(),
            model: None,
            attempt: 1,
            depth: 0,
            source: Source::Inline(Vec::new()),
            retries_max: 0,
            budget: None,
            history: None,
            deadline: None,
        };
        Self { phase: Phase::Over, ..Self::new(new, Budget::default()) }
    }

    /// Begins. `with_catalog` says the tools right away; otherwise they are said before the first is called.
    pub fn begin(new: NewRun, source: &str, with_catalog: bool, draft: &mut Draft<'_>) -> Self {
        let deadline = new.deadline;
        let mut run = Self::new(new, draft.engine.budget);
        let started = TurnStarted {
            agent: run.agent.clone(),
            attempt: run.attempt,
            source: Some(source.to_owned()),
            model: run.model.clone(),
        };
        run.tell(draft, started);
        if let Some(deadline) = deadline {
            draft.set_timer(run.timer("deadline"), deadline);
        }
        if with_catalog {
            run.say_catalog(draft);
        }
        run
    }

    /// Another attempt at the same work keeps what is known of failures, and children that live on. What the former one was
    /// told does not hold for it.
    pub fn after(mut self, former: &Self) -> Self {
        self.failures = former.failures.clone();
        self.children = former.children.clone();
        self.children.forget_order();
        self
    }

    /// Another attempt at the same work, of which no more is kept than what has failed how often.
    pub fn knowing(self, failures: Failures) -> Self {
        Self { failures, ..self }
    }

    /// Without what it was given: it will not run again.
    pub fn without_source(self) -> Self {
        Self { source: Source::Inline(Vec::new()), ..self }
    }

    /// What has to be remembered of a run that is over while children of it live on.
    pub fn remains(self) -> Self {
        Self { children: self.children, ..Self::left_of(self.thread, self.turn) }
    }
}
