//! Trimming: old events go, and whoever asks for them is told so.

use serde::{Deserialize, Serialize};

use super::{Cursor, EventRecord, Feed, read::Error as FeedError};
use crate::{
    codec::{self, Stored},
    keys,
    sabotage::{Sabotage, is_on},
    store::{Attempt, CommitError, KeyRange, RangeRead, key_after},
};

/// How far a feed is trimmed. Stored under [`keys::feed_meta`], in the same transaction that removes events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TrimRecord {
    pub trimmed_to: Cursor,
}

impl Stored for TrimRecord {
    const NAME: &'static str = "feed trim mark";
    const VERSION: u8 = 1;
}

/// Why a feed could not be trimmed. What was removed so far stays removed, and is marked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A commit failed.
    #[error("cannot trim the feed")]
    Commit(#[from] CommitError),
    /// Something in the feed is unreadable.
    #[error("cannot read what is to be trimmed")]
    Feed(#[from] FeedError),
}

/// What a trim did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trimmed {
    /// So many events are gone.
    pub events: usize,
}

/// Removes every event up to and including `to`, with its index entries, a bounded batch per transaction. May
/// be repeated and interrupted at will.
pub async fn trim(feed: &Feed, to: Cursor) -> Result<Trimmed, Error> {
    let mut trimmed = Trimmed { events: 0 };
    loop {
        let mut attempt = Attempt::idempotent();
        let (removed, more) = loop {
            match batch(feed, to).await {
                Ok(done) => break done,
                Err(Error::Commit(error)) => attempt.again(error).await?,
                Err(error) => return Err(error),
            }
        };
        trimmed.events += removed;
        if !more {
            return Ok(trimmed);
        }
    }
}

async fn batch(feed: &Feed, to: Cursor) -> Result<(usize, bool), Error> {
    /// A thousand events with a few index entries each stay well below the largest transaction.
    const EVENTS: usize = 1_000;
    let mut tx = feed.store.begin();
    // What is still to come must not be taken for trimmed.
    let end = feed.snapshot_cursor(&tx).await.map_err(FeedError::from)?;
    let to = to.min(end);
    let prefix = keys::feed(&feed.tenant, &feed.id);
    let epoch = foundationdb_tuple::pack(&(to.epoch(),));
    let last = keys::with_stamp(&[&prefix[..], &epoch].concat(), to.stamp(), to.position());
    let range = KeyRange::new(prefix.clone(), key_after(&last));
    let read = RangeRead::new(range.clone()).limit(EVENTS);
    let page = tx.snapshot_range(&read).await.map_err(FeedError::from)?;
    let mut trimmed_to = to;
    for pair in &page.pairs {
        let record: EventRecord = codec::decode(&pair.value).map_err(FeedError::from)?;
        for term in record.terms.iter().filter(|_| !is_on(Sabotage::IndexNotTrimmed)) {
            let index = keys::index(&feed.tenant, &feed.id, &term.index, &term.term);
            tx.clear([&index[..], &pair.key[prefix.len()..]].concat());
        }
        if page.more {
            trimmed_to = super::read::event(&pair.key, prefix.len(), &pair.value)?.cursor;
        }
    }
    let meta = keys::feed_meta(&feed.tenant, &feed.id);
    let before = tx.get(&meta).await.map_err(FeedError::from)?;
    let before =
        before.map(|bytes| codec::decode::<TrimRecord>(&bytes)).transpose().map_err(FeedError::from)?;
    if before.is_some_and(|before| before.trimmed_to >= to) && page.pairs.is_empty() {
        return Ok((0, false));
    }
    if let Some(pair) = page.pairs.last() {
        tx.clear_range(KeyRange::new(range.begin, key_after(&pair.key)));
    }
    if !is_on(Sabotage::TrimNotMarked) {
        tx.set(meta, codec::encode(&TrimRecord { trimmed_to }));
    }
    tx.commit().await?;
    Ok((page.pairs.len(), page.more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Stamp, Version};

    #[test]
    fn a_stored_trim_mark_never_changes_its_layout() {
        let trimmed_to = Cursor::new(1, Stamp::new(Version(258), 3), 4);
        codec::golden::hold(
            &TrimRecord { trimmed_to },
            "0191d9203030303030303031303030303030303030303030303130323030303330303034",
        );
    }
}
