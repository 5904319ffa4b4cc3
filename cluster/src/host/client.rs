//! Calling entities from anywhere: on this node directly, on others over the bus, until answered.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Entity,
    shard::ask,
    shared::Shared,
    wire::{Request, Response, TooLong},
};
use crate::{
    address::{Address, InvalidAddress},
    bus::{Bus, Headers, RequestError, TRACEPARENT},
    codec,
    feed::Cursor,
    sabotage::{Sabotage, is_on},
    trace,
};

/// A door to all entities of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    cluster: Arc<str>,
    shards: u16,
    bus: Bus,
    /// The node in this process, if it has one.
    local: Option<Arc<Shared>>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Called<T> {
    /// What the entity says.
    pub reply: T,
    /// The position of the last event that the command caused.
    pub cursor: Option<Cursor>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError<R> {
    /// The entity says no. Durable: the same key gives the same refusal.
    #[error("refused: {0:?}")]
    Refused(R),
    /// Correct the request.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// Correct the request.
    #[error("command of {actual} bytes is over the limit of {limit}")]
    TooLarge {
        /// The bound.
        limit: usize,
        /// What was asked for.
        actual: usize,
    },
    /// Correct the request.
    #[error("idempotency key of {actual} bytes is over the limit of {limit}")]
    KeyTooLong {
        /// The bound.
        limit: usize,
        /// What was asked for.
        actual: usize,
    },
    /// Correct the request: this idempotency key was used for another command.
    #[error("the idempotency key was used for another command")]
    KeyReused,
    /// Slow down: too much waits already. Nothing was done.
    #[error("too many commands are waiting")]
    Busy,
    /// Try again later: no owner could be reached in time. Nothing was done.
    #[error("no owner of the entity could be reached: {reason}")]
    Unavailable {
        /// What was in the way last.
        reason: String,
    },
    /// Find out by asking again with the same key: it may have been done.
    #[error("no answer in time, the command may have been done")]
    OutcomeUnknown,
    /// Report: the command could not be applied and was put aside.
    #[error("the command could not be applied: {reason}")]
    Poisoned {
        /// Why.
        reason: String,
    },
    /// Correct the configuration: the cluster is divided otherwise than this client believes.
    #[error("this client is set up for {configured} shards, the cluster has {shards}")]
    Misrouted {
        /// What this client believes.
        configured: u16,
        /// What the cluster has.
        shards: u16,
    },
    /// Report: no node hosts this kind.
    #[error("no node hosts entities of kind {kind}")]
    UnknownKind {
        /// The kind.
        kind: String,
    },
    /// Report: the answer is not what this version understands.
    #[error("the answer is unreadable: {reason}")]
    Unreadable {
        /// What the parser said.
        reason: String,
    },
}

/// How one try ended.
enum Tried {
    Response(Response),
    /// Nothing was done; another try may find an owner.
    NotReached(String),
    /// It may have been done.
    Unknown,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.local.is_some();
        f.debug_struct("Client")
            .field("cluster", &self.cluster)
            .field("local", &local)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// The pause between tries while a shard is moving.
    const PAUSE_FIRST: Duration = Duration::from_millis(5);
    const PAUSE_MAX: Duration = Duration::from_millis(200);
    /// What goes over the bus beside a command and its key: headers and their packing.
    const OVERHEAD_BYTES: usize = 512;
    /// As good as for ever, and still a point in time.
    const TIMEOUT_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
    /// One try over the bus; a lost message costs this much, not the whole timeout.
    const TRY_MAX: Duration = Duration::from_secs(2);

    /// A client without a node in this process.
    pub fn remote(cluster: &str, shards: u16, bus: Bus) -> Self {
        Self { cluster: cluster.into(), shards, bus, local: None }
    }

    pub(super) fn local(shared: Arc<Shared>) -> Self {
        Self {
            cluster: shared.config.cluster.as_str().into(),
            shards: shared.config.shards,
            bus: shared.bus.clone(),
            local: Some(shared),
        }
    }

    /// Asks an entity, until it answers or `timeout` is over. With a `key`, the command is done once however
    /// often it is sent; without one it is sent again only while it is certain that nothing was done.
    pub async fn call<E: Entity>(
        &self,
        address: &Address,
        command: &E::Command,
        key: Option<&str>,
        timeout: Duration,
    ) -> Result<Called<E::Reply>, CallError<E::Refusal>> {
        let request = Request { key: key.map(str::to_owned), body: codec::encode(command) };
        if let Err(TooLong { limit, actual }) = request.check_key() {
            return Err(CallError::KeyTooLong { limit, actual });
        }
        let limit = self.bus.max_payload().saturating_sub(Self::OVERHEAD_BYTES);
        let actual = request.body.len() + key.map_or(0, str::len);
        if actual > limit {
            return Err(CallError::TooLarge { limit, actual });
        }
        let now = Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or(now + Self::TIMEOUT_MAX);
        let mut pause = Self::PAUSE_FIRST;
        let mut maybe_done = false;
        loop {
            let tried = tokio::time::timeout_at(deadline, self.attempt(address, &request, deadline)).await;
            let last = match tried.unwrap_or(Tried::Unknown) {
                Tried::Response(response) => match self.answer::<E>(address, response) {
                    // These say that this try did nothing, not that an earlier one did not.
                    Ok(Err(CallError::Busy | CallError::UnknownKind { .. })) if maybe_done => Again::Unknown,
                    Ok(answer) => return answer,
                    Err(again) => again,
                },
                Tried::NotReached(reason) => Again::NotDone(reason),
                Tried::Unknown => Again::Unknown,
            };
            maybe_done |= matches!(last, Again::Unknown);
            let out_of_time = Instant::now() + pause >= deadline;
            if out_of_time || maybe_done && key.is_none() && !is_on(Sabotage::KeylessSentAgain) {
                return Err(match last {
                    _ if maybe_done => CallError::OutcomeUnknown,
                    Again::NotDone(reason) => CallError::Unavailable { reason },
                    Again::Unknown => CallError::OutcomeUnknown,
                });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Self::PAUSE_MAX);
        }
    }

    async fn attempt(&self, address: &Address, request: &Request, deadline: Instant) -> Tried {
        let shard = address.shard(self.shards);
        if let Some(local) = &self.local
            && let Some(actor) = local.routes.get(shard)
        {
            let asked = ask(local, &actor, address.clone(), request.clone(), trace::current());
            return Tried::Response(asked.await);
        }
        let mut headers = Headers::default();
        if let Some(context) = trace::current() {
            headers.set(TRACEPARENT, &context);
        }
        let subject = address.subject(&self.cluster, shard);
        let timeout = deadline.duration_since(Instant::now()).min(Self::TRY_MAX);
        match self.bus.request(&subject, headers, codec::pack(request), timeout).await {
            Ok(payload) => match codec::unpack("response", &payload) {
                Ok(response) => Tried::Response(response),
                Err(_) => Tried::Unknown,
            },
            Err(error @ (RequestError::NoResponders { .. } | RequestError::NotSent { .. })) => {
                Tried::NotReached(error.to_string())
            }
            Err(RequestError::TooLarge { limit, actual }) => {
                Tried::NotReached(format!("request of {actual} bytes is over the bus limit of {limit}"))
            }
            Err(RequestError::TimedOut { .. } | RequestError::Unavailable { .. }) => Tried::Unknown,
        }
    }

    /// The final answer, or why to ask again.
    #[allow(clippy::type_complexity, reason = "an answer, or a reason to try again")]
    fn answer<E: Entity>(
        &self,
        address: &Address,
        response: Response,
    ) -> Result<Result<Called<E::Reply>, CallError<E::Refusal>>, Again> {
        let unreadable = |error: codec::DecodeError| CallError::Unreadable { reason: error.to_string() };
        Ok(match response {
            Response::Answered { refused: false, body, cursor } => {
                codec::decode(&body).map(|reply| Called { reply, cursor }).map_err(unreadable)
            }
            Response::Answered { refused: true, body, .. } => {
                Err(codec::decode(&body).map_or_else(unreadable, CallError::Refused))
            }
            Response::KeyReused => Err(CallError::KeyReused),
            Response::Busy => Err(CallError::Busy),
            Response::Poisoned { reason } => Err(CallError::Poisoned { reason }),
            Response::UnknownKind => Err(CallError::UnknownKind { kind: address.kind().to_owned() }),
            Response::Misrouted { shards } => Err(CallError::Misrouted { configured: self.shards, shards }),
            Response::Moving | Response::NotOwner => {
                return Err(Again::NotDone("the shard is moving".into()));
            }
            Response::Unavailable { reason } => return Err(Again::NotDone(reason)),
            Response::OutcomeUnknown => return Err(Again::Unknown),
        })
    }
}

enum Again {
    NotDone(String),
    Unknown,
}
