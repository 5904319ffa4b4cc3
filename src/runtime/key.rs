//! What is remembered of callers' keys.

use std::time::Duration;

use bytes::Bytes;
use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    codec, keys,
    store::{Attempt, CommitError, KeyRange, RangeRead, Store},
};
use serde::{Deserialize, Serialize};

use super::{
    Request, Runtime,
    failure::{damaged, undecodable, unreadable},
};
use crate::{
    control::{Code, Error, result::Answer},
    entity::records,
};

/// What is remembered of a key: for which request it was used, which ids that made, and what was answered.
///
/// An entity remembers its own answers in the step that makes them true. What a command adds to that (it waits for a tree
/// to close, looks whether a session takes new work, asks two entities) may come out otherwise when it is asked again,
/// so the answer as a whole is remembered here, once it is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct KeyRecord {
    pub fingerprint: u128,
    pub seed: u64,
    pub at: Timestamp,
    /// What the command was found to be about when it was first tried: a try that comes later asks the same.
    #[serde(default)]
    pub found: Option<Vec<u8>>,
    #[serde(default)]
    pub answer: Option<Remembered>,
}

/// An answer: JSON text and a cursor, or a refusal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Remembered {
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

    pub fn answer(self) -> Result<Answer, Error> {
        match self {
            Self::Answered(result, cursor) => Ok(Answer {
                result: serde_json::from_str(&result).map_err(damaged)?,
                cursor: cursor.map(|cursor| cursor.parse().map_err(damaged)).transpose()?,
            }),
            Self::Refused(error) => Err(error),
        }
    }
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
    pub(super) async fn reserve(
        &self,
        tenant: &str,
        key: &str,
        record: KeyRecord,
    ) -> Result<KeyRecord, Error> {
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
