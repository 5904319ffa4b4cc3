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

mod calls;
mod close;

use std::collections::BTreeMap;

use cadre_cluster::{
    clock::Timestamp,
    host::{EffectPolicy, EffectResult, Repeat},
};
use serde::{Deserialize, Serialize};

pub use self::calls::{Asked, Response};
use super::{
    Budget, Children, Draft, Effect, OpenCall, Outcome, Used,
    call::CallState,
    provider::{Answer, ModelRequest, Stop},
    router::{Route, RoutingRequest},
};
use crate::{
    control::Error,
    entity::{Lineage, Message},
    fact::{
        Class, Failure, Ids, Part,
        id::{BlobRef, RequestId, ThreadId, TurnId},
        payload::{
            LimitChanged, ModelCompleted, ModelDelta, ModelFailed, ModelRequested, RoutingNotPossible,
            RoutingSingleCandidate, ToolCatalogResolved, TurnCompleted, TurnFailed, TurnStarted,
        },
        scope::{SessionScope, ToolScope, TurnScope},
        status::TurnStatus,
    },
};

/// What a run is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// All of it.
    Inline(Vec<Part>),
    /// Where it is.
    Stored(BlobRef),
}

impl Source {
    /// What is carried about in states and messages. Larger inputs are fetched when they are needed.
    pub const INLINE_BYTES_MAX: usize = 16 * 1024;

    /// A text.
    pub fn text(text: &str) -> Self {
        Self::Inline(vec![Part::text(text)])
    }

    /// About how much it takes.
    pub fn size(&self) -> usize {
        match self {
            Self::Inline(parts) => parts.iter().map(part_size).sum(),
            Self::Stored(blob) => blob.as_str().len(),
        }
    }
}

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
    failures: BTreeMap<Vec<u32>, u32>,
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
}

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
}

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// The terminal status.
    pub status: TurnStatus,
    /// What went wrong, if anything.
    pub error: Option<Failure>,
    /// Why it was ended, if somebody did.
    pub reason: Option<String>,
    /// Who did.
    pub by: Option<String>,
}

impl Ending {
    /// As it should.
    pub fn completed() -> Self {
        Self { status: TurnStatus::Completed, error: None, reason: None, by: None }
    }

    /// With an error.
    pub fn failed(error: Failure) -> Self {
        Self { status: TurnStatus::Failed, error: Some(error), reason: None, by: None }
    }

    /// Because somebody said so.
    pub fn cancelled(reason: Option<String>, by: &str) -> Self {
        let message = reason.clone().unwrap_or_else(|| "it was cancelled".into());
        Self {
            status: TurnStatus::Cancelled,
            error: Some(Failure::new("cancelled", message)),
            reason,
            by: Some(by.to_owned()),
        }
    }

    /// Because its time was over.
    pub fn timed_out() -> Self {
        let error = Failure::new("deadline_exceeded", "the deadline passed").retryable();
        Self { status: TurnStatus::TimedOut, error: Some(error), reason: None, by: Some("deadline".into()) }
    }

    /// Nobody knows.
    pub fn lost(error: Failure) -> Self {
        Self { status: TurnStatus::Lost, error: Some(error), reason: None, by: None }
    }
}

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
    /// What it may use up.
    pub budget: Budget,
    /// Until when it has time.
    pub deadline: Option<Timestamp>,
}

/// How often a step is tried again by default.
pub const STEP_RETRIES_MAX: u32 = 3;
/// The pause before the second try of a step; it doubles with each further one.
const RETRY_PAUSE_MS: u64 = 50;

/// At how many positions it is remembered how often the model failed there: of more, the first are forgotten.
const FAILURES_MAX: usize = 256;

impl Run {
    fn new(new: NewRun) -> Self {
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
            model: new.model,
            provider: None,
            position: Vec::new(),
            request: None,
            failures: BTreeMap::new(),
            tries: 0,
            retries_max: new.retries_max,
            budget: new.budget,
            calls: Vec::new(),
            steered: Vec::new(),
            has_catalog: false,
            paused: false,
            ending: None,
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
            budget: Budget::default(),
            deadline: None,
        };
        Self { phase: Phase::Over, ..Self::new(new) }
    }

    /// Begins. `with_catalog` says the tools right away; otherwise they are said before the first is called.
    pub fn begin(new: NewRun, source: &str, with_catalog: bool, draft: &mut Draft<'_>) -> Self {
        let deadline = new.deadline;
        let mut run = Self::new(new);
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

    /// Another attempt at the same work keeps what is known of failures, and children that live on.
    pub fn after(mut self, former: &Self) -> Self {
        self.failures = former.failures.clone();
        self.children = former.children.clone();
        self
    }

    /// Without what it was given: it will not run again.
    pub fn without_source(self) -> Self {
        Self { source: Source::Inline(Vec::new()), ..self }
    }

    /// What has to be remembered of a run that is over while children of it live on.
    pub fn remains(self) -> Self {
        Self { children: self.children, ..Self::left_of(self.thread, self.turn) }
    }

    /// Does not ask the model any more until it may again.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// What it was given.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether it is about to be over.
    pub fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing | Phase::Over)
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
                        return Some(self.end(ending, draft));
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
                Phase::Closing => {
                    if self.children.live() > 0 {
                        return None;
                    }
                    let ending = self.ending.take().unwrap_or_else(Ending::completed);
                    return Some(self.end(ending, draft));
                }
                Phase::Model | Phase::Pause | Phase::Retry | Phase::Over => return None,
            }
        }
    }

    /// Routes, and fetches the input when it is not here.
    fn prepare(&mut self, draft: &mut Draft<'_>) -> Result<Phase, Ending> {
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
        Ok(Phase::Ready)
    }

    /// Asks the model, within the step if it can answer there.
    fn ask(&mut self, draft: &mut Draft<'_>) -> Option<Ending> {
        let (mut input, stored) = match &self.source {
            Source::Inline(input) => (input.clone(), None),
            Source::Stored(blob) => (Vec::new(), Some(blob.clone())),
        };
        input.extend(self.steered.iter().cloned());
        let (provider, model) = (self.provider.clone()?, self.model.clone()?);
        let request = ModelRequest {
            turn: self.turn.clone(),
            model: model.clone(),
            input,
            stored,
            position: self.position.clone(),
            attempt: self.attempt,
            failures: self.failures.get(&self.position).copied().unwrap_or(0),
        };
        if self.request.is_none() {
            self.used.steps += 1;
            self.requested(1, draft);
        }
        if let Some(request) = &mut self.request {
            request.heard = self.steered.len();
        }
        let Some(adapter) = draft.engine.provider(&provider) else {
            let failure = Failure::new("unavailable", format!("there is no provider {provider}"));
            return self.answered(Err(failure), draft);
        };
        let answer = if request.stored.is_none() { adapter.answer(&request) } else { None };
        match answer {
            Some(answer) => self.answered(answer.map_err(|error| error.failure), draft),
            None => {
                let id = self.request.as_ref().map(|request| request.id.clone())?;
                let policy = EffectPolicy { deadline_ms: 600_000, ..EffectPolicy::default() };
                draft.start_effect(self.effect("model"), Effect::Model { provider, request, id }, policy);
                self.phase = Phase::Model;
                None
            }
        }
    }

    fn requested(&mut self, attempt: u32, draft: &mut Draft<'_>) {
        let id: RequestId = draft.ids.next();
        let heard = self.request.as_ref().map_or(0, |request| request.heard);
        self.request = Some(Request { id, since: draft.now, said_bytes: 0, attempt, heard });
        let requested = ModelRequested {
            model: self.model.clone().unwrap_or_default(),
            provider: self.provider.clone(),
            attempt: self.tries + attempt,
            step: self.used.steps,
            ..Default::default()
        };
        self.tell(draft, requested);
    }

    fn said(&mut self, text: String, draft: &mut Draft<'_>) {
        if text.is_empty() {
            return;
        }
        if let Some(request) = &mut self.request {
            request.said_bytes += text.len() as u64;
        }
        self.tell(draft, ModelDelta { text, offset: None });
    }

    /// Takes an answer. `Some` when it was the last word.
    fn answered(&mut self, answer: Result<Answer, Failure>, draft: &mut Draft<'_>) -> Option<Ending> {
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(failure) => return self.not_answered(failure, draft),
        };
        let calls = std::mem::take(&mut answer.calls);
        if answer.stop == Stop::Calls
            && let Err(failure) = self.open_calls(calls, draft)
        {
            return self.not_answered(failure, draft);
        }
        self.tries = 0;
        if let Some(request) = &mut self.request {
            self.steered.drain(..std::mem::take(&mut request.heard).min(self.steered.len()));
        }
        self.position = answer.position;
        self.used.add(&answer.used);
        for text in answer.deltas {
            self.said(text, draft);
        }
        if let Stop::Pause { ms } = answer.stop {
            self.phase = if ms == 0 { Phase::Ready } else { Phase::Pause };
            if ms > 0 {
                draft.set_timer(self.timer("pause"), draft.now.in_ms(ms));
            }
            return None;
        }
        if let Some(request) = &self.request {
            let completed = ModelCompleted {
                text_bytes: request.said_bytes,
                stop_reason: Some(if answer.stop == Stop::End { "end_turn" } else { "tool_use" }.into()),
                calls: self.calls.len() as u32,
                usage: Some(answer.used.usage()),
                duration_ms: Some(draft.now.0.saturating_sub(request.since.0)),
                model: None,
            };
            self.tell(draft, completed);
        }
        self.request = None;
        if self.calls.is_empty() {
            return Some(Ending::completed());
        }
        self.phase = Phase::Calls;
        None
    }

    fn not_answered(&mut self, failure: Failure, draft: &mut Draft<'_>) -> Option<Ending> {
        if self.failures.len() >= FAILURES_MAX {
            self.failures.pop_first();
        }
        let failures = self.failures.entry(self.position.clone()).or_insert(0);
        *failures = failures.saturating_add(1);
        let will_retry = failure.retryable && self.tries < self.retries_max;
        let attempt = self.tries + self.request.as_ref().map_or(1, |request| request.attempt);
        self.tell(draft, ModelFailed { error: failure.clone(), attempt, will_retry, ..Default::default() });
        self.request = None;
        if !will_retry {
            return Some(Ending::failed(failure));
        }
        let pause = RETRY_PAUSE_MS << self.tries.min(10);
        self.tries += 1;
        self.phase = Phase::Retry;
        draft.set_timer(self.timer("retry"), draft.now.in_ms(pause));
        None
    }

    fn over_budget(&mut self, draft: &mut Draft<'_>) -> Option<Ending> {
        let (limit, used, max) = self.used.over(&self.budget)?;
        let changed = LimitChanged {
            limit: limit.to_owned(),
            state: "blocked".into(),
            used: Some(used),
            max: Some(max),
            ..Default::default()
        };
        let around = self.ids();
        draft.tell_within(&around, SessionScope {}, changed);
        let message = format!("the budget of {max} {limit} is used up");
        Some(Ending::failed(Failure::new("budget_exceeded", message)))
    }

    /// A timer of this run is due.
    pub fn take_timer(&mut self, name: &str, draft: &mut Draft<'_>) -> Option<Ending> {
        match (name, self.phase) {
            ("pause", Phase::Pause) | ("retry", Phase::Retry) => self.phase = Phase::Ready,
            ("deadline", phase) if !matches!(phase, Phase::Closing | Phase::Over) => {
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

    /// An effect of this run says something.
    pub fn take_progress(&mut self, progress: Outcome, draft: &mut Draft<'_>) {
        if let (Outcome::Said { attempt, text }, Phase::Model) = (progress, self.phase) {
            self.tried_again(attempt, draft);
            self.said(text, draft);
        }
    }

    /// The effect is at a later attempt than was told: what the former one said stands, and is not glued together.
    fn tried_again(&mut self, attempt: u32, draft: &mut Draft<'_>) {
        let Some(request) = self.request.as_ref().filter(|request| request.attempt < attempt) else { return };
        let error =
            Failure::new("interrupted", "the worker went away in the middle of the answer").retryable();
        let attempt_before = self.tries + request.attempt;
        let failed = ModelFailed { error, attempt: attempt_before, will_retry: true, ..Default::default() };
        self.tell(draft, failed);
        self.requested(attempt, draft);
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
            Some(ending) => Some(self.end(ending, draft)),
            None => self.advance(draft),
        }
    }

    /// The last fact of the turn.
    fn end(&mut self, ending: Ending, draft: &mut Draft<'_>) -> Ending {
        self.phase = Phase::Over;
        draft.cancel_timer(self.timer("deadline"));
        match &ending.error {
            None => {
                let completed = TurnCompleted {
                    status: ending.status,
                    steps: self.used.steps,
                    usage: Some(self.used.usage()),
                    ..Default::default()
                };
                self.tell(draft, completed);
            }
            Some(error) => {
                let failed = TurnFailed {
                    status: ending.status,
                    error: error.clone(),
                    reason: ending.reason.clone(),
                    by: ending.by.clone(),
                    steps: Some(self.used.steps),
                    usage: Some(self.used.usage()),
                };
                self.tell(draft, failed);
            }
        }
        metrics::counter!("cadre_turns_total", "status" => ending.status.as_str()).increment(1);
        ending
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

fn part_size(part: &Part) -> usize {
    match part {
        Part::Text { text } => text.len() + 8,
        Part::Blob { blob, media_type } => blob.as_str().len() + media_type.len() + 16,
    }
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

/// Whether a call may be made again when it may have happened.
fn policy(deadline_ms: u64, repeat: Repeat) -> EffectPolicy {
    EffectPolicy { deadline_ms, repeat, ..EffectPolicy::default() }
}
