//! Effects: work outside the store, recorded before it starts, driven again after a crash.

use std::time::Duration;

use bytes::Bytes;
use ractor::ActorRef;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{
    Client, Entity,
    work::{EntityMessage, Work},
};
use crate::{address::Address, clock::Timestamp, codec};

/// How an effect may be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectPolicy {
    /// How long one attempt may take.
    pub deadline_ms: u64,
    /// How many attempts there may be.
    pub attempts_max: u32,
    /// The pause before the second attempt; it doubles with each further one.
    pub backoff_ms: u64,
    /// The longest pause.
    pub backoff_ms_max: u64,
    /// Whether an attempt that may have happened may be made again.
    pub repeat: Repeat,
}

/// What to do when an owner died and nobody knows how far an attempt got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Repeat {
    /// Do it again.
    Safe,
    /// Do not: the result is [`EffectResult::Lost`], and a human or a policy decides.
    Never,
}

impl Default for EffectPolicy {
    fn default() -> Self {
        Self {
            deadline_ms: 30_000,
            attempts_max: 3,
            backoff_ms: 100,
            backoff_ms_max: 10_000,
            repeat: Repeat::Safe,
        }
    }
}

impl EffectPolicy {
    /// The pause before `attempt`, when it may not start before `not_before`. Never longer than the policy says,
    /// though the clock has gone back since.
    pub(super) fn pause(&self, attempt: u32, now: Timestamp, not_before: Timestamp) -> Duration {
        if attempt <= 1 { Duration::ZERO } else { now.until(not_before).min(self.backoff(attempt - 1)) }
    }

    /// The pause after `attempt` failed.
    pub(super) fn backoff(&self, attempt: u32) -> Duration {
        let factor = 2u64.saturating_pow(attempt.saturating_sub(1).min(32));
        Duration::from_millis(self.backoff_ms.saturating_mul(factor).min(self.backoff_ms_max))
    }
}

/// How an effect ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectResult<T> {
    /// It did what it should.
    Done(T),
    /// Its last allowed attempt failed.
    Failed {
        /// Why.
        reason: String,
        /// How many attempts were made.
        attempts: u32,
    },
    /// It may or may not have happened, and must not be repeated.
    Lost,
}

impl<T> EffectResult<T> {
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Failed { .. } => "failed",
            Self::Lost => "lost",
        }
    }
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct EffectError {
    reason: String,
    kind: Failure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Transient,
    Fatal,
    Unsure,
}

impl EffectError {
    /// Another attempt may succeed.
    pub fn transient(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), kind: Failure::Transient }
    }

    /// No attempt will.
    pub fn fatal(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), kind: Failure::Fatal }
    }

    /// The attempt may have happened. What must not be repeated is then lost; the rest is tried again.
    pub fn unsure(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), kind: Failure::Unsure }
    }

    pub(super) fn is_unsure(&self) -> bool {
        self.kind == Failure::Unsure
    }

    pub(super) fn may_be_retried(&self) -> bool {
        self.kind != Failure::Fatal
    }
}

/// What an effect may want to know and to say.
#[derive(Debug, Clone)]
pub struct EffectContext {
    /// Whose it is.
    pub address: Address,
    /// Its id.
    pub id: String,
    /// Which attempt this is, from 1. With address and id it names this attempt to the outside.
    pub attempt: u32,
    /// Reaches other entities, and its own.
    pub client: Client,
    pub(super) reports: Reports,
}

/// Nobody waits for this attempt any more: the effect was cancelled, or its entity has moved. Stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody waits for this attempt any more")]
pub struct Superseded;

impl EffectContext {
    /// Tells the entity how far the effect is, as [`super::Input::Progress`]. Returns once the step that took the
    /// report is durable, so an effect has at most one on its way; what cannot be applied is put aside like any
    /// other input.
    pub async fn report<E: Entity>(&self, progress: &E::Outcome) -> Result<(), Superseded> {
        let (taken, wait) = oneshot::channel();
        let work = Work::Progress {
            id: self.id.clone(),
            attempt: self.attempt,
            run: self.reports.run,
            body: codec::pack(progress),
            taken: Some(taken),
        };
        self.reports.to.cast(EntityMessage::Work(work)).map_err(|_| Superseded)?;
        wait.await.map_err(|_| Superseded)
    }
}

/// Where an attempt reports to.
#[derive(Debug, Clone)]
pub(super) struct Reports {
    pub to: ActorRef<EntityMessage>,
    /// Which start of an effect by that actor it is.
    pub run: u64,
}

/// An effect that has not ended yet, as kept in the entity's record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingEffect {
    pub effect: Bytes,
    pub policy: EffectPolicy,
    /// The attempt that runs now or runs next.
    pub attempt: u32,
    /// Not to be started before.
    pub not_before: Timestamp,
    /// Whether an owner that left says that this attempt may be made: it did not begin it, or it may be repeated.
    #[serde(default)]
    pub held: bool,
    /// The trace context of what caused it.
    #[serde(default)]
    pub trace: Option<String>,
}
