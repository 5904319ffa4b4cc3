//! Large things, kept apart in pieces: outputs of tools, inputs, exports.
//!
//! A blob is written before anything refers to it and never changed. It expires; what nobody refers to (a writer that
//! died in between) goes the same way, because what will expire is noted with the first piece of it.

mod expiry;
mod retention;
#[cfg(test)]
mod tests;

use bytes::{Bytes, BytesMut};
use cadre_cluster::{
    clock::{Clock, Timestamp},
    codec::{self, DecodeError},
    keys,
    store::{Attempt, CommitError, KeyRange, ReadError, Store, Transaction},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{ops::Range, sync::Arc, time::Duration};

pub use self::{
    expiry::Due,
    retention::{InvalidRetention, Retention},
};
use crate::{
    entity::records,
    fact::{
        Ids, Time,
        id::{BlobRef, SessionId},
    },
};

/// Where blobs are kept.
#[derive(Clone)]
pub struct Blobs {
    store: Store,
    clock: Arc<dyn Clock>,
    ttl: Duration,
}

/// A blob to be written.
#[derive(Debug, Clone)]
pub struct NewBlob {
    /// Its name, new.
    pub blob: BlobRef,
    /// What it is.
    pub media_type: String,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// The whole of it.
    pub content: Bytes,
}

/// What is known of a blob without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobMeta {
    /// What it is.
    pub media_type: String,
    /// How much.
    pub size_bytes: u64,
    /// SHA-256, in hex.
    pub hash: String,
    /// When it was written.
    pub created: Timestamp,
    /// When it may be gone.
    pub expires: Timestamp,
    /// The session it belongs to.
    pub session: Option<SessionId>,
    /// What else of the session it came from: a turn, a call.
    #[serde(default)]
    pub about: Ids,
    /// How far it is.
    #[serde(default)]
    pub state: BlobState,
}

/// How far a blob is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum BlobState {
    /// It is all there.
    #[default]
    Whole,
    /// It is being written, or whoever wrote it has died.
    Partial,
    /// It is being removed.
    Leaving,
}

cadre_cluster::stored! { BlobMeta: "blob" }

/// Why a blob could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// There is none of that name, or no more.
    #[error("there is no blob {blob}")]
    NotFound {
        /// Its name.
        blob: BlobRef,
    },
    /// It was kept for as long as it should be.
    #[error("the blob {blob} has expired at {}", Time(*.at))]
    Expired {
        /// Its name.
        blob: BlobRef,
        /// Since when it is not kept.
        at: Timestamp,
    },
    /// Try again.
    #[error("what was called {blob} is being removed")]
    Leaving {
        /// Its name.
        blob: BlobRef,
    },
    /// Go on with what is there, or take another name.
    #[error("there is another blob {blob}")]
    Exists {
        /// Its name.
        blob: BlobRef,
    },
    /// Correct the request.
    #[error("a blob of {actual} bytes is over the limit of {limit}")]
    TooLarge {
        /// The bound.
        limit: usize,
        /// What was asked for.
        actual: usize,
    },
    /// Try again.
    #[error("cannot read the blob")]
    Read(#[from] ReadError),
    /// Try again.
    #[error("cannot write the blob")]
    Write(#[from] CommitError),
    /// Report.
    #[error("the blob is damaged")]
    Decode(#[from] DecodeError),
}

/// The records of a blob that an entity writes in its own step, to be kept for `ttl`.
pub fn pieces_of(new: NewBlob, about: Ids, now: Timestamp, ttl: Duration) -> Vec<(Vec<u8>, Bytes)> {
    let NewBlob { blob, content, .. } = &new;
    let pieces: Vec<_> = (0..content.len())
        .step_by(Blobs::PIECE_BYTES)
        .zip(0..)
        .map(|(at, number)| {
            let piece = content.slice(at..content.len().min(at + Blobs::PIECE_BYTES));
            (records::blob_piece(blob, number), piece)
        })
        .collect();
    let (path, expiry) = (records::blob(blob), records::blob_expiry(now.after(ttl), blob));
    let meta = codec::encode(&new.meta(about, now, ttl));
    pieces.into_iter().chain([(path, meta), (expiry, Bytes::new())]).collect()
}

impl NewBlob {
    fn meta(self, about: Ids, now: Timestamp, ttl: Duration) -> BlobMeta {
        BlobMeta {
            media_type: self.media_type,
            size_bytes: self.content.len() as u64,
            hash: hex(&Sha256::digest(&self.content)),
            created: now,
            expires: now.after(ttl),
            session: self.session,
            about,
            state: BlobState::Whole,
        }
    }
}

/// A blob that somebody removes is there for as long as anybody may need it: a hundred years.
const KEPT_FOR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl Blobs {
    /// Well below the largest value of any store.
    const PIECE_BYTES: usize = 64 * 1024;
    /// Well below the largest transaction of any store.
    const PIECES_PER_COMMIT: usize = 32;
    /// The largest blob.
    pub const BYTES_MAX: usize = 128 * 1024 * 1024;

    /// Blobs in a store; each is kept for `ttl`.
    pub fn new(store: Store, clock: Arc<dyn Clock>, ttl: Duration) -> Self {
        Self { store, clock, ttl }
    }

    /// For how long each is kept.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Writes a blob. Writing the same one again changes nothing but its time; another one of its name is refused while
    /// the first is kept, because somebody may have been told what is in it. Of two that are written at once under one
    /// name one comes to be there, as a whole.
    pub async fn write(&self, tenant: &str, new: NewBlob) -> Result<BlobMeta, BlobError> {
        self.write_about(tenant, new, Ids::default()).await
    }

    /// Writes a blob that came from a part of its session.
    pub async fn write_about(&self, tenant: &str, new: NewBlob, about: Ids) -> Result<BlobMeta, BlobError> {
        self.write_for(tenant, new, about, self.ttl).await
    }

    /// Writes a blob that does not expire by itself: whoever writes it removes it.
    pub async fn keep(&self, tenant: &str, new: NewBlob) -> Result<BlobMeta, BlobError> {
        self.write_for(tenant, new, Ids::default(), KEPT_FOR).await
    }

    /// Removes a blob before its time. One that is not there is no error.
    pub async fn remove(&self, tenant: &str, blob: &BlobRef) -> Result<(), BlobError> {
        let key = keys::data(tenant, &records::blob(blob));
        let meta = self.store.begin().snapshot_get(&key).await?;
        let meta: Option<BlobMeta> = meta.map(|meta| codec::decode(&meta)).transpose()?;
        self.commit(|tx| {
            if let Some(meta) = &meta {
                tx.clear(keys::data(tenant, &records::blob_expiry(meta.expires, blob)));
            }
            tx.clear_range(KeyRange::prefix(key.to_vec()));
        })
        .await?;
        Ok(())
    }

    async fn write_for(
        &self,
        tenant: &str,
        new: NewBlob,
        about: Ids,
        ttl: Duration,
    ) -> Result<BlobMeta, BlobError> {
        if new.content.len() > Self::BYTES_MAX {
            return Err(BlobError::TooLarge { limit: Self::BYTES_MAX, actual: new.content.len() });
        }
        let pieces: Vec<(u64, Bytes)> = (0..new.content.len())
            .step_by(Self::PIECE_BYTES)
            .map(|at| new.content.slice(at..new.content.len().min(at + Self::PIECE_BYTES)))
            .zip(0..)
            .map(|(piece, number)| (number, piece))
            .collect();
        let (first, rest) = pieces.split_at(pieces.len().min(Self::PIECES_PER_COMMIT));
        let blob = new.blob.clone();
        let meta = new.meta(about, self.clock.now(), ttl);
        let state = if rest.is_empty() { BlobState::Whole } else { BlobState::Partial };
        let mut known = self.begin(tenant, &blob, &BlobMeta { state, ..meta }, first).await?;
        if known.state == BlobState::Whole {
            metrics::counter!("cadre_blobs_written_bytes_total").increment(known.size_bytes);
            return Ok(known);
        }
        for some in rest.chunks(Self::PIECES_PER_COMMIT) {
            known = self.go_on(tenant, &blob, &known, some, BlobState::Partial).await?;
        }
        known = self.go_on(tenant, &blob, &known, &[], BlobState::Whole).await?;
        metrics::counter!("cadre_blobs_written_bytes_total").increment(known.size_bytes);
        Ok(known)
    }

    /// The first transaction of a blob: with it is noted when it will expire, and what was there of that name is over,
    /// unless it is another blob that is kept. What is known of it then: whole, too, and as old, when the same one was.
    async fn begin(
        &self,
        tenant: &str,
        blob: &BlobRef,
        meta: &BlobMeta,
        pieces: &[(u64, Bytes)],
    ) -> Result<BlobMeta, BlobError> {
        let key = keys::data(tenant, &records::blob(blob));
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let mut meta = meta.clone();
            if let Some(former) = tx.get(&key).await? {
                let former: BlobMeta = codec::decode(&former)?;
                let is_same = former.hash == meta.hash;
                let is_kept = former.expires > self.clock.now();
                match former.state {
                    BlobState::Leaving => return Err(BlobError::Leaving { blob: blob.clone() }),
                    BlobState::Whole if is_same => meta.state = BlobState::Whole,
                    BlobState::Whole if is_kept => {
                        return Err(BlobError::Exists { blob: blob.clone() });
                    }
                    BlobState::Whole | BlobState::Partial => {}
                }
                if is_same && is_kept {
                    // Two who write the same at once are told the same of it.
                    meta.created = former.created;
                }
                tx.clear(keys::data(tenant, &records::blob_expiry(former.expires, blob)));
                // Of the same one some pieces may be there, and whoever writes them may be at it still.
                if !is_same {
                    tx.clear_range(KeyRange::prefix(key.to_vec()));
                }
            }
            for (number, piece) in pieces {
                tx.set(keys::data(tenant, &records::blob_piece(blob, *number)), piece.clone());
            }
            tx.set(key.clone(), codec::encode(&meta));
            tx.set(keys::data(tenant, &records::blob_expiry(meta.expires, blob)), Bytes::new());
            match tx.commit().await {
                Ok(_) => return Ok(meta),
                Err(error) => attempt.again(error).await?,
            }
        }
    }

    /// A further transaction of a blob, while it is this one that is being written: another writer may have begun anew.
    async fn go_on(
        &self,
        tenant: &str,
        blob: &BlobRef,
        meta: &BlobMeta,
        pieces: &[(u64, Bytes)],
        state: BlobState,
    ) -> Result<BlobMeta, BlobError> {
        let key = keys::data(tenant, &records::blob(blob));
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let known = tx.get(&key).await?.map(|known| codec::decode::<BlobMeta>(&known)).transpose()?;
            let known = known.ok_or_else(|| BlobError::NotFound { blob: blob.clone() })?;
            match known.state {
                BlobState::Leaving => return Err(BlobError::Leaving { blob: blob.clone() }),
                _ if known.hash != meta.hash => return Err(BlobError::Exists { blob: blob.clone() }),
                // Somebody else who writes the same was quicker.
                BlobState::Whole => return Ok(known),
                BlobState::Partial => {}
            }
            for (number, piece) in pieces {
                tx.set(keys::data(tenant, &records::blob_piece(blob, *number)), piece.clone());
            }
            let known = BlobMeta { state, ..known };
            tx.set(key.clone(), codec::encode(&known));
            match tx.commit().await {
                Ok(_) => return Ok(known),
                Err(error) => attempt.again(error).await?,
            }
        }
    }

    /// What is known of a blob.
    pub async fn meta(&self, tenant: &str, blob: &BlobRef) -> Result<BlobMeta, BlobError> {
        let value = self.store.begin().snapshot_get(&keys::data(tenant, &records::blob(blob))).await?;
        let meta: BlobMeta = match value {
            Some(value) => codec::decode(&value)?,
            None => return Err(BlobError::NotFound { blob: blob.clone() }),
        };
        match meta.state {
            BlobState::Partial => Err(BlobError::NotFound { blob: blob.clone() }),
            BlobState::Whole if meta.expires > self.clock.now() => Ok(meta),
            BlobState::Whole | BlobState::Leaving => {
                Err(BlobError::Expired { blob: blob.clone(), at: meta.expires })
            }
        }
    }

    /// Part of a blob, as far as it goes.
    pub async fn read(&self, tenant: &str, blob: &BlobRef, range: Range<u64>) -> Result<Bytes, BlobError> {
        let meta = self.meta(tenant, blob).await?;
        let (start, end) = (range.start.min(meta.size_bytes), range.end.min(meta.size_bytes));
        if start >= end {
            return Ok(Bytes::new());
        }
        let piece_bytes = Self::PIECE_BYTES as u64;
        let mut content = BytesMut::with_capacity((end - start) as usize);
        let (first, last) = (start / piece_bytes, (end - 1) / piece_bytes);
        for number in first..=last {
            let key = keys::data(tenant, &records::blob_piece(blob, number));
            let value = self.store.begin().snapshot_get(&key).await?;
            let value = value.ok_or_else(|| BlobError::NotFound { blob: blob.clone() })?;
            let at = number * piece_bytes;
            let from = start.saturating_sub(at) as usize;
            let to = ((end - at) as usize).min(value.len());
            let piece = value.get(from..to).ok_or_else(|| BlobError::NotFound { blob: blob.clone() })?;
            content.extend_from_slice(piece);
        }
        Ok(content.freeze())
    }

    /// All of a blob.
    pub async fn read_all(&self, tenant: &str, blob: &BlobRef) -> Result<(Bytes, BlobMeta), BlobError> {
        let meta = self.meta(tenant, blob).await?;
        Ok((self.read(tenant, blob, 0..meta.size_bytes).await?, meta))
    }

    async fn commit(&self, write: impl Fn(&mut Transaction)) -> Result<(), CommitError> {
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            write(&mut tx);
            match tx.commit().await {
                Ok(_) => return Ok(()),
                Err(error) => attempt.again(error).await?,
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
