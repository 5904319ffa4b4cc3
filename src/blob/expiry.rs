//! Blobs whose time is over: found, claimed, emptied, forgotten.
//!
//! The entry in the list of expiries is what a sweeper goes by. It is removed last, so that whoever dies in between leaves
//! an entry behind by which the next one goes on. A blob that is claimed is on its way out: nobody reads it any more, and
//! nobody writes one of its name before it is forgotten.

use cadre_cluster::{
    clock::Timestamp,
    codec, keys,
    store::{Attempt, KeyRange, RangeRead, Transaction, key_after},
};

use super::{BlobError, BlobMeta, BlobState, Blobs};
use crate::{entity::records, fact::id::BlobRef};

/// A blob whose time is over, as the list of expiries says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Since when.
    pub at: Timestamp,
    /// Which.
    pub blob: BlobRef,
}

/// How many pieces go in one transaction: 16 MB of them.
const PIECES_AT_ONCE: u64 = 256;

impl Blobs {
    /// Blobs whose time is over, those that have waited longest first, from after one of them.
    pub async fn due(
        &self,
        tenant: &str,
        after: Option<&Due>,
        at_most: usize,
    ) -> Result<Vec<Due>, BlobError> {
        let (from, to) = records::blobs_expired(self.clock.now());
        let from = match after {
            Some(due) => key_after(&keys::data(tenant, &records::blob_expiry(due.at, &due.blob))),
            None => keys::data(tenant, &from),
        };
        let range = KeyRange::new(from, keys::data(tenant, &to));
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let page = self.store.begin().snapshot_range(&RangeRead::new(range).limit(at_most)).await?;
        let due = |key: &[u8]| {
            let (at, blob) = records::expired_blob(keys::data_path(key, tenant)?)?;
            Some(Due { at, blob })
        };
        Ok(page.pairs.iter().filter_map(|pair| due(&pair.key)).collect())
    }

    /// Takes a blob out of use for good and removes its first pieces. Nothing, when there was only an entry left: then
    /// that is removed. What was never complete belongs to nobody, because nobody was told of it.
    pub async fn claim(&self, tenant: &str, due: &Due) -> Result<Option<BlobMeta>, BlobError> {
        let entry = keys::data(tenant, &records::blob_expiry(due.at, &due.blob));
        let key = keys::data(tenant, &records::blob(&due.blob));
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            // Read so that it conflicts with whoever writes the blob anew, or has swept it.
            if tx.get(&entry).await?.is_none() {
                return Ok(None);
            }
            let meta = tx.get(&key).await?.map(|meta| codec::decode::<BlobMeta>(&meta)).transpose()?;
            let claimed = match meta {
                Some(meta) if meta.expires == due.at => Some(BlobMeta {
                    session: meta.session.filter(|_| meta.state != BlobState::Partial),
                    state: BlobState::Leaving,
                    ..meta
                }),
                // It was written anew, and has another entry.
                Some(_) | None => None,
            };
            match &claimed {
                Some(meta) => {
                    tx.set(key.clone(), codec::encode(meta));
                    tx.clear_range(pieces(tenant, &due.blob, 0));
                }
                None => tx.clear(entry.clone()),
            }
            match tx.commit().await {
                Ok(_) => return Ok(claimed),
                Err(error) => attempt.again(error).await?,
            }
        }
    }

    /// Removes the pieces of a blob that is claimed, as many at once as a transaction should.
    pub async fn empty(&self, tenant: &str, due: &Due, meta: &BlobMeta) -> Result<(), BlobError> {
        let count = meta.size_bytes.div_ceil(Self::PIECE_BYTES as u64);
        for from in (PIECES_AT_ONCE..count).step_by(PIECES_AT_ONCE as usize) {
            self.while_due(tenant, due, |tx| tx.clear_range(pieces(tenant, &due.blob, from))).await?;
        }
        Ok(())
    }

    /// Removes what is left of a blob that is claimed and that nobody has to be told of. Whether it was there.
    pub async fn forget(&self, tenant: &str, due: &Due) -> Result<bool, BlobError> {
        let forget = |tx: &mut Transaction| {
            tx.clear(keys::data(tenant, &records::blob_expiry(due.at, &due.blob)));
            tx.clear(keys::data(tenant, &records::blob(&due.blob)));
        };
        self.while_due(tenant, due, forget).await
    }

    /// Writes while the entry is there: what comes after it under the same name is somebody else's. Whether it was.
    async fn while_due(
        &self,
        tenant: &str,
        due: &Due,
        write: impl Fn(&mut Transaction),
    ) -> Result<bool, BlobError> {
        let entry = keys::data(tenant, &records::blob_expiry(due.at, &due.blob));
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            if tx.get(&entry).await?.is_none() {
                return Ok(false);
            }
            write(&mut tx);
            match tx.commit().await {
                Ok(_) => return Ok(true),
                Err(error) => attempt.again(error).await?,
            }
        }
    }
}

fn pieces(tenant: &str, blob: &BlobRef, from: u64) -> KeyRange {
    let at = |number| keys::data(tenant, &records::blob_piece(blob, number));
    KeyRange::new(at(from), at(from + PIECES_AT_ONCE))
}
