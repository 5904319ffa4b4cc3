//! The attempts at an entity's effects: begun after the step that asks for them, told apart, and ended.

use std::time::Duration;

use ractor::{Actor, ActorRef};

use super::{EntityActor, Live};
use crate::{
    host::{
        Client, Entity,
        effect::{EffectContext, EffectError, Repeat, Reports},
        effect_actor::{EffectActor, EffectArgs, EffectMessage},
        gate::Inside,
        work::{EntityMessage, Work},
    },
    sabotage::{Sabotage, is_on},
};

/// An attempt at an effect that was started and has not reported.
pub(super) struct Run {
    pub number: u64,
    pub attempt: u32,
    pub actor: ActorRef<EffectMessage>,
    /// Set when the attempt must not be repeated.
    pub once: Option<Inside>,
}

impl<E: Entity> EntityActor<E> {
    /// Between two looks at a gate that is closed.
    const GATE_PAUSE: Duration = Duration::from_millis(50);

    /// Takes over the effects that a former owner had started.
    pub(super) fn adopt_orphans(&self, live: &mut Live<E>) {
        if std::mem::replace(&mut live.adopted, true) {
            return;
        }
        let Some(core) = &live.core else { return };
        if !is_on(Sabotage::EffectsNotRedriven) {
            live.waiting.extend(core.record.effects.keys().map(|id| Work::Adopt { id: id.clone() }));
        }
    }

    /// Starts the current attempt at an effect, now or when its pause is over.
    pub(super) async fn schedule_effect(
        &self,
        myself: &ActorRef<EntityMessage>,
        live: &mut Live<E>,
        id: &str,
    ) {
        let Some(pending) = live.core.as_ref().and_then(|core| core.record.effects.get(id)) else { return };
        let attempt = pending.attempt;
        let pause = pending.policy.pause(attempt, live.args.shared.now(), pending.not_before);
        if pause.is_zero() {
            self.start_effect(myself, live, id, attempt).await;
        } else {
            let id = id.to_owned();
            myself.send_after(pause, move || EntityMessage::StartEffect { id, attempt });
        }
    }

    pub(super) async fn start_effect(
        &self,
        myself: &ActorRef<EntityMessage>,
        live: &mut Live<E>,
        id: &str,
        attempt: u32,
    ) {
        if live.core.is_none() || live.in_flight.is_some() {
            live.to_start.insert((id.to_owned(), attempt));
            return;
        }
        let Some(pending) = live.core.as_ref().and_then(|core| core.record.effects.get(id)) else { return };
        // One that moves begins nothing that the next owner would have to call lost.
        if pending.attempt != attempt || pending.held || live.draining || live.running.contains_key(id) {
            return;
        }
        let once = match pending.policy.repeat {
            Repeat::Safe => None,
            Repeat::Never => match live.args.gate.enter() {
                Some(inside) => Some(inside),
                // The shard is about to move. Should it stay after all, this is begun here.
                None => {
                    let id = id.to_owned();
                    myself.send_after(Self::GATE_PAUSE, move || EntityMessage::StartEffect { id, attempt });
                    return;
                }
            },
        };
        live.runs += 1;
        let number = live.runs;
        let args = EffectArgs {
            entity: self.entity.clone(),
            effect: pending.effect.clone(),
            deadline: Duration::from_millis(pending.policy.deadline_ms),
            trace: pending.trace.clone(),
            context: EffectContext {
                address: live.args.address.clone(),
                id: id.to_owned(),
                attempt,
                client: Client::local(live.args.shared.clone()),
                reports: Reports { to: myself.clone(), run: number },
            },
        };
        match Actor::spawn_linked(None, EffectActor, args.into(), myself.get_cell()).await {
            Ok((actor, _)) => {
                live.running.insert(id.to_owned(), Run { number, attempt, actor, once });
            }
            Err(error) => {
                let result = Err(EffectError::transient(format!("effect did not start: {error}")));
                live.waiting.push_back(Work::Effect { id: id.to_owned(), attempt, run: number, result });
            }
        }
    }
}

impl<E: Entity> Live<E> {
    /// Ends the run of an effect that was cancelled or started anew, and forgets what it may have reported.
    pub(super) fn forget_run(&mut self, id: &str) {
        if let Some(run) = self.running.remove(id) {
            run.actor.kill();
        }
        self.waiting.retain(|work| !work.is_of_effect(id));
    }
}
