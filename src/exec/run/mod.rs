//! One run of an agent: from its input to its end.
//!
//! ```text
//! Ready ─► ask the model ─► Calls ─► … all observed ─► Ready
//!             │    └ said a part ─► Pause ─► Ready
//!             └ failed ─► Retry ─► Ready          any ─► Closing ─► Over
//! ```
//!
//! [`Run::advance`] goes on until there is something to wait for: a model or a tool outside, a timer, an answer of
//! somebody, children. What it waits for comes back through one of the `take_…` methods, after which the owner calls
//! [`Run::advance`] again. A run that ends says so once.

mod action;
mod budget;
mod calls;
mod close;
mod context;
mod ending;
mod hooks;
mod join;
mod model;
mod result;
mod source;
mod start;
mod tool;

use std::collections::VecDeque;

use cadre_cluster::{clock::Timestamp, host::EffectResult};
use serde::{Deserialize, Serialize};

use self::source::part_size;
pub use self::{
    action::{Asked, Response},
    context::History,
    ending::Ending,
    source::Source,
    start::{NewRun, STEP_RETRIES_MAX},
};
use super::{
    Budget, Children, Draft, OpenCall, Outcome, Used,
    call::CallState,
    router::{Route, RoutingRequest},
};
use crate::{
    control::Error,
    entity::{Lineage, Message},
    fact::{
        Class, Failure, Ids, Part,
        id::{RequestId, ThreadId, TurnId},
        payload::{RoutingNotPossible, RoutingSingleCandidate, ToolCatalogResolved},
        scope::{ToolScope, TurnScope},
    },
    scripted::Join,
};

/// A run in the state of its owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its thread.
    pub thread: ThreadId,
    /// Its turn.
    pub turn: TurnId,
    /// What it is part of: task and attempt, subagent, job and item.
    pub around: Ids,
    /// Which agent.
    pub agent: String,
    /// Which attempt at the same work, from 1.
    pub attempt: u32,
    /// How far it is from a session's own turn.
    pub depth: u32,
    /// What it has used up.
    pub used: Used,
    /// Whom it has started.
    pub children: Children,
    phase: Phase,
    source: Source,
    model: Option<String>,
    provider: Option<String>,
    position: Vec<u32>,
    request: Option<Request>,
    /// How often the model failed at a position, in all attempts.
    failures: Failures,
    /// How often the request of this moment has failed in this attempt.
    tries: u32,
    retries_max: u32,
    budget: Budget,
    calls: Vec<OpenCall>,
    /// Input that came meanwhile, for the model to see next.
    steered: Vec<Part>,
    has_catalog: bool,
    paused: bool,
    ending: Option<Ending>,
    /// The turns before it.
    #[serde(default)]
    history: Option<History>,
    /// The model that somebody asked for; `model` is the one that it was routed to.
    #[serde(default)]
    model_asked: Option<String>,
}

/// How often the model failed where, as hashes of positions: the last few of them.
pub type Failures = VecDeque<(u64, u32)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    New,
    Ready,
    /// The model is being asked.
    Model,
    Pause,
    Retry,
    Calls,
    /// It is to end once everybody below is closed.
    Closing,
    /// It has done what it had to, and ends once those are closed who were only to race each other.
    Leaving,
    Over,
}

/// A model request that is not complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Request {
    id: RequestId,
    since: Timestamp,
    said_bytes: u64,
    attempt: u32,
    /// How much of what was steered it carries.
    heard: usize,
    /// What its answer has used up so far.
    #[serde(default)]
    used: Used,
}

impl Run {
    /// Does not ask the model any more until it may again.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// What it was given.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The model that somebody asked for, if anybody did.
    pub fn model_asked(&self) -> Option<&str> {
        self.model_asked.as_deref()
    }

    /// How often its model failed where, in this attempt and those before.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether it is about to be over.
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing | Phase::Leaving | Phase::Over)
    }

    /// Where its children come from.
    pub fn lineage(&self) -> Lineage {
        Lineage {
            thread: Some(self.thread.clone()),
            turn: Some(self.turn.clone()),
            task: self.around.task().cloned(),
            subagent: self.around.subagent().cloned(),
        }
    }

    /// Input for the model to see at its next step. What it has not seen yet is bounded (P9).
    pub fn steer(&mut self, input: Vec<Part>) -> Result<(), Error> {
        let waits = self.steered.iter().chain(&input).map(part_size).sum::<usize>();
        if waits > Source::INLINE_BYTES_MAX {
            return Err(Error::too_large(Source::INLINE_BYTES_MAX as u64, waits as u64));
        }
        self.steered.extend(input);
        Ok(())
    }

    /// Goes on until there is something to wait for. `Some` once, when it has ended.
    pub fn advance(&mut self, draft: &mut Draft<'_>) -> Option<Ending> {
        loop {
            if !self.children.work(Some(&self.turn), draft) {
                self.go_on(draft);
                return None;
            }
            match self.phase {
                Phase::New => match self.prepare(draft) {
                    Ok(phase) => self.phase = phase,
                    Err(ending) => return Some(self.end(ending, draft)),
                },
                Phase::Ready if self.paused => return None,
                Phase::Ready => {
                    if let Some(ending) = self.over_budget(draft) {
                        return self.close(ending, draft);
                    }
                    if draft.quota.answers == 0 {
                        self.go_on(draft);
                        return None;
                    }
                    draft.quota.answers -= 1;
                    if let Some(ending) = self.ask(draft) {
                        return self.leave(ending, draft);
                    }
                }
                Phase::Calls => {
                    self.observe_joins(draft);
                    if let Some(ending) = self.start_calls(draft) {
                        return self.close(ending, draft);
                    }
                    if self.calls.iter().any(|call| call.state != CallState::Done) {
                        if !self.children.is_settled() {
                            continue;
                        }
                        return None;
                    }
                    self.close_calls(draft);
                    self.phase = Phase::Ready;
                }
                Phase::Closing | Phase::Leaving => {
                    let live = match self.phase {
                        Phase::Leaving => self.children.live_of(Join::Any),
                        _ => self.children.live(),
                    };
                    if live > 0 {
                        return None;
                    }
                    let ending = self.ending.take().unwrap_or_else(Ending::completed);
                    return Some(self.end(ending, draft));
                }
                Phase::Model | Phase::Pause | Phase::Retry | Phase::Over => return None,
            }
        }
    }

    /// Whether it may begin, which model it asks, and what that is told.
    fn prepare(&mut self, draft: &mut Draft<'_>) -> Result<Phase, Ending> {
        self.ask_before_start(draft)?;
        let request = RoutingRequest { agent: &self.agent, model: self.model.as_deref() };
        match draft.engine.router.route(&request) {
            Route::Single { provider, model, source } => {
                let routed = RoutingSingleCandidate {
                    task_kind: Some(self.agent.clone()),
                    candidate_count: 1,
                    selected_model: model.clone(),
                    decision_source: source,
                    capability_gap: Some("none".into()),
                };
                self.tell(draft, routed);
                (self.provider, self.model) = (Some(provider), Some(model));
            }
            Route::NotPossible { reason } => {
                self.tell(draft, RoutingNotPossible { reason: reason.clone(), ..Default::default() });
                return Err(Ending::failed(Failure::new("not_found", reason)));
            }
        }
        self.tell_context(draft);
        Ok(Phase::Ready)
    }

    /// A timer of this run is due.
    pub fn take_timer(&mut self, name: &str, draft: &mut Draft<'_>) -> Option<Ending> {
        match (name, self.phase) {
            ("pause", Phase::Pause) | ("retry", Phase::Retry) => self.phase = Phase::Ready,
            ("deadline", phase) if !matches!(phase, Phase::Closing | Phase::Leaving | Phase::Over) => {
                return self.close(Ending::timed_out(), draft);
            }
            (name, Phase::Calls) => {
                if let Some(ending) = self.take_call_timer(name, draft) {
                    return self.close(ending, draft);
                }
            }
            _ => {}
        }
        self.advance(draft)
    }

    /// An effect of this run has ended.
    pub fn take_effect(
        &mut self,
        name: &str,
        result: EffectResult<Outcome>,
        draft: &mut Draft<'_>,
    ) -> Option<Ending> {
        let ending = match (name, self.phase) {
            ("model", Phase::Model) => {
                self.phase = Phase::Ready;
                match result {
                    EffectResult::Done(Outcome::Answered { attempt, answer }) => {
                        self.tried_again(attempt, draft);
                        self.answered(answer, draft)
                    }
                    other => self.not_answered(unfinished(other), draft),
                }
            }
            (name, Phase::Calls) => {
                if let Some(ending) = self.take_call_effect(name, result, draft) {
                    return self.close(ending, draft);
                }
                None
            }
            _ => None,
        };
        match ending {
            Some(ending) => self.leave(ending, draft),
            None => self.advance(draft),
        }
    }

    /// What the turn may call.
    fn say_catalog(&mut self, draft: &mut Draft<'_>) {
        if std::mem::replace(&mut self.has_catalog, true) {
            return;
        }
        let tools = draft.engine.inventory();
        let resolved = ToolCatalogResolved { count: tools.len() as u32, tools, omitted: Vec::new() };
        let (step, call) = (draft.ids.next(), draft.ids.next());
        let scope = ToolScope { thread: self.thread.clone(), turn: self.turn.clone(), step, call };
        draft.tell_within(&self.around, scope, resolved);
    }

    fn go_on(&self, draft: &mut Draft<'_>) {
        draft.go_on(Message::GoOn { turn: Some(self.turn.clone()) });
    }

    fn tell<P: Class<Scope = TurnScope>>(&self, draft: &mut Draft<'_>, payload: P) {
        let scope = TurnScope { thread: self.thread.clone(), turn: self.turn.clone() };
        match &self.request {
            Some(request) => {
                let around = self.around.clone().with(request.id.clone());
                draft.tell_within(&around, scope, payload);
            }
            None => draft.tell_within(&self.around, scope, payload),
        }
    }

    /// All ids of the run.
    fn ids(&self) -> Ids {
        self.around.clone().with(self.thread.clone()).with(self.turn.clone())
    }

    /// The full name of one of its timers, or of what a timer's name says to the owner.
    fn timer(&self, name: &str) -> String {
        format!("{}/{name}", self.turn)
    }

    fn effect(&self, name: &str) -> String {
        format!("{}/{name}", self.turn)
    }
}

/// The run and the short name in the name of a timer or an effect.
pub fn split_name(name: &str) -> Option<(&str, &str)> {
    name.split_once('/')
}

/// Why an effect has no outcome.
fn unfinished(result: EffectResult<Outcome>) -> Failure {
    match result {
        EffectResult::Failed { reason, attempts } => {
            Failure::new("unavailable", format!("{reason} (after {attempts} attempts)")).retryable()
        }
        EffectResult::Lost => Failure::new("lost", "nobody knows whether it happened"),
        EffectResult::Done(_) => Failure::new("internal", "an effect came to something else"),
    }
}
