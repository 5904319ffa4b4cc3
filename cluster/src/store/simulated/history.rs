//! What the simulated store holds: every key with its recent versions, and what recent commits wrote.
//!
//! Pure: the time and the next stamp are arguments. A version is kept as long as a transaction that may still
//! read it can exist ([`TRANSACTION_AGE_MAX`]), so the history stays as small as the load of five seconds.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
};

use bytes::Bytes;
use tokio::time::Instant;

use crate::store::{
    Commit, CommitError, KeyRange, KeyValue, Mutation, Page, RangeRead, ReadError, Stamp,
    TRANSACTION_AGE_MAX, Version,
};

/// What a session reads at, and since when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot {
    pub version: Version,
    pub taken: Instant,
}

impl Snapshot {
    fn is_too_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.taken) > TRANSACTION_AGE_MAX
    }
}

/// A value of a key from a version on; `None` is its absence.
#[derive(Debug)]
struct Edition {
    since: Version,
    value: Option<Bytes>,
}

/// What one commit wrote.
#[derive(Debug)]
struct Entry {
    version: Version,
    at: Instant,
    /// Sorted.
    keys: Vec<Bytes>,
    ranges: Vec<KeyRange>,
}

impl Entry {
    fn touches(&self, read: &KeyRange) -> bool {
        let first = self.keys.partition_point(|key| *key < read.begin);
        self.keys.get(first).is_some_and(|key| *key < read.end)
            || self.ranges.iter().any(|range| range.overlaps(read))
    }
}

#[derive(Debug)]
pub(super) struct History {
    keys: BTreeMap<Bytes, Vec<Edition>>,
    recent: VecDeque<Entry>,
    version: Version,
    /// The place of the next commit in `version`; `None` once somebody has read at `version`, which would
    /// otherwise change under them.
    open_order: Option<u16>,
}

impl History {
    pub fn new(version: Version) -> Self {
        Self { keys: BTreeMap::new(), recent: VecDeque::new(), version, open_order: None }
    }

    /// The latest version. From now on it is complete.
    pub fn snapshot(&mut self, now: Instant) -> Snapshot {
        self.open_order = None;
        Snapshot { version: self.version, taken: now }
    }

    pub fn get(&self, at: Snapshot, now: Instant, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        if at.is_too_old(now) {
            return Err(ReadError::TooOld);
        }
        Ok(self.keys.get(key).and_then(|editions| value_at(editions, at.version)).cloned())
    }

    pub fn range(&self, at: Snapshot, now: Instant, read: &RangeRead) -> Result<Page, ReadError> {
        if at.is_too_old(now) {
            return Err(ReadError::TooOld);
        }
        let mut page = Page::default();
        let mut bytes = 0;
        let mut take = |pair: KeyValue| {
            bytes += pair.key.len() + pair.value.len();
            page.pairs.push(pair);
            // Like FoundationDB, do not look whether anything follows.
            page.more = page.pairs.len() >= read.limit || bytes >= read.target_bytes;
            page.more
        };
        if read.reverse {
            self.pairs(&read.range, at.version).rev().any(&mut take);
        } else {
            self.pairs(&read.range, at.version).any(&mut take);
        }
        Ok(page)
    }

    /// Everything in `range` at the latest version, which is complete from now on.
    pub fn scan(&mut self, range: &KeyRange) -> Vec<KeyValue> {
        self.open_order = None;
        self.pairs(range, self.version).collect()
    }

    /// Applies a commit, or says why not. It joins the latest version when it may and `jump` is zero, and makes
    /// one that is `jump` higher otherwise.
    pub fn commit(
        &mut self,
        read_at: Option<Snapshot>,
        now: Instant,
        jump: u64,
        commit: &Commit,
    ) -> Result<Stamp, CommitError> {
        self.forget(now);
        // A transaction that minds nothing it read never grows old: so it is in FoundationDB.
        if let Some(read_at) = read_at.filter(|_| !commit.reads.is_empty()) {
            if read_at.is_too_old(now) {
                return Err(CommitError::TooOld);
            }
            let mut later = self.recent.iter().rev().take_while(|entry| entry.version > read_at.version);
            if later.any(|entry| commit.reads.iter().any(|read| entry.touches(read))) {
                return Err(CommitError::Conflict);
            }
        }
        let stamp = self.advance(jump);
        let mut entry = Entry { version: stamp.version(), at: now, keys: Vec::new(), ranges: Vec::new() };
        for mutation in &commit.mutations {
            self.apply(mutation, &stamp, &mut entry);
        }
        entry.keys.sort_unstable();
        entry.keys.dedup();
        self.recent.push_back(entry);
        Ok(stamp)
    }

    fn advance(&mut self, jump: u64) -> Stamp {
        let order = match self.open_order {
            Some(order) if jump == 0 && order < u16::MAX => order,
            _ => {
                self.version.0 += jump.max(1);
                0
            }
        };
        self.open_order = Some(order + 1);
        Stamp::new(self.version, order)
    }

    fn apply(&mut self, mutation: &Mutation, stamp: &Stamp, entry: &mut Entry) {
        let (key, value) = match mutation {
            Mutation::Set { key, value } => (key.clone(), Some(value.clone())),
            Mutation::Clear { key } => (key.clone(), None),
            Mutation::ClearRange { range } => {
                let cleared: Vec<Bytes> = self.pairs(range, self.version).map(|pair| pair.key).collect();
                for key in cleared {
                    self.put(key.clone(), None);
                    entry.keys.push(key);
                }
                if !range.is_empty() {
                    entry.ranges.push(range.clone());
                }
                return;
            }
            Mutation::Add { key, delta } => {
                let old = self.keys.get(key).and_then(|editions| value_at(editions, self.version));
                (key.clone(), Some(Mutation::added(old.map(|old| &old[..]), *delta)))
            }
            Mutation::SetStampedKey { key, offset, value } => {
                (Mutation::stamped(key, *offset, stamp), Some(value.clone()))
            }
            Mutation::SetStampedValue { key, value, offset } => {
                (key.clone(), Some(Mutation::stamped(value, *offset, stamp)))
            }
        };
        self.put(key.clone(), value);
        entry.keys.push(key);
    }

    fn put(&mut self, key: Bytes, value: Option<Bytes>) {
        let since = self.version;
        let editions = self.keys.entry(key).or_default();
        match editions.last_mut() {
            Some(last) if last.since == since => last.value = value,
            _ => editions.push(Edition { since, value }),
        }
    }

    fn pairs(&self, range: &KeyRange, at: Version) -> impl DoubleEndedIterator<Item = KeyValue> {
        // The map refuses inverted bounds.
        let end = (&range.end).max(&range.begin);
        let bounds = (Bound::Included(&range.begin[..]), Bound::Excluded(&end[..]));
        self.keys.range::<[u8], _>(bounds).filter_map(move |(key, editions)| {
            value_at(editions, at).map(|value| KeyValue { key: key.clone(), value: value.clone() })
        })
    }

    /// Drops what no transaction can read any more.
    fn forget(&mut self, now: Instant) {
        let is_stale = |entry: &Entry| now.saturating_duration_since(entry.at) > TRANSACTION_AGE_MAX;
        let count = self.recent.iter().take_while(|entry| is_stale(entry)).count();
        let Some(oldest) = self.recent.iter().take(count).next_back().map(|entry| entry.version) else {
            return;
        };
        let mut stale: Vec<Bytes> = self.recent.drain(..count).flat_map(|entry| entry.keys).collect();
        stale.sort_unstable();
        stale.dedup();
        for key in stale {
            let Some(editions) = self.keys.get_mut(&key) else { continue };
            let readable = editions.partition_point(|edition| edition.since <= oldest).saturating_sub(1);
            editions.drain(..readable);
            let absent_throughout = |edition: &Edition| edition.since <= oldest && edition.value.is_none();
            if editions.first().is_some_and(absent_throughout) {
                editions.remove(0);
            }
            if editions.is_empty() {
                self.keys.remove(&key);
            }
        }
    }

    /// How many values are kept, of all versions.
    #[cfg(test)]
    pub fn editions(&self) -> usize {
        self.keys.values().map(Vec::len).sum()
    }
}

fn value_at(editions: &[Edition], at: Version) -> Option<&Bytes> {
    let after = editions.partition_point(|edition| edition.since <= at);
    editions[..after].last().and_then(|edition| edition.value.as_ref())
}
