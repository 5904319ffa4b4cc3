//! A transaction: reads at one version, its own writes visible to it, everything it read remembered.

use std::sync::{Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures::{Stream, stream};

use super::{
    Commit, CommitError, Committed, KeyRange, KeyValue, Limits, Mutation, Page, RangeRead, ReadError,
    Session, Stamp, Version, key_after,
    local::{Local, LocalWrites},
};

/// One transaction. Dropping it without [`Transaction::commit`] writes nothing.
pub struct Transaction {
    session: Box<dyn Session>,
    limits: Limits,
    reads: Mutex<Vec<KeyRange>>,
    mutations: Vec<Mutation>,
    bytes: usize,
    /// The writes as reads see them: made with the first read that follows a write, which most never have.
    local: OnceLock<LocalWrites>,
    refused: Option<CommitError>,
}

impl Transaction {
    pub(super) fn new(session: Box<dyn Session>, limits: Limits) -> Self {
        Self {
            session,
            limits,
            reads: Mutex::default(),
            mutations: Vec::new(),
            bytes: 0,
            local: OnceLock::new(),
            refused: None,
        }
    }

    /// The version this transaction reads at.
    pub async fn read_version(&self) -> Result<Version, ReadError> {
        self.session.read_version().await
    }

    /// The value of a key. The commit conflicts if somebody else changes it meanwhile.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        let value = self.snapshot_get(key).await?;
        // What was set or cleared here is so whatever the store holds.
        if !matches!(self.local(key), Some(Local::Value(_) | Local::Cleared)) {
            self.add_read_conflict(KeyRange::single(key.to_vec()));
        }
        Ok(value)
    }

    /// The value of a key, without minding later changes to it.
    pub async fn snapshot_get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        self.check_key(key)?;
        match self.local(key) {
            Some(Local::Value(value)) => Ok(Some(value)),
            Some(Local::Cleared) => Ok(None),
            Some(Local::Added(delta)) => {
                let base = self.session.get(key).await?;
                Ok(Some(Mutation::added(base.as_deref(), delta)))
            }
            None => self.session.get(key).await,
        }
    }

    /// A page of a range. The commit conflicts if somebody else changes what the page covers.
    pub async fn range(&self, read: &RangeRead) -> Result<Page, ReadError> {
        let page = self.snapshot_range(read).await?;
        if read.limit > 0 {
            self.add_read_conflict(covered(read, &page));
        }
        Ok(page)
    }

    /// A page of a range, without minding later changes to it.
    pub async fn snapshot_range(&self, read: &RangeRead) -> Result<Page, ReadError> {
        self.check_key(&read.range.begin)?;
        if read.range.is_empty() || read.limit == 0 {
            return Ok(Page::default());
        }
        let mut rest = read.clone().limit(read.limit.min(RangeRead::PAIRS_MAX));
        let Some(local) = self.writes() else { return self.session.range(&rest).await };
        loop {
            let unread = RangeRead { range: local.uncleared(&rest.range, rest.reverse), ..rest.clone() };
            let stored =
                if unread.range.is_empty() { Page::default() } else { self.session.range(&unread).await? };
            let interval = covered(&rest, &stored);
            let exhausted = !stored.more;
            let page = local.merge(&rest, &interval, stored);
            if !page.pairs.is_empty() || exhausted {
                return Ok(page);
            }
            // Everything stored in this interval was cleared here: look further.
            rest.range = beyond(&rest, &interval);
        }
    }

    /// Every pair of a range as a stream, page by page and up to the limit of `read` in all, without minding
    /// later changes.
    pub fn snapshot_stream(
        &self,
        read: RangeRead,
    ) -> impl Stream<Item = Result<KeyValue, ReadError>> + Send + '_ {
        struct Cursor {
            read: Option<RangeRead>,
            page: std::vec::IntoIter<KeyValue>,
        }
        let start = Cursor { read: Some(read), page: Vec::new().into_iter() };
        stream::try_unfold(start, move |mut cursor| async move {
            loop {
                if let Some(pair) = cursor.page.next() {
                    return Ok(Some((pair, cursor)));
                }
                let Some(read) = cursor.read.take() else { return Ok(None) };
                let page = self.snapshot_range(&read).await?;
                let left = read.limit - page.pairs.len().min(read.limit);
                cursor.read = (page.more && left > 0).then(|| RangeRead {
                    range: beyond(&read, &covered(&read, &page)),
                    limit: left,
                    ..read
                });
                cursor.page = page.pairs.into_iter();
            }
        })
    }

    /// Makes the commit conflict with any write to `range` since the read version, without reading it.
    pub fn add_read_conflict(&self, range: KeyRange) {
        if !range.is_empty() {
            self.reads.lock().unwrap_or_else(PoisonError::into_inner).push(range);
        }
    }

    /// Sets a key.
    pub fn set(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.write(Mutation::Set { key: key.into(), value: value.into() });
    }

    /// Removes a key.
    pub fn clear(&mut self, key: impl Into<Bytes>) {
        self.write(Mutation::Clear { key: key.into() });
    }

    /// Removes every key of a range.
    pub fn clear_range(&mut self, range: KeyRange) {
        self.write(Mutation::ClearRange { range });
    }

    /// Adds to a little-endian 64-bit integer without reading it.
    pub fn add(&mut self, key: impl Into<Bytes>, delta: i64) {
        self.write(Mutation::Add { key: key.into(), delta });
    }

    /// Sets the key whose ten bytes at `offset` will be the commit's stamp. Not visible to this transaction.
    ///
    /// # Panics
    /// When `key` has no room for a stamp at `offset`.
    pub fn set_stamped_key(&mut self, key: impl Into<Bytes>, offset: usize, value: impl Into<Bytes>) {
        self.write(Mutation::SetStampedKey { key: key.into(), offset, value: value.into() });
    }

    /// Sets a value whose ten bytes at `offset` will be the commit's stamp. Not visible to this transaction.
    ///
    /// # Panics
    /// When `value` has no room for a stamp at `offset`.
    pub fn set_stamped_value(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>, offset: usize) {
        self.write(Mutation::SetStampedValue { key: key.into(), value: value.into(), offset });
    }

    /// Records a write. What exceeds a limit is refused at commit.
    ///
    /// # Panics
    /// When a stamp does not fit where it should go.
    pub fn write(&mut self, mutation: Mutation) {
        if let Err(error) = mutation.check(&self.limits) {
            self.refused.get_or_insert(error);
            return;
        }
        match &mutation {
            Mutation::ClearRange { range } if range.is_empty() => return,
            Mutation::SetStampedKey { key: template, offset, .. }
            | Mutation::SetStampedValue { value: template, offset, .. } => {
                assert!(
                    offset + Stamp::LEN <= template.len(),
                    "a stamp at {offset} needs {} bytes, the template has {}",
                    offset + Stamp::LEN,
                    template.len()
                );
            }
            _ => {}
        }
        if let Some(local) = self.local.get_mut() {
            local.record(&mutation);
        }
        self.bytes += mutation.bytes();
        self.mutations.push(mutation);
    }

    /// How much of [`Limits::transaction_bytes_max`] the writes use so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing was written so far.
    pub fn is_read_only(&self) -> bool {
        self.mutations.is_empty() && self.refused.is_none()
    }

    /// Commits. A transaction that wrote nothing has nothing that could conflict: it is answered at its read
    /// version, at which everything it read was true at once.
    pub async fn commit(self) -> Result<Committed, CommitError> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        if self.mutations.is_empty() {
            let version = self.session.read_version().await?;
            return Ok(Committed { stamp: Stamp::last_of(version) });
        }
        let reads = coalesce(self.reads.into_inner().unwrap_or_else(PoisonError::into_inner));
        let commit = Commit { reads, mutations: self.mutations };
        let (limit, actual) = (self.limits.transaction_bytes_max, commit.bytes());
        if actual > limit {
            return Err(CommitError::TooLarge { what: "transaction", limit, actual });
        }
        self.session.commit(commit).await
    }

    /// What this transaction has written, if anything.
    fn writes(&self) -> Option<&LocalWrites> {
        (!self.mutations.is_empty()).then(|| self.local.get_or_init(|| LocalWrites::of(&self.mutations)))
    }

    fn local(&self, key: &[u8]) -> Option<Local> {
        self.writes()?.get(key)
    }

    fn check_key(&self, key: &[u8]) -> Result<(), ReadError> {
        let (limit, actual) = (self.limits.key_bytes_max + 1, key.len());
        if actual > limit { Err(ReadError::TooLarge { what: "key", limit, actual }) } else { Ok(()) }
    }
}

/// The part of the range that a page answers for.
fn covered(read: &RangeRead, page: &Page) -> KeyRange {
    let mut range = read.range.clone();
    if let (true, Some(last)) = (page.more, page.pairs.last()) {
        if read.reverse {
            range.begin = last.key.clone();
        } else {
            range.end = key_after(&last.key);
        }
    }
    range
}

/// What is left of a range after `interval`, which it starts with in the direction of the read.
fn beyond(read: &RangeRead, interval: &KeyRange) -> KeyRange {
    if read.reverse {
        KeyRange::new(read.range.begin.clone(), interval.begin.clone())
    } else {
        KeyRange::new(interval.end.clone(), read.range.end.clone())
    }
}

/// Sorts and joins overlapping ranges, so that a driver checks each key once.
fn coalesce(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.sort_by(|a, b| a.begin.cmp(&b.begin));
    let mut joined: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.begin <= last.end => {
                if range.end > last.end {
                    last.end = range.end;
                }
            }
            _ => joined.push(range),
        }
    }
    joined
}
