//! Reading a feed by cursor, a bounded page at a time.

use bytes::Bytes;
use futures::future::try_join_all;

use super::{Cursor, Event, EventRecord, trim::TrimRecord};
use crate::{
    codec::{self, DecodeError},
    keys,
    sabotage::{Sabotage, is_on},
    store::{KeyRange, RangeRead, ReadError, Store, Transaction, key_after},
};

/// One feed, for reading. Cheap to make.
#[derive(Debug, Clone)]
pub struct Feed {
    pub(super) store: Store,
    pub(super) tenant: String,
    pub(super) id: String,
    /// The epoch that new events get.
    pub(super) epoch: u32,
}

/// Only events with this index term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Which index.
    pub index: String,
    /// Which entry of it.
    pub term: String,
}

/// A stretch of the feed that is no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The reader's cursor; of a read backwards, [`Cursor::START`].
    pub from: Cursor,
    /// Everything up to here may be missing.
    pub to: Cursor,
}

/// Part of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Set when the read met the edge of what is kept; the events follow the gap.
    pub gap: Option<Gap>,
    /// In feed order.
    pub events: Vec<Event>,
    /// Where to go on, in the direction of the read.
    pub cursor: Cursor,
    /// Whether there is more right now, in the direction of the read.
    pub more: bool,
}

/// Why a feed could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The store did not answer.
    #[error("cannot read the feed")]
    Read(#[from] ReadError),
    /// Something stored in it is not readable by this binary.
    #[error("the feed holds something unreadable")]
    Decode(#[from] DecodeError),
    /// The store is damaged: an event and its index entries come and go in one transaction.
    #[error("an index names the event at {cursor}, which is not in the feed")]
    EventMissing {
        /// Where it should be.
        cursor: Cursor,
    },
}

impl Feed {
    /// The largest page, whatever the caller asks for.
    pub const PAGE_EVENTS_MAX: usize = 1_000;
    /// A filtered read fetches so many events at a time, and looks at their size before it fetches more.
    const EVENTS_AT_ONCE: usize = 8;

    /// A feed of a tenant. `epoch` is the cluster's feed epoch, as a node or the cluster record has it.
    ///
    /// It only goes into the cursors of [`Self::snapshot_cursor`] and of filtered reads. A reader that has outlived
    /// a restore has an old one: its cursors then lie before all events of the new epoch, which are read again,
    /// never skipped.
    pub fn new(store: Store, tenant: &str, id: &str, epoch: u32) -> Self {
        Self { store, tenant: tenant.to_owned(), id: id.to_owned(), epoch }
    }

    /// What comes after `after`: at most `limit` events, and no more than about half a megabyte.
    pub async fn read(&self, after: Cursor, limit: usize) -> Result<Page, Error> {
        let tx = self.store.begin();
        self.read_in(&tx, after, limit).await
    }

    /// [`Self::read`] as part of a larger consistent read.
    pub async fn read_in(&self, tx: &Transaction, after: Cursor, limit: usize) -> Result<Page, Error> {
        let prefix = keys::feed(&self.tenant, &self.id);
        let (gap, from) = self.gap(tx, after).await?;
        let range = KeyRange::new(self.key_after(&prefix, from), KeyRange::prefix(prefix.clone()).end);
        let limit = limit.clamp(1, Self::PAGE_EVENTS_MAX);
        let page = tx.snapshot_range(&RangeRead::new(range).limit(limit)).await?;
        let events = page
            .pairs
            .iter()
            .map(|pair| event(&pair.key, prefix.len(), &pair.value))
            .collect::<Result<Vec<_>, _>>()?;
        let cursor = events.last().map_or(from, |event: &Event| event.cursor);
        Ok(Page { gap, events, cursor, more: page.more })
    }

    /// What comes before `before`, the latest of it: at most `limit` events that end just before it, in feed
    /// order, within the same bounds as [`Self::read`]. Older ones come before the page's cursor.
    ///
    /// `before` itself is not among them. Once nothing older is kept, a page says whether there was more: its
    /// gap reaches from the start of the feed to where it was trimmed.
    pub async fn read_before(&self, before: Cursor, limit: usize) -> Result<Page, Error> {
        let tx = self.store.begin();
        let prefix = keys::feed(&self.tenant, &self.id);
        let (gap, from) = self.gap(&tx, Cursor::START).await?;
        let range = KeyRange::new(self.key_after(&prefix, from), key_at(&prefix, before));
        let limit = limit.clamp(1, Self::PAGE_EVENTS_MAX);
        let page = tx.snapshot_range(&RangeRead::new(range).limit(limit).reverse()).await?;
        let events = page
            .pairs
            .iter()
            .rev()
            .map(|pair| event(&pair.key, prefix.len(), &pair.value))
            .collect::<Result<Vec<_>, _>>()?;
        let cursor = events.first().map_or(before, |event: &Event| event.cursor);
        Ok(Page { gap: gap.filter(|_| !page.more), events, cursor, more: page.more })
    }

    /// Like [`Self::read`], but only what `filter` lets through. Costs what it returns, not what it skips.
    ///
    /// Once nothing more matches, the page's cursor is that of the read itself, not of the last match: whoever
    /// goes on there reads nothing again, and is told of no gap when what did not match is trimmed.
    pub async fn read_filtered(&self, filter: &Filter, after: Cursor, limit: usize) -> Result<Page, Error> {
        let tx = self.store.begin();
        let prefix = keys::index(&self.tenant, &self.id, &filter.index, &filter.term);
        let events_prefix = keys::feed(&self.tenant, &self.id);
        let (gap, from) = self.gap(&tx, after).await?;
        let range = KeyRange::new(self.key_after(&prefix, from), KeyRange::prefix(prefix.clone()).end);
        let limit = limit.clamp(1, Self::PAGE_EVENTS_MAX);
        let page = tx.snapshot_range(&RangeRead::new(range).limit(limit)).await?;
        let (mut events, mut bytes) = (Vec::new(), 0);
        for entries in page.pairs.chunks(Self::EVENTS_AT_ONCE) {
            if bytes >= RangeRead::TARGET_BYTES_DEFAULT {
                break;
            }
            let some = try_join_all(entries.iter().map(|entry| {
                // An index entry differs from its event only in what stands before the position.
                let key = [&events_prefix[..], &entry.key[prefix.len()..]].concat();
                let (tx, prefix_len) = (&tx, events_prefix.len());
                async move {
                    match tx.snapshot_get(&key).await? {
                        Some(value) => event(&key, prefix_len, &value),
                        None => Err(Error::EventMissing { cursor: position(&key, prefix_len)? }),
                    }
                }
            }));
            let some = some.await?;
            bytes += some.iter().map(|event| event.body.len()).sum::<usize>();
            events.extend(some);
        }
        let more = page.more || events.len() < page.pairs.len();
        let last = events.last().map_or(from, |event: &Event| event.cursor);
        // All that `tx` can see was looked through, and what it cannot see stands behind its cursor. That may lie
        // before an event that was returned, when this feed was opened with an older epoch.
        let cursor = if more { last } else { last.max(self.snapshot_cursor(&tx).await?) };
        Ok(Page { gap, events, cursor, more })
    }

    /// The cursor of a snapshot: every event that `tx` can see is before it, every other one after it.
    pub async fn snapshot_cursor(&self, tx: &Transaction) -> Result<Cursor, ReadError> {
        let version = if is_on(Sabotage::SnapshotCursorFromAnotherRead) {
            self.store.begin().read_version().await?
        } else {
            tx.read_version().await?
        };
        Ok(Cursor::end_of(self.epoch, version))
    }

    /// Where reading really starts, and what is missing before that.
    async fn gap(&self, tx: &Transaction, after: Cursor) -> Result<(Option<Gap>, Cursor), Error> {
        let meta = tx.snapshot_get(&keys::feed_meta(&self.tenant, &self.id)).await?;
        let Some(meta) = meta else { return Ok((None, after)) };
        let to = codec::decode::<TrimRecord>(&meta)?.trimmed_to;
        Ok(if after < to { (Some(Gap { from: after, to }), to) } else { (None, after) })
    }

    fn key_after(&self, prefix: &[u8], cursor: Cursor) -> Bytes {
        if cursor == Cursor::START {
            return prefix.to_vec().into();
        }
        key_after(&key_at(prefix, cursor))
    }
}

/// The key of the event at `cursor`.
pub(super) fn key_at(prefix: &[u8], cursor: Cursor) -> Bytes {
    let epoch = foundationdb_tuple::pack(&(cursor.epoch(),));
    keys::with_stamp(&[prefix, &epoch].concat(), cursor.stamp(), cursor.position())
}

/// Where the event with this key stands.
pub(super) fn position(key: &[u8], prefix_len: usize) -> Result<Cursor, DecodeError> {
    let (epoch, stamp, position) = keys::parse_position(key, prefix_len)
        .ok_or_else(|| DecodeError::Malformed { name: "event key", reason: format!("{key:02x?}") })?;
    Ok(Cursor::new(epoch, stamp, position))
}

fn event(key: &[u8], prefix_len: usize, value: &[u8]) -> Result<Event, Error> {
    let record: EventRecord = codec::decode(value)?;
    Ok(Event { cursor: position(key, prefix_len)?, body: record.body.into() })
}
