//! What waits for an entity.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicU32},
};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    effect::EffectError,
    room::Admission,
    wire::{Request, Response},
    write::Placed,
};
use crate::{clock::Timestamp, store::CommitError};

/// The way back to a caller, and its place among those that wait. Dropped without an answer, it tells what is
/// known: nothing was done here as long as no step with the command in it was handed to the committer.
#[derive(Debug)]
pub(super) struct ReplyPort {
    waits: Option<(oneshot::Sender<Response>, Admission)>,
    submitted: bool,
}

impl ReplyPort {
    pub fn new(reply: oneshot::Sender<Response>, admission: Admission) -> Self {
        Self { waits: Some((reply, admission)), submitted: false }
    }

    /// Takes a place among the inputs of one entity as well, which the caller has counted.
    pub fn also(&mut self, entity: Arc<AtomicU32>) {
        if let Some((_, admission)) = &mut self.waits {
            admission.also(entity);
        }
    }

    /// The first answer counts.
    pub fn answer(&mut self, response: Response) {
        if let Some((reply, admission)) = self.waits.take() {
            // Whoever is answered may ask again at once, and finds room.
            drop(admission);
            // A caller that is gone will ask again with the same key.
            let _ = reply.send(response);
        }
    }
}

impl Drop for ReplyPort {
    fn drop(&mut self) {
        self.answer(if self.submitted { Response::OutcomeUnknown } else { Response::NotOwner });
    }
}

/// An input in the form it is kept in until the step that applies it has committed.
#[derive(Debug)]
pub(super) enum Work {
    Command {
        request: Request,
        reply: ReplyPort,
        /// The caller's trace context.
        trace: Option<String>,
    },
    /// A message, with its key in the inbox.
    Message {
        key: Bytes,
        record: Bytes,
    },
    Timer {
        name: String,
        due: Timestamp,
    },
    /// The result of an attempt at an effect.
    Effect {
        id: String,
        attempt: u32,
        /// Which start of an effect by this actor it comes from.
        run: u64,
        result: Result<Bytes, EffectError>,
    },
    /// What an effect that goes on has reported.
    Progress {
        id: String,
        attempt: u32,
        run: u64,
        body: Bytes,
        /// Told once it is durable.
        taken: Option<oneshot::Sender<()>>,
    },
    /// An effect that a former owner left pending.
    Adopt {
        id: String,
    },
    /// The entity moves: its effects are for the next owner to begin, except those that were begun here and must
    /// not be repeated.
    Hold {
        except: BTreeSet<String>,
    },
    /// An input that broke the core: to be consumed and put aside, nothing else.
    Aside {
        work: Box<Work>,
        reason: String,
    },
}

impl Work {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Command { .. } => "command",
            Self::Message { .. } => "message",
            Self::Timer { .. } => "timer",
            Self::Effect { .. } | Self::Adopt { .. } | Self::Hold { .. } => "effect",
            Self::Progress { .. } => "progress",
            Self::Aside { work, .. } => work.label(),
        }
    }

    /// What a dead letter keeps of it.
    pub(super) fn body(&self) -> Bytes {
        match self {
            Self::Command { request, .. } => request.body.clone(),
            Self::Message { record, .. } => record.clone(),
            Self::Timer { name, .. } => Bytes::copy_from_slice(name.as_bytes()),
            Self::Effect { result: Ok(outcome), .. } => outcome.clone(),
            Self::Progress { body, .. } => body.clone(),
            Self::Effect { id, .. } | Self::Adopt { id } => Bytes::copy_from_slice(id.as_bytes()),
            Self::Hold { .. } => Bytes::new(),
            Self::Aside { work, .. } => work.body(),
        }
    }

    /// Answers the caller, if there is one and it was not answered yet.
    pub(super) fn answer(&mut self, response: Response) {
        match self {
            Self::Command { reply, .. } => {
                reply.answer(response);
            }
            Self::Aside { work, .. } => work.answer(response),
            _ => {}
        }
    }
}

impl Work {
    /// The step that took it is durable.
    pub(super) fn is_durable(&mut self) {
        match self {
            // An effect that is gone needs no answer.
            Self::Progress { taken, .. } => drop(taken.take().map(|taken| taken.send(()))),
            Self::Aside { work, .. } => work.is_durable(),
            _ => {}
        }
    }

    /// Whether a caller waits for its answer.
    pub(super) fn is_command(&self) -> bool {
        match self {
            Self::Command { .. } => true,
            Self::Aside { work, .. } => work.is_command(),
            _ => false,
        }
    }

    /// Whether nobody but this owner can know of it.
    pub(super) fn is_only_here(&self) -> bool {
        match self {
            Self::Effect { .. } | Self::Adopt { .. } | Self::Hold { .. } => true,
            Self::Aside { work, .. } => work.is_only_here(),
            _ => false,
        }
    }

    /// Whether it concerns this effect.
    pub(super) fn is_of_effect(&self, effect: &str) -> bool {
        match self {
            Self::Effect { id, .. } | Self::Progress { id, .. } | Self::Adopt { id } => id == effect,
            Self::Aside { work, .. } => work.is_of_effect(effect),
            _ => false,
        }
    }

    /// Notes whether a step with this input in it may commit.
    pub(super) fn submitted(&mut self, submitted: bool) {
        match self {
            Self::Command { reply, .. } => reply.submitted = submitted,
            Self::Aside { work, .. } => work.submitted(submitted),
            _ => {}
        }
    }
}

/// What an entity actor is told.
#[derive(Debug)]
pub(super) enum EntityMessage {
    Work(Work),
    /// There may be something in the inbox.
    Bell,
    /// A pause is over: start this attempt.
    StartEffect {
        id: String,
        attempt: u32,
    },
    StepDone(Result<Placed, StepError>),
    /// A pause is over: the store may have room again.
    GoOn,
    /// Say so if there is nothing to do.
    Rest,
    /// Take nothing more, finish what is on its way, and stop.
    Drain,
}

/// Why a step did not commit.
#[derive(Debug, Clone)]
pub(super) enum StepError {
    /// The shard has another owner.
    Fenced,
    /// The store has no room now; nothing was written.
    NoRoom(CommitError),
    /// The step alone is more than a transaction can hold, or the store refuses it for what it is.
    Refused(CommitError),
    /// The store failed for good; nobody knows whether it committed.
    Failed,
}
