//! The actor of one attempt at an effect. It lives below its entity, and dies with it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tracing::Instrument;

use super::{
    Entity,
    effect::{EffectContext, EffectError, Reports},
    work::{EntityMessage, Work},
};
use crate::{codec, trace};

/// See the module.
pub(super) struct EffectActor;

/// What to do, and for whom.
pub(super) struct EffectArgs<E> {
    pub entity: Arc<E>,
    pub effect: Bytes,
    pub deadline: Duration,
    /// The trace context of what caused it.
    pub trace: Option<String>,
    pub context: EffectContext,
}

/// Type-erased, so that the entity's actor can hold any of them.
#[derive(Debug)]
pub(super) enum EffectMessage {
    Go,
}

/// The state: what to do, taken when it is done.
pub(super) trait Task: Send + 'static {
    fn run(self: Box<Self>) -> futures::future::BoxFuture<'static, ()>;
}

impl<E: Entity> Task for EffectArgs<E> {
    fn run(self: Box<Self>) -> futures::future::BoxFuture<'static, ()> {
        Box::pin(async move {
            let (id, attempt) = (self.context.id.clone(), self.context.attempt);
            let Reports { to, run } = self.context.reports.clone();
            let started = tokio::time::Instant::now();
            let result = match codec::decode::<E::Effect>(&self.effect) {
                Err(error) => Err(EffectError::fatal(error.to_string())),
                Ok(effect) => {
                    let address = self.context.address.clone();
                    let (kind, of) = (address.kind(), address.id());
                    // By what the events of the entity are called, too.
                    let span = tracing::info_span!(
                        "effect",
                        tenant = address.tenant(),
                        stream_id = format_args!("{kind}:{of}"),
                        id,
                        attempt
                    );
                    let context = trace::join(&span, self.trace);
                    let work = self.entity.perform(effect, self.context).instrument(span);
                    let work = trace::within(context, work);
                    match tokio::time::timeout(self.deadline, work).await {
                        Ok(result) => result.map(|outcome| codec::pack(&outcome)),
                        Err(_) => {
                            let ms = self.deadline.as_millis();
                            Err(EffectError::unsure(format!("no result within {ms} ms")))
                        }
                    }
                }
            };
            let label = if result.is_ok() { "done" } else { "failed" };
            metrics::histogram!("cadre_host_effect_seconds", "result" => label).record(started.elapsed());
            // An entity that is gone is rebuilt from the store, which knows that this is pending.
            let _ = to.cast(EntityMessage::Work(Work::Effect { id, attempt, run, result }));
        })
    }
}

impl<E: Entity> From<EffectArgs<E>> for Box<dyn Task> {
    fn from(args: EffectArgs<E>) -> Self {
        Box::new(args)
    }
}

impl Actor for EffectActor {
    type Msg = EffectMessage;
    type State = Option<Box<dyn Task>>;
    type Arguments = Box<dyn Task>;

    async fn pre_start(
        &self,
        myself: ActorRef<EffectMessage>,
        task: Box<dyn Task>,
    ) -> Result<Option<Box<dyn Task>>, ActorProcessingErr> {
        myself.cast(EffectMessage::Go)?;
        Ok(Some(task))
    }

    async fn handle(
        &self,
        myself: ActorRef<EffectMessage>,
        EffectMessage::Go: EffectMessage,
        task: &mut Option<Box<dyn Task>>,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(task) = task.take() {
            task.run().await;
        }
        myself.stop(None);
        Ok(())
    }
}
