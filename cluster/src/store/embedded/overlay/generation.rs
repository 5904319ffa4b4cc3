//! The writes between two checkpoints.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::{
        PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;

use super::{
    super::log::Operation,
    entry::{Cell, Entry},
    masks::{Masks, Undo},
};
use crate::store::KeyRange;

/// What an entry costs beyond its key and value.
const ENTRY_OVERHEAD_BYTES: usize = 160;

/// What a generation knows of a key at a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Lookup {
    Value(Bytes),
    Gone,
    /// Nothing: look in the layer below.
    Below,
}

/// A few entries of a range, in the order asked for.
#[derive(Debug, Default)]
pub(in super::super) struct Chunk {
    pub(in super::super) entries: VecDeque<(Bytes, Option<Bytes>)>,
    /// Where to go on; `None` when there is no more.
    pub(in super::super) rest: Option<KeyRange>,
}

/// Everything that was written after one version and, once frozen, up to another.
#[derive(Debug)]
pub(in super::super) struct Generation {
    /// Holds every write after this version.
    pub(in super::super) since: u64,
    layer: RwLock<Layer>,
    /// Mirrors of what is in the layer, readable without its lock.
    masks: AtomicUsize,
    newest: AtomicU64,
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Layer {
    entries: BTreeMap<Bytes, Entry>,
    masks: Masks,
    /// Cleared keys that nothing below can show through, oldest first: once no reader needs them, no trace of
    /// them is left.
    dead: VecDeque<(u64, Bytes)>,
}

impl Generation {
    pub(in super::super) fn new(since: u64) -> Self {
        Self {
            since,
            layer: RwLock::default(),
            masks: AtomicUsize::new(0),
            newest: AtomicU64::new(since),
            bytes: AtomicUsize::new(0),
        }
    }

    /// The last version written to it.
    pub(in super::super) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// About how much memory and log it stands for.
    pub(in super::super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.newest() == self.since
    }

    pub(in super::super) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Applies one operation at `version`, of which no reader knows yet. Readers below `floor` are gone. A
    /// cleared range can be taken back with [`Self::forget`].
    pub(in super::super) fn apply(&self, operation: Operation, version: u64, floor: u64) -> Option<Undo> {
        let mut layer = self.write();
        self.newest.store(version, Ordering::Release);
        match operation {
            Operation::Set { key, value, fresh } => {
                if layer.put(key, Some(value), version, floor, fresh) {
                    self.add_bytes(ENTRY_OVERHEAD_BYTES);
                }
                None
            }
            Operation::Clear { key } => {
                if layer.put(key, None, version, floor, false) {
                    self.add_bytes(ENTRY_OVERHEAD_BYTES);
                }
                None
            }
            Operation::ClearRange { range } => {
                layer.clear(&range, version, floor);
                let undo = layer.masks.insert(&range, version, floor);
                self.masks.store(layer.masks.len(), Ordering::Release);
                self.add_bytes(ENTRY_OVERHEAD_BYTES);
                Some(undo)
            }
        }
    }

    /// Takes back everything written at `version` or later.
    pub(in super::super) fn forget(&self, version: u64, undo: Vec<Undo>) {
        let mut layer = self.write();
        layer.entries.retain(|_, entry| entry.forget(version));
        layer.dead.retain(|(cleared, _)| *cleared < version);
        for undo in undo.into_iter().rev() {
            layer.masks.undo(undo);
        }
        self.masks.store(layer.masks.len(), Ordering::Release);
        self.newest.store(version - 1, Ordering::Release);
    }

    /// Removes the traces of short-lived keys that no reader at `floor` or later can see.
    pub(in super::super) fn collect(&self, floor: u64) {
        if self.read().dead.front().is_none_or(|(version, _)| *version > floor) {
            return;
        }
        let mut layer = self.write();
        while let Some((version, _)) = layer.dead.front()
            && *version <= floor
            && let Some((version, key)) = layer.dead.pop_front()
        {
            let still_dead = |entry: &Entry| entry.newest.version == version && entry.newest.value.is_none();
            if layer.entries.get(&key).is_some_and(still_dead) {
                layer.entries.remove(&key);
            }
        }
    }

    pub(in super::super) fn get(&self, key: &[u8], version: u64) -> Lookup {
        let layer = self.read();
        match layer.entries.get(key).and_then(|entry| entry.at(version)) {
            Some(Cell { value: Some(value), .. }) => Lookup::Value(value.clone()),
            Some(Cell { value: None, .. }) => Lookup::Gone,
            None if layer.masks.hides(key, version).is_some() => Lookup::Gone,
            None => Lookup::Below,
        }
    }

    /// The stretch around `key` in which this generation hides the layers below at `version`.
    pub(in super::super) fn hides(&self, key: &[u8], version: u64) -> Option<KeyRange> {
        if self.masks.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.read().masks.hides(key, version)
    }

    /// At most about `max` entries of a range, so that the committer never waits long.
    pub(in super::super) fn chunk(&self, range: &KeyRange, reverse: bool, version: u64, max: usize) -> Chunk {
        if range.is_empty() {
            return Chunk::default();
        }
        let layer = self.read();
        let bounds = (Bound::Included(&range.begin[..]), Bound::Excluded(&range.end[..]));
        let found = layer.entries.range::<[u8], _>(bounds);
        let mut chunk = Chunk::default();
        let mut visit = |(key, entry): (&Bytes, &Entry), visited: usize| {
            if visited == max {
                chunk.rest = Some(if reverse {
                    KeyRange { begin: range.begin.clone(), end: crate::store::key_after(key) }
                } else {
                    KeyRange { begin: key.clone(), end: range.end.clone() }
                });
                return false;
            }
            if let Some(cell) = entry.at(version) {
                chunk.entries.push_back((key.clone(), cell.value.clone()));
            }
            true
        };
        if reverse {
            found.rev().enumerate().all(|(visited, entry)| visit(entry, visited));
        } else {
            found.enumerate().all(|(visited, entry)| visit(entry, visited));
        }
        chunk
    }

    /// Whether anything in the range was written after `version`.
    pub(in super::super) fn written_after(&self, range: &KeyRange, version: u64) -> bool {
        if self.newest() <= version || range.is_empty() {
            return false;
        }
        let layer = self.read();
        if layer.masks.cleared_after(range, version) {
            return true;
        }
        if is_single(range) {
            return layer.entries.get(&range.begin).is_some_and(|entry| entry.newest.version > version);
        }
        let bounds = (Bound::Included(&range.begin[..]), Bound::Excluded(&range.end[..]));
        layer.entries.range::<[u8], _>(bounds).any(|(_, entry)| entry.newest.version > version)
    }

    /// The net effect of a frozen generation: first the cleared ranges, then every key's last state.
    pub(in super::super) fn net<E>(
        &self,
        mut cleared: impl FnMut(&Bytes, &Bytes) -> Result<(), E>,
        mut changed: impl FnMut(&Bytes, Option<&Bytes>) -> Result<(), E>,
    ) -> Result<(), E> {
        let layer = self.read();
        layer.masks.ranges().try_for_each(|(begin, end)| cleared(begin, end))?;
        let kept = |entry: &Entry| !(entry.fresh && entry.newest.value.is_none());
        layer
            .entries
            .iter()
            .filter(|(_, entry)| kept(entry))
            .try_for_each(|(key, entry)| changed(key, entry.newest.value.as_ref()))
    }

    fn read(&self) -> RwLockReadGuard<'_, Layer> {
        self.layer.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Layer> {
        self.layer.write().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(in super::super) fn mask_count(&self) -> usize {
        self.masks.load(Ordering::Acquire)
    }

    /// How many keys it has an entry for, and how many superseded states it keeps.
    #[cfg(test)]
    pub(in super::super) fn counts(&self) -> (usize, usize) {
        let layer = self.read();
        (layer.entries.len(), layer.entries.values().map(Entry::older_len).sum())
    }
}

impl Layer {
    /// True when the key is new here.
    fn put(&mut self, key: Bytes, value: Option<Bytes>, version: u64, floor: u64, fresh: bool) -> bool {
        use std::collections::btree_map::Entry::{Occupied, Vacant};
        let cleared = value.is_none();
        let cell = Cell { version, value };
        match self.entries.entry(key) {
            Vacant(vacant) => {
                if cleared && self.masks.hides(vacant.key(), version).is_some() {
                    self.dead.push_back((version, vacant.key().clone()));
                }
                vacant.insert(Entry::new(cell, fresh));
                true
            }
            Occupied(mut occupied) => {
                let key = occupied.key();
                if cleared && (occupied.get().fresh || self.masks.hides(key, version).is_some()) {
                    self.dead.push_back((version, key.clone()));
                }
                occupied.get_mut().push(cell, floor);
                false
            }
        }
    }

    fn clear(&mut self, range: &KeyRange, version: u64, floor: u64) {
        let bounds = (Bound::Included(&range.begin[..]), Bound::Excluded(&range.end[..]));
        for (key, entry) in self.entries.range_mut::<[u8], _>(bounds) {
            if entry.newest.value.is_none() {
                continue;
            }
            self.dead.push_back((version, key.clone()));
            entry.push(Cell { version, value: None }, floor);
        }
    }
}

fn is_single(range: &KeyRange) -> bool {
    let len = range.begin.len();
    range.end.len() == len + 1 && range.end[len] == 0 && range.end[..len] == range.begin[..]
}
