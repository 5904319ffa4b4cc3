//! Effects within a step: asked for, ended one way or another, taken over, left to the next owner.

use bytes::Bytes;

use super::{Broken, StepBuilder, Taken};
use crate::{
    codec,
    host::{
        Entity, Input,
        decision::EffectChange,
        effect::{EffectError, EffectResult, PendingEffect, Repeat},
        work::Work,
    },
};

impl<E: Entity> StepBuilder<'_, E> {
    /// Takes the result of an attempt: the entity hears of it, or the next attempt is due.
    pub(super) fn take_effect(
        &mut self,
        work: &Work,
        id: &str,
        attempt: u32,
        result: &Result<Bytes, EffectError>,
        seed: u64,
    ) -> Result<Taken, Broken> {
        // An effect that this very step starts has no result yet: it is that of another with the same id.
        let started_here = self.draft.start.iter().any(|started| started == id);
        let pending = self.core.record.effects.get_mut(id);
        let Some(pending) = pending.filter(|effect| effect.attempt == attempt && !started_here) else {
            return Ok(Taken::Silent); // late, or a second result
        };
        self.changed = true;
        let lost = |error: &EffectError| error.is_unsure() && pending.policy.repeat == Repeat::Never;
        if let Err(error) = result
            && error.may_be_retried()
            && !lost(error)
            && attempt < pending.policy.attempts_max
        {
            metrics::counter!("cadre_host_effects_total", "result" => "retried").increment(1);
            pending.attempt += 1;
            pending.not_before = self.now.after(pending.policy.backoff(attempt));
            self.draft.start.push(id.to_owned());
            return Ok(Taken::Silent);
        }
        let lost = result.as_ref().is_err_and(lost);
        let trace = self.core.record.effects.remove(id).and_then(|effect| effect.trace);
        let result = match result {
            Ok(outcome) => match codec::unpack("effect outcome", outcome) {
                Ok(outcome) => EffectResult::Done(outcome),
                // The entity waits for a result: an unreadable one is a failure, not silence.
                Err(error) => EffectResult::Failed { reason: error.to_string(), attempts: attempt },
            },
            Err(_) if lost => EffectResult::Lost,
            Err(error) => EffectResult::Failed { reason: error.to_string(), attempts: attempt },
        };
        metrics::counter!("cadre_host_effects_total", "result" => result.label()).increment(1);
        let done = matches!(result, EffectResult::Done(_));
        match self.decide(work, Input::Effect { id: id.to_owned(), result }, seed, trace.as_deref())? {
            // The entity waits for an end: one that it cannot take as it is, it hears of as a failure.
            Taken::Poisoned(reason) if done => {
                let result = EffectResult::Failed { reason: unusable(&reason), attempts: attempt };
                self.decide(work, Input::Effect { id: id.to_owned(), result }, seed, trace.as_deref())
            }
            taken => Ok(taken),
        }
    }

    /// Takes over an effect that a former owner left: one that was not begun is begun, of any other nobody knows
    /// how far it got.
    pub(super) fn adopt_effect(&mut self, work: &Work, id: &str, seed: u64) -> Result<Taken, Broken> {
        let Some(pending) = self.core.record.effects.get_mut(id) else { return Ok(Taken::Silent) };
        if std::mem::take(&mut pending.held) {
            self.changed = true;
            self.draft.start.push(id.to_owned());
            return Ok(Taken::Silent);
        }
        let (attempt, result) = (pending.attempt, Err(EffectError::unsure("its owner went away")));
        self.take_effect(work, id, attempt, &result, seed)
    }

    /// Leaves effects to the next owner, with a note that they were not begun.
    pub(super) fn hold_effects(&mut self, which: impl Fn(&str) -> bool) {
        for (id, effect) in &mut self.core.record.effects {
            if which(id) && !effect.held {
                effect.held = true;
                self.changed = true;
            }
        }
    }

    /// Starts or cancels an effect as a decision says.
    pub(super) fn change_effect(&mut self, change: EffectChange, trace: Option<&str>) {
        self.changed = true;
        match change {
            EffectChange::Start { id, effect, policy } => {
                let pending = PendingEffect {
                    effect,
                    policy,
                    attempt: 1,
                    not_before: self.now,
                    held: false,
                    trace: trace.map(str::to_owned),
                };
                self.core.record.effects.insert(id.clone(), pending);
                self.draft.start.retain(|started| *started != id);
                self.draft.start.push(id);
            }
            EffectChange::Cancel { id } => {
                self.core.record.effects.remove(&id);
                self.draft.start.retain(|started| *started != id);
                self.draft.cancel.push(id);
            }
        }
    }
}

/// Why an effect that was done has failed all the same.
pub(in crate::host) fn unusable(reason: &str) -> String {
    format!("its result could not be applied: {reason}")
}
