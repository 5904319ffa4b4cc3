//! A command on its way: who wants it, until when, and under which key.

use std::time::Duration;

use bytes::Bytes;
use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    codec::{self, Stored},
    host::{CallError, Called, Entity},
    keys,
    store::{Attempt, CommitError, KeyRange, RangeRead},
};
use rand::Rng;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Caller, Runtime};
use crate::{
    control::{AnyCommand, Code, Error, Kind},
    entity::{records, session::fingerprint},
    fact::IdSource,
};

/// A command that was admitted.
pub(super) struct Request<'a> {
    /// Who wants it.
    pub caller: &'a Caller,
    /// The caller's key, if it has one.
    pub key: Option<&'a str>,
    /// Until when the caller waits.
    pub until: Instant,
    /// Where the ids of what the caller has not named come from: the same for the same key.
    seed: u64,
    at: Timestamp,
}

impl Request<'_> {
    /// New ids. Asked twice under one key, it gives the same ones in the same order.
    pub fn ids(&self) -> IdSource {
        IdSource::new(self.at, self.seed)
    }

    /// The address of an entity of the caller's tenant.
    pub fn address(&self, kind: &str, id: &str) -> Address {
        Address::new(&self.caller.tenant, kind, id).expect("tenants and ids are valid parts of addresses")
    }

    /// Who wants it, as facts say it.
    pub fn by(&self) -> String {
        self.caller.name.clone()
    }
}

/// What is remembered of a key: for which request it was used, and which ids that made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct KeyRecord {
    fingerprint: u128,
    seed: u64,
    at: Timestamp,
}

cadre_cluster::stored! { KeyRecord: "key" }

/// A little longer than a key is promised to be remembered.
const KEY_TTL: Duration = Duration::from_secs(25 * 3600);
/// Expired keys that go with each new one: more than come in, so that they do not pile up.
const KEYS_EXPIRED_AT_ONCE: usize = 4;

impl Runtime {
    /// Admits a command: a key that was used for another one is a conflict, whatever entity that was about.
    pub(super) async fn admit<'a>(
        &self,
        caller: &'a Caller,
        command: &AnyCommand,
        key: Option<&'a str>,
        deadline: Duration,
    ) -> Result<Request<'a>, Error> {
        let (mut seed, mut at) = (self.draw(), self.clock.now());
        let key = key.filter(|_| command.kind() == Kind::Write);
        if let Some(key) = key {
            if !(8..=128).contains(&key.chars().count()) || key.chars().any(char::is_control) {
                return Err(Error::invalid("Idempotency-Key", "must be 8 to 128 characters"));
            }
            let record =
                KeyRecord { fingerprint: fingerprint(&(command.name(), command.arguments())), seed, at };
            let known = self.reserve(&caller.tenant, key, record.clone()).await?;
            if known.fingerprint != record.fingerprint {
                return Err(Error::conflict(
                    "key_reused",
                    "the idempotency key was used for another command",
                ));
            }
            (seed, at) = (known.seed, known.at);
        }
        Ok(Request { caller, key, until: Instant::now() + deadline, seed, at })
    }

    /// Remembers what a key stands for, or says what it stood for before.
    async fn reserve(&self, tenant: &str, key: &str, record: KeyRecord) -> Result<KeyRecord, Error> {
        let path = keys::data(tenant, &records::key(key));
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let known = tx.get(&path).await.map_err(unreadable)?;
            if let Some(known) = known {
                let known: KeyRecord = codec::decode(&known).map_err(unreadable)?;
                if known.at.after(KEY_TTL) > record.at {
                    return Ok(known);
                }
            }
            tx.set(path.clone(), codec::encode(&record));
            let expires = record.at.after(KEY_TTL);
            tx.set(keys::data(tenant, &records::key_expiry(expires, key)), Bytes::new());
            let (from, to) = records::keys_expired(record.at);
            let expired = KeyRange::new(keys::data(tenant, &from), keys::data(tenant, &to));
            let page = tx.snapshot_range(&RangeRead::new(expired).limit(KEYS_EXPIRED_AT_ONCE)).await;
            for pair in page.map_err(unreadable)?.pairs {
                let start = keys::data(tenant, &[]).len();
                if let Some(old) = records::expired_key(&pair.key[start..]).filter(|old| old != key) {
                    tx.clear(keys::data(tenant, &records::key(&old)));
                }
                tx.clear(pair.key);
            }
            match tx.commit().await {
                Ok(_) => return Ok(record),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }

    /// Whether an entity remembers an answer under the request's key.
    pub(super) async fn is_answered(&self, request: &Request<'_>, address: &Address) -> Result<bool, Error> {
        let Some(key) = request.key else { return Ok(false) };
        let answered = self.store.begin().snapshot_get(&keys::idempotency(address, key)).await;
        Ok(answered.map_err(unreadable)?.is_some())
    }

    /// What a request under a key saw before its entity was asked. Sent again, it must ask the same, though what is to
    /// be seen has changed since, also by the request itself: once it was answered it is given what it saw then, and
    /// until then what it sees now. `fresh` must have been looked at before this.
    pub(super) async fn seen<T: Stored>(
        &self,
        request: &Request<'_>,
        address: &Address,
        fresh: T,
    ) -> Result<T, Error> {
        let Some(key) = request.key else { return Ok(fresh) };
        let tenant = &request.caller.tenant;
        // No caller's key has a control character, and it goes when a caller's would.
        let name = format!("{key}\u{1}seen");
        let path = keys::data(tenant, &records::key(&name));
        if self.is_answered(request, address).await? {
            let seen = self.store.begin().snapshot_get(&path).await.map_err(unreadable)?;
            return seen.map_or(Ok(fresh), |seen| codec::decode(&seen).map_err(unreadable));
        }
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            tx.set(path.clone(), codec::encode(&fresh));
            let expires = request.at.after(KEY_TTL);
            tx.set(keys::data(tenant, &records::key_expiry(expires, &name)), Bytes::new());
            match tx.commit().await {
                Ok(_) => return Ok(fresh),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }

    /// A random number.
    fn draw(&self) -> u64 {
        self.entropy.lock().unwrap_or_else(std::sync::PoisonError::into_inner).random()
    }

    /// Asks an entity.
    pub(super) async fn ask<E>(
        &self,
        request: &Request<'_>,
        address: &Address,
        command: &E::Command,
    ) -> Result<Called<E::Reply>, Error>
    where
        E: Entity<Refusal = Error>,
    {
        let called = self.client.call::<E>(address, command, request.key, request.left()).await;
        called.map_err(refused)
    }
}

/// Why there is no answer, as callers are told.
fn refused(error: CallError<Error>) -> Error {
    match error {
        CallError::Refused(refusal) => refusal,
        CallError::TooLarge { limit, actual } => Error::too_large(limit as u64, actual as u64),
        CallError::KeyTooLong { .. } => Error::invalid("Idempotency-Key", "is too long"),
        CallError::KeyReused => {
            Error::conflict("key_reused", "the idempotency key was used for another command")
        }
        CallError::Busy => Error::rate_limited(100, "too many commands wait for this entity"),
        CallError::Unavailable { reason } => Error::unavailable(reason),
        CallError::OutcomeUnknown => Error::deadline(),
        error @ (CallError::Address(_)
        | CallError::Poisoned { .. }
        | CallError::Misrouted { .. }
        | CallError::UnknownKind { .. }
        | CallError::Unreadable { .. }) => {
            let incident = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(error.to_string().as_bytes()));
            tracing::error!(%error, incident, "a command could not be executed");
            Error::internal(incident)
        }
    }
}

/// The store cannot be read or written right now.
pub(super) fn unreadable(error: impl std::fmt::Display) -> Error {
    tracing::warn!(%error, "the store did not answer");
    Error::new(Code::Unavailable, "the store does not answer, try again")
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        unreadable(error)
    }
}
