//! Trimming: old events go, and whoever asks for them is told so.

use serde::{Deserialize, Serialize};

use super::{
    Cursor, EventRecord, Feed,
    read::{Error as FeedError, key_at, position},
};
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
/// be repeated and interrupted at will. What is appended meanwhile stays, however far ahead `to` is.
pub async fn trim(feed: &Feed, to: Cursor) -> Result<Trimmed, Error> {
    let end = feed.snapshot_cursor(&feed.store.begin()).await.map_err(FeedError::from)?;
    let to = to.min(end);
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

/// How many events it removed, and whether there are more.
async fn batch(feed: &Feed, to: Cursor) -> Result<(usize, bool), Error> {
    const EVENTS: usize = 1_000;
    let mut tx = feed.store.begin();
    // An event may have many index entries: the batch ends half-way, so that those of its last event fit, too.
    let bytes_max = feed.store.limits().transaction_bytes_max / 2;
    let prefix = keys::feed(&feed.tenant, &feed.id);
    let range = KeyRange::new(prefix.clone(), key_after(&key_at(&prefix, to)));
    let page = tx.snapshot_range(&RangeRead::new(range).limit(EVENTS)).await.map_err(FeedError::from)?;
    let (mut removed, mut last) = (0, None);
    for pair in &page.pairs {
        if tx.bytes() > bytes_max {
            break;
        }
        let record: EventRecord = codec::decode(&pair.value).map_err(FeedError::from)?;
        for term in record.terms.iter().filter(|_| !is_on(Sabotage::IndexNotTrimmed)) {
            let index = keys::index(&feed.tenant, &feed.id, &term.index, &term.term);
            tx.clear([&index[..], &pair.key[prefix.len()..]].concat());
        }
        removed += 1;
        last = Some(&pair.key);
    }
    let Some(last) = last else { return Ok((0, false)) };
    // The mark is the last event that is gone, not `to`: whoever has seen that one has missed nothing.
    let trimmed_to = position(last, prefix.len()).map_err(FeedError::from)?;
    tx.clear_range(KeyRange::new(prefix, key_after(last)));
    let meta = keys::feed_meta(&feed.tenant, &feed.id);
    // Of two trims at once, one begins again: the mark never goes back.
    tx.add_read_conflict(KeyRange::single(meta.clone()));
    if !is_on(Sabotage::TrimNotMarked) {
        tx.set(meta, codec::encode(&TrimRecord { trimmed_to }));
    }
    tx.commit().await?;
    Ok((removed, page.more || removed < page.pairs.len()))
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
