//! What a transaction has written so far, laid over what it reads.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;

use super::{KeyRange, KeyValue, Mutation, Page, RangeRead};

/// What this transaction has done to a key.
#[derive(Debug, Clone)]
pub(super) enum Local {
    Value(Bytes),
    Cleared,
    /// Added to whatever is stored.
    Added(i64),
}

/// The writes of one transaction as its own reads see them. Stamped writes are not among them: nobody knows
/// their bytes before the commit.
#[derive(Debug, Default)]
pub(super) struct LocalWrites {
    /// Newer than `cleared`.
    keys: BTreeMap<Bytes, Local>,
    /// The ends of cleared ranges by their beginnings; none touches another.
    cleared: BTreeMap<Bytes, Bytes>,
}

impl LocalWrites {
    pub fn of(mutations: &[Mutation]) -> Self {
        let mut local = Self::default();
        for mutation in mutations {
            local.record(mutation);
        }
        local
    }

    pub fn record(&mut self, mutation: &Mutation) {
        match mutation {
            Mutation::Set { key, value } => {
                self.keys.insert(key.clone(), Local::Value(value.clone()));
            }
            Mutation::Clear { key } => {
                self.keys.insert(key.clone(), Local::Cleared);
            }
            Mutation::ClearRange { range } => self.clear(range),
            Mutation::Add { key, delta } => {
                let local = match self.get(key) {
                    Some(Local::Value(value)) => Local::Value(Mutation::added(Some(&value), *delta)),
                    Some(Local::Cleared) => Local::Value(Mutation::added(None, *delta)),
                    Some(Local::Added(before)) => Local::Added(before.wrapping_add(*delta)),
                    None => Local::Added(*delta),
                };
                self.keys.insert(key.clone(), local);
            }
            Mutation::SetStampedKey { .. } | Mutation::SetStampedValue { .. } => {}
        }
    }

    /// What was done to `key`, if anything.
    pub fn get(&self, key: &[u8]) -> Option<Local> {
        self.keys.get(key).cloned().or_else(|| self.cleared_around(key).map(|_| Local::Cleared))
    }

    /// The part of `range` that is left to read of the store when what it starts with, in the direction of
    /// the read, was cleared here.
    pub fn uncleared(&self, range: &KeyRange, reverse: bool) -> KeyRange {
        let mut left = range.clone();
        if reverse {
            let before_end = (Bound::Unbounded, Bound::Excluded(&range.end[..]));
            if let Some((begin, end)) = self.cleared.range::<[u8], _>(before_end).next_back()
                && *end >= range.end
            {
                left.end = begin.clone();
            }
        } else if let Some(cleared) = self.cleared_around(&range.begin) {
            left.begin = cleared.end;
        }
        left
    }

    /// Lays these writes over a stored page that is complete for `interval`, and cuts the result to the page
    /// that was asked for. Pages may come out shorter than the stored one, even empty.
    pub fn merge(&self, read: &RangeRead, interval: &KeyRange, stored: Page) -> Page {
        let mut merged: BTreeMap<Bytes, Bytes> = stored
            .pairs
            .into_iter()
            .filter(|pair| self.cleared_around(&pair.key).is_none())
            .map(|pair| (pair.key, pair.value))
            .collect();
        for (key, local) in self.keys_in(interval) {
            match local {
                Local::Value(value) => {
                    merged.insert(key.clone(), value.clone());
                }
                Local::Cleared => {
                    merged.remove(key);
                }
                Local::Added(delta) => {
                    let sum = Mutation::added(merged.get(key).map(|value| &value[..]), *delta);
                    merged.insert(key.clone(), sum);
                }
            }
        }
        let count = merged.len();
        let pairs = merged.into_iter().map(|(key, value)| KeyValue { key, value });
        let pairs = if read.reverse { cut(read, pairs.rev()) } else { cut(read, pairs) };
        Page { more: stored.more || pairs.len() < count, pairs }
    }

    fn clear(&mut self, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        let covered: Vec<Bytes> = self.keys_in(range).map(|(key, _)| key.clone()).collect();
        for key in covered {
            self.keys.remove(&key);
        }
        let mut joined = range.clone();
        let up_to_end = (Bound::Unbounded, Bound::Included(&range.end[..]));
        let touching: Vec<Bytes> = self
            .cleared
            .range::<[u8], _>(up_to_end)
            .rev()
            .take_while(|(_, end)| **end >= range.begin)
            .map(|(begin, _)| begin.clone())
            .collect();
        for begin in touching {
            if let Some(end) = self.cleared.remove(&begin) {
                joined.begin = joined.begin.min(begin);
                joined.end = joined.end.max(end);
            }
        }
        self.cleared.insert(joined.begin, joined.end);
    }

    fn cleared_around(&self, key: &[u8]) -> Option<KeyRange> {
        let up_to_key = (Bound::Unbounded, Bound::Included(key));
        let (begin, end) = self.cleared.range::<[u8], _>(up_to_key).next_back()?;
        (*key < end[..]).then(|| KeyRange::new(begin.clone(), end.clone()))
    }

    /// The keys written in a range that is not empty.
    fn keys_in(&self, range: &KeyRange) -> impl Iterator<Item = (&Bytes, &Local)> {
        self.keys.range::<[u8], _>((Bound::Included(&range.begin[..]), Bound::Excluded(&range.end[..])))
    }
}

fn cut(read: &RangeRead, pairs: impl Iterator<Item = KeyValue>) -> Vec<KeyValue> {
    let mut bytes = 0;
    pairs
        .take(read.limit)
        .take_while(|pair| {
            let fits = bytes < read.target_bytes.max(1);
            bytes += pair.key.len() + pair.value.len();
            fits
        })
        .collect()
}
