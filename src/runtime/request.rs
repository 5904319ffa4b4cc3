//! A command on its way: who wants it, until when, and under which key.

use std::time::Duration;

use bytes::Bytes;
use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    codec,
    host::{Called, Entity},
    keys,
    store::{Attempt, CommitError, KeyRange, RangeRead, Store},
};
use rand::Rng;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{
    Caller, Runtime,
    failure::{damaged, of_call, undecodable},
};
use crate::{
    control::{AnyCommand, Code, Error, Kind, result::Answer},
    entity::{records, session::fingerprint},
    fact::IdSource,
    sabotage::{Sabotage, is_on},
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
    /// Whether the key is known from an earlier try, which may have been executed.
    pub repeated: bool,
}

impl Request<'_> {
    /// New ids. Asked twice under one key, it gives the same ones in the same order.
    pub fn ids(&self) -> IdSource {
        IdSource::new(self.at, self.seed)
    }

    /// The address of an entity of the caller's tenant.
    pub fn address(&self, kind: &str, id: &str) -> Address {
        #[cfg(feature = "simulation")]
        if is_on(Sabotage::TenantMixedUp) {
            let tenant = crate::sabotage::tenant_before(&self.caller.tenant);
            return Address::new(&tenant, kind, id).expect("tenants and ids are valid parts of addresses");
        }
        Address::new(&self.caller.tenant, kind, id).expect("tenants and ids are valid parts of addresses")
    }

    /// Who wants it, as facts say it.
    pub fn by(&self) -> String {
        self.caller.name.clone()
    }
}

/// What is remembered of a key: for which request it was used, which ids that made, and what was answered.
///
/// An entity remembers its own answers in the step that makes them true. What a command adds to that (it waits for a tree
/// to close, looks whether a session takes new work, asks two entities) may come out otherwise when it is asked again,
/// so the answer as a whole is remembered here, once it is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct KeyRecord {
    fingerprint: u128,
    seed: u64,
    at: Timestamp,
    /// What the command was found to be about when it was first tried: a try that comes later asks the same.
    #[serde(default)]
    found: Option<Vec<u8>>,
    #[serde(default)]
    answer: Option<Remembered>,
}

/// An answer: JSON text and a cursor, or a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Remembered {
    Answered(String, Option<String>),
    Refused(Error),
}

impl Remembered {
    /// What more could never be stored.
    const BYTES_MAX: usize = 64 * 1024;

    fn of(answer: &Result<Answer, Error>) -> Option<Self> {
        match answer {
            Ok(answer) => {
                let result = answer.result.to_string();
                let cursor = answer.cursor.map(|cursor| cursor.to_string());
                (result.len() <= Self::BYTES_MAX).then_some(Self::Answered(result, cursor))
            }
            // What may be better the next time is asked again.
            Err(error) if error.retryable || error.code == Code::Internal => None,
            Err(error) => Some(Self::Refused(error.clone())),
        }
    }

    fn answer(self) -> Result<Answer, Error> {
        match self {
            Self::Answered(result, cursor) => Ok(Answer {
                result: serde_json::from_str(&result).map_err(damaged)?,
                cursor: cursor.map(|cursor| cursor.parse().map_err(damaged)).transpose()?,
            }),
            Self::Refused(error) => Err(error),
        }
    }
}

/// A command that has come in.
pub(super) enum Admitted<'a> {
    /// It is to be executed.
    New(Request<'a>),
    /// It was executed before, under the same key.
    Known(Result<Answer, Error>),
}

cadre_cluster::stored! { KeyRecord: "key" }

/// A key under which the runtime itself tells an entity something, apart from those of callers: theirs have no control
/// characters.
pub(super) fn own_key(what: impl std::fmt::Display) -> String {
    format!("\u{1}{what}")
}

/// A little longer than a key is promised to be remembered.
const KEY_TTL: Duration = Duration::from_secs(25 * 3600);

impl Runtime {
    /// Admits a command: a key that was used for another one is a conflict, whatever entity that was about.
    pub(super) async fn admit<'a>(
        &self,
        caller: &'a Caller,
        command: &AnyCommand,
        key: Option<&'a str>,
        deadline: Duration,
    ) -> Result<Admitted<'a>, Error> {
        let (mut seed, mut at, mut repeated) = (self.draw(), self.clock.now(), false);
        let key = key.filter(|_| command.kind() == Kind::Write);
        if let Some(key) = key {
            if !(8..=128).contains(&key.chars().count()) || key.chars().any(char::is_control) {
                return Err(Error::invalid("Idempotency-Key", "must be 8 to 128 characters"));
            }
            let fingerprint = fingerprint(&(command.name(), command.arguments()));
            let record = KeyRecord { fingerprint, seed, at, found: None, answer: None };
            let known = self.reserve(&caller.tenant, key, record.clone()).await?;
            if known.fingerprint != record.fingerprint {
                return Err(Error::conflict(
                    "key_reused",
                    "the idempotency key was used for another command",
                ));
            }
            if let Some(answer) = known.answer {
                return Ok(Admitted::Known(answer.answer()));
            }
            if !is_on(Sabotage::IdsMadeAnew) {
                (seed, at) = (known.seed, known.at);
            }
            repeated = (known.seed, known.at) != (record.seed, record.at);
        }
        Ok(Admitted::New(Request { caller, key, until: Instant::now() + deadline, seed, at, repeated }))
    }

    /// Remembers what a command under a key was answered. The first answer counts, also when two were made at once.
    pub(super) async fn remember(
        &self,
        request: &Request<'_>,
        answer: Result<Answer, Error>,
    ) -> Result<Answer, Error> {
        let (Some(key), Some(remembered)) = (request.key, Remembered::of(&answer)) else { return answer };
        match self.remember_first(&request.caller.tenant, key, remembered).await {
            Ok(Some(first)) => first.answer(),
            Ok(None) => answer,
            // The entities have remembered what they did: asked again, nothing happens twice. A refusal that was not kept
            // could come out otherwise the next time, so it is not said.
            Err(error) => {
                tracing::warn!(%error, "an answer was not remembered");
                if answer.is_ok() { answer } else { Err(error) }
            }
        }
    }

    async fn remember_first(
        &self,
        tenant: &str,
        key: &str,
        answer: Remembered,
    ) -> Result<Option<Remembered>, Error> {
        let mut is_first = false;
        let record = self.amend(tenant, key, |record| {
            is_first = record.answer.is_none();
            record.answer.get_or_insert_with(|| answer.clone());
        });
        let record = record.await?;
        Ok(record.and_then(|record| record.answer).filter(|_| !is_first))
    }

    /// Remembers what a key stands for, or says what it stood for before.
    async fn reserve(&self, tenant: &str, key: &str, record: KeyRecord) -> Result<KeyRecord, Error> {
        let path = keys::data(tenant, &records::key(key));
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let known = tx.get(&path).await.map_err(unreadable)?;
            if let Some(known) = known {
                let known: KeyRecord = codec::decode(&known).map_err(undecodable)?;
                let expired = known.at.after(KEY_TTL);
                if expired > record.at {
                    return Ok(known);
                }
                // Else the sweeper would take the entry of its former life for that of this one.
                tx.clear(keys::data(tenant, &records::key_expiry(expired, key)));
            }
            tx.set(path.clone(), codec::encode(&record));
            let expires = record.at.after(KEY_TTL);
            tx.set(keys::data(tenant, &records::key_expiry(expires, key)), Bytes::new());
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

    /// What a command is found to be about: under a key, what the first try has found, so that all tries ask the same.
    pub(super) async fn first_found<T>(&self, request: &Request<'_>, found: T) -> Result<T, Error>
    where
        T: Serialize + serde::de::DeserializeOwned,
    {
        let Some(key) = request.key else { return Ok(found) };
        let found = codec::pack(&found).to_vec();
        let amended = self.amend(&request.caller.tenant, key, |record| {
            record.found.get_or_insert_with(|| found.clone());
        });
        let known = amended.await?.and_then(|record| record.found).unwrap_or(found);
        codec::unpack("found", &known).map_err(undecodable)
    }

    /// Changes what is remembered of a key, and says what that is then.
    async fn amend(
        &self,
        tenant: &str,
        key: &str,
        mut change: impl FnMut(&mut KeyRecord),
    ) -> Result<Option<KeyRecord>, Error> {
        let path = keys::data(tenant, &records::key(key));
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let Some(known) = tx.get(&path).await.map_err(unreadable)? else { return Ok(None) };
            let known: KeyRecord = codec::decode(&known).map_err(undecodable)?;
            let mut changed = known.clone();
            change(&mut changed);
            if changed == known {
                return Ok(Some(known));
            }
            tx.set(path.clone(), codec::encode(&changed));
            match tx.commit().await {
                Ok(_) => return Ok(Some(changed)),
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
        self.ask_under::<E>(request, address, command, request.key).await
    }

    /// Asks an entity under another key than the caller's, or none.
    pub(super) async fn ask_under<E>(
        &self,
        request: &Request<'_>,
        address: &Address,
        command: &E::Command,
        key: Option<&str>,
    ) -> Result<Called<E::Reply>, Error>
    where
        E: Entity<Refusal = Error>,
    {
        let key = key.filter(|_| !is_on(Sabotage::KeyNotPassedOn));
        self.client.call::<E>(address, command, key, request.left()).await.map_err(of_call)
    }
}

/// Forgets keys that have expired by `now`, at most so many. How many were looked at.
pub(super) async fn forget_keys(
    store: &Store,
    tenant: &str,
    now: Timestamp,
    at_most: usize,
) -> Result<usize, CommitError> {
    let (from, to) = records::keys_expired(now);
    let range = KeyRange::new(keys::data(tenant, &from), keys::data(tenant, &to));
    let mut attempt = Attempt::idempotent();
    loop {
        let mut tx = store.begin();
        let page = tx.snapshot_range(&RangeRead::new(range.clone()).limit(at_most)).await?;
        for pair in &page.pairs {
            let entry = keys::data_path(&pair.key, tenant).and_then(records::expired_key);
            if let Some((at, key)) = entry {
                // Read so that it conflicts with whoever uses the key again.
                let path = keys::data(tenant, &records::key(&key));
                let known = tx.get(&path).await?.map(|known| codec::decode::<KeyRecord>(&known));
                // One that cannot be read is of no use to anybody.
                if known.is_some_and(|known| known.map_or(true, |known| known.at.after(KEY_TTL) <= at)) {
                    tx.clear(path);
                }
            }
            tx.clear(pair.key.clone());
        }
        if page.pairs.is_empty() {
            return Ok(0);
        }
        match tx.commit().await {
            Ok(_) => return Ok(page.pairs.len()),
            Err(error) => attempt.again(error).await?,
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
