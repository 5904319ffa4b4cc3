//! The versions of one key.

use bytes::Bytes;

/// A key's state from one version on.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) version: u64,
    /// `None`: the key is gone.
    pub(super) value: Option<Bytes>,
}

/// What happened to one key in a generation. Never without a version.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) newest: Cell,
    /// Oldest first.
    older: Vec<Cell>,
    /// The key cannot exist in any layer below.
    pub(super) fresh: bool,
}

impl Entry {
    pub(super) fn new(cell: Cell, fresh: bool) -> Self {
        Self { newest: cell, older: Vec::new(), fresh }
    }

    /// The state at a version: `None` when this generation knows nothing that old.
    pub(super) fn at(&self, version: u64) -> Option<&Cell> {
        if self.newest.version <= version {
            return Some(&self.newest);
        }
        self.older.iter().rev().find(|cell| cell.version <= version)
    }

    /// Adds a state, and drops those that nobody who reads at `floor` or later can see.
    pub(super) fn push(&mut self, cell: Cell, floor: u64) {
        if self.newest.version == cell.version {
            self.newest = cell;
            return;
        }
        self.older.push(std::mem::replace(&mut self.newest, cell));
        let seen_at_floor = self.older.iter().rposition(|cell| cell.version <= floor);
        self.older.drain(..seen_at_floor.unwrap_or(0));
    }

    /// Drops the states from `version` on. False when none is left.
    pub(super) fn forget(&mut self, version: u64) -> bool {
        while self.newest.version >= version {
            match self.older.pop() {
                Some(cell) => self.newest = cell,
                None => return false,
            }
        }
        true
    }

    /// How many superseded states are kept for readers.
    #[cfg(test)]
    pub(super) fn older_len(&self) -> usize {
        self.older.len()
    }
}
