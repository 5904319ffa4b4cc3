//! Asking the model: what it says, what it wants done, and another try when it has failed.

use cadre_cluster::host::EffectPolicy;

use super::{Ending, Phase, Request, Run, Source};
use crate::{
    exec::{
        Draft, Effect, Outcome, Used,
        provider::{Answer, ModelRequest, Stop},
    },
    fact::{
        Failure,
        id::RequestId,
        payload::{ModelCompleted, ModelDelta, ModelFailed, ModelRequested},
    },
};

/// The pause before the second try of a step; it doubles with each further one.
const RETRY_PAUSE_MS: u64 = 50;

/// At how many positions it is remembered how often the model failed there: of more, the oldest are forgotten.
const FAILURES_MAX: usize = 64;

/// A position in a few bytes: of a deep one there is no room for the whole, as often as it may have to be remembered.
fn place(position: &[u32]) -> u64 {
    let bytes: Vec<u8> = position.iter().flat_map(|index| index.to_le_bytes()).collect();
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

impl Run {
    /// Asks the model, within the step if it can answer there.
    pub(super) fn ask(&mut self, draft: &mut Draft<'_>) -> Option<Ending> {
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
            failures: self.failed_here().map_or(0, |(_, failures)| *failures),
            history: self.history.clone(),
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

    /// How often the model has failed at this position, under the position's hash.
    fn failed_here(&self) -> Option<&(u64, u32)> {
        let here = place(&self.position);
        self.failures.iter().find(|(place, _)| *place == here)
    }

    fn count_failure(&mut self) {
        let here = place(&self.position);
        if let Some((_, failures)) = self.failures.iter_mut().find(|(place, _)| *place == here) {
            *failures = failures.saturating_add(1);
            return;
        }
        if self.failures.len() >= FAILURES_MAX {
            self.failures.pop_front();
        }
        self.failures.push_back((here, 1));
    }

    fn requested(&mut self, attempt: u32, draft: &mut Draft<'_>) {
        let id: RequestId = draft.ids.next();
        let heard = self.request.as_ref().map_or(0, |request| request.heard);
        self.request =
            Some(Request { id, since: draft.now, said_bytes: 0, attempt, heard, used: Used::default() });
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
    pub(super) fn answered(
        &mut self,
        answer: Result<Answer, Failure>,
        draft: &mut Draft<'_>,
    ) -> Option<Ending> {
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(failure) => return self.not_answered(failure, draft),
        };
        // Whatever becomes of it, it is paid for.
        self.used.add(&answer.used);
        if let Some(request) = &mut self.request {
            request.used.add(&answer.used);
        }
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
                usage: Some(request.used.usage()),
                duration_ms: Some(draft.now.0.saturating_sub(request.since.0)),
                model: None,
            };
            self.tell(draft, completed);
        }
        self.tell_cost(draft);
        self.request = None;
        if !self.calls.is_empty() {
            self.phase = Phase::Calls;
            return None;
        }
        if self.steered.is_empty() {
            return Some(Ending::completed());
        }
        // Something was said to it while it spoke its last word: it hears that first (P2).
        self.phase = Phase::Ready;
        None
    }

    pub(super) fn not_answered(&mut self, failure: Failure, draft: &mut Draft<'_>) -> Option<Ending> {
        self.count_failure();
        let will_retry = failure.retryable && self.tries < self.retries_max;
        let attempt = self.tries + self.request.as_ref().map_or(1, |request| request.attempt);
        self.tell(draft, ModelFailed { error: failure.clone(), attempt, will_retry, ..Default::default() });
        self.tell_cost(draft);
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

    /// An effect of this run says something.
    pub fn take_progress(&mut self, progress: Outcome, draft: &mut Draft<'_>) {
        if let (Outcome::Said { attempt, text }, Phase::Model) = (progress, self.phase) {
            self.tried_again(attempt, draft);
            self.said(text, draft);
        }
    }

    /// The effect is at a later attempt than was told: what the former one said stands, and is not glued together.
    pub(super) fn tried_again(&mut self, attempt: u32, draft: &mut Draft<'_>) {
        let Some(request) = self.request.as_ref().filter(|request| request.attempt < attempt) else { return };
        let error =
            Failure::new("interrupted", "the worker went away in the middle of the answer").retryable();
        let attempt_before = self.tries + request.attempt;
        let failed = ModelFailed { error, attempt: attempt_before, will_retry: true, ..Default::default() };
        self.tell(draft, failed);
        self.tell_cost(draft);
        self.requested(attempt, draft);
    }
}
