//! Tokens that Cadre hands out and believes when they come back: to resume a channel, to fetch an attachment.
//!
//! A token carries a payload that anybody can read and nobody can change, for one purpose. The keys are in the store,
//! so that every gateway of a cluster, and the next life of each, believes what another has signed. They are made by
//! whoever needs them first, and rotated by whoever finds that it is time.
//!
//! That a token is genuine says nothing about whether it is still good or whose it is: the tenant and the time at which
//! it expires belong into the payload, and whoever verifies has to look at both.

mod keyring;
#[cfg(test)]
mod tests;
mod token;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use cadre_cluster::{
    clock::{Clock, Timestamp},
    codec, keys,
    store::{Attempt, CommitError, Store, Transaction},
};
use rand::TryRngCore;
use tokio::time::Instant;

use self::keyring::{Keyring, Secret};
use crate::entity::records;

/// How long a ring that was read is used before the next look.
const READ_EVERY: Duration = Duration::from_secs(60);
/// A token of a key that is not known here is a reason to look, but anybody can make such up: no more than one look in
/// this time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The caller signs more than fits into a token.
    #[error("a payload of {actual} bytes is over the {limit} of a token")]
    TooLarge {
        /// The bound.
        limit: usize,
        /// What was to be signed.
        actual: usize,
    },
    /// Try again.
    #[error("the signing keys cannot be read now: {reason}")]
    Unavailable {
        /// What the store said.
        reason: String,
    },
}

/// Why a token is not believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidToken {
    /// Not signed here, or for another purpose, or by a key that is no longer good. Which one is nobody's business.
    #[error("the token is not valid")]
    Rejected,
    /// Whether it is genuine is not known: try again.
    #[error("the signing keys cannot be read now: {reason}")]
    Unavailable {
        /// What the store said.
        reason: String,
    },
}

/// Signs, and verifies what was signed. Cheap to clone.
#[derive(Clone)]
pub struct Signer {
    store: Store,
    clock: Arc<dyn Clock>,
    draw: Arc<dyn Fn() -> [u8; Secret::LEN] + Send + Sync>,
    known: Arc<Mutex<Option<Known>>>,
}

/// A ring, and when it was read.
#[derive(Clone)]
struct Known {
    ring: Arc<Keyring>,
    at: Instant,
}

impl Signer {
    /// The largest payload of a token.
    pub const PAYLOAD_BYTES_MAX: usize = token::PAYLOAD_BYTES_MAX;

    /// With keys from the operating system's generator.
    pub fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self::drawing(store, clock, || {
            let mut secret = [0; Secret::LEN];
            rand::rngs::OsRng.try_fill_bytes(&mut secret).expect("the operating system has random numbers");
            secret
        })
    }

    /// With keys from `draw`, which has to be as unguessable as the tokens are meant to be.
    pub fn drawing(
        store: Store,
        clock: Arc<dyn Clock>,
        draw: impl Fn() -> [u8; 32] + Send + Sync + 'static,
    ) -> Self {
        Self { store, clock, draw: Arc::new(draw), known: Arc::default() }
    }

    /// A token for a purpose: visible ASCII that may stand in URLs.
    pub async fn sign(&self, purpose: &str, payload: &[u8]) -> Result<String, SignError> {
        if payload.len() > Self::PAYLOAD_BYTES_MAX {
            return Err(SignError::TooLarge { limit: Self::PAYLOAD_BYTES_MAX, actual: payload.len() });
        }
        let ring = self.ring(READ_EVERY).await;
        let ring = ring.map_err(|error| SignError::Unavailable { reason: error.to_string() })?;
        Ok(token::seal(ring.signing(self.clock.now()), purpose, payload))
    }

    /// What was signed, if it was signed for this purpose.
    pub async fn verify(&self, purpose: &str, token: &str) -> Result<Vec<u8>, InvalidToken> {
        let unavailable = |error: CommitError| InvalidToken::Unavailable { reason: error.to_string() };
        let opened = token::open(token).ok_or(InvalidToken::Rejected)?;
        let mut ring = self.ring(READ_EVERY).await.map_err(unavailable)?;
        if ring.find(opened.key()).is_none() {
            ring = self.ring(LOOK_AGAIN_AFTER).await.map_err(unavailable)?;
        }
        opened.verified(&ring, purpose).ok_or(InvalidToken::Rejected)
    }

    /// Puts a new key into the ring. It signs when everybody can know it; what was signed before stays good.
    pub async fn rotate(&self) -> Result<(), CommitError> {
        self.change(next).await.map(drop)
    }

    /// Begins a new ring: nothing that was signed before is believed any more, here at once and elsewhere within a
    /// minute. For when a key has become known.
    pub async fn replace(&self) -> Result<(), CommitError> {
        let changed = self.change(|known, secret, now| match known {
            Some(ring) => ring.replaced(secret, now),
            None => Keyring::first(secret, now),
        });
        changed.await.map(drop)
    }

    /// The ring, read no longer ago than this.
    async fn ring(&self, read_within: Duration) -> Result<Arc<Keyring>, CommitError> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(known) = known.filter(|known| known.at.elapsed() < read_within) {
            return Ok(known.ring);
        }
        let Some(ring) = read(&mut self.store.begin()).await? else {
            let made = self
                .change(|known, secret, now| known.cloned().unwrap_or_else(|| Keyring::first(secret, now)));
            return made.await;
        };
        if ring.is_due(self.clock.now()) {
            let rotated = self.change(|known, secret, now| match known {
                Some(ring) if !ring.is_due(now) => ring.clone(),
                known => next(known, secret, now),
            });
            match rotated.await {
                Ok(ring) => return Ok(ring),
                // A store that is full can still be read, and the old key is still good.
                Err(error) => tracing::warn!(%error, "the signing keys are not rotated although it is time"),
            }
        }
        Ok(self.learn(ring))
    }

    /// Reads the ring and puts another in its place. Of several that make the first one at once, one does, and the
    /// others find it.
    async fn change(
        &self,
        change: impl Fn(Option<&Keyring>, Secret, Timestamp) -> Keyring,
    ) -> Result<Arc<Keyring>, CommitError> {
        let (secret, now) = (Secret((self.draw)()), self.clock.now());
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let known = read(&mut tx).await?;
            // A try whose outcome was not known has been committed: once is enough.
            if let Some(ring) = known.as_ref().filter(|ring| ring.has(&secret)) {
                return Ok(self.learn(ring.clone()));
            }
            let ring = change(known.as_ref(), secret.clone(), now);
            if known.as_ref() == Some(&ring) {
                return Ok(self.learn(ring));
            }
            tx.set(path(), codec::encode(&ring));
            match tx.commit().await {
                Ok(_) => return Ok(self.learn(ring)),
                Err(error) => attempt.again(error).await?,
            }
        }
    }

    fn learn(&self, ring: Keyring) -> Arc<Keyring> {
        let ring = Arc::new(ring);
        let known = Known { ring: ring.clone(), at: Instant::now() };
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        ring
    }
}

fn path() -> Bytes {
    keys::cluster_data(&records::signing_keys())
}

async fn read(tx: &mut Transaction) -> Result<Option<Keyring>, CommitError> {
    let Some(bytes) = tx.get(&path()).await? else { return Ok(None) };
    codec::decode(&bytes).map(Some).map_err(|error| CommitError::Failed(Arc::new(error)))
}

fn next(known: Option<&Keyring>, secret: Secret, now: Timestamp) -> Keyring {
    match known {
        Some(ring) => ring.rotated(secret, now),
        None => Keyring::first(secret, now),
    }
}
