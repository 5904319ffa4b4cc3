//! The writes of a step, and how a group of steps becomes one transaction.

use bytes::Bytes;

use crate::{
    keys::StampedKey,
    store::{Mutation, Stamp, Transaction},
};

/// One write of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Write {
    /// As it is.
    Plain(Mutation),
    /// Keys that end in the stamp of the commit and one position within it: an event and its index entries, a
    /// message. Each such write takes the next position.
    Stamped(Vec<(StampedKey, Bytes)>),
    /// A value that holds, at `offset`, the stamp of the commit and a position that was counted from the start
    /// of its step.
    StampedValue { key: Bytes, value: Vec<u8>, offset: usize },
}

impl Write {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Plain(mutation) => mutation.bytes(),
            Self::Stamped(keys) => keys.iter().map(|(key, value)| 3 * key.len() + value.len() + 24).sum(),
            Self::StampedValue { key, value, .. } => 3 * key.len() + value.len() + 24,
        }
    }

    pub(super) fn positions(&self) -> usize {
        usize::from(matches!(self, Self::Stamped(_)))
    }
}

/// Where a step ended up: the stamp of its group commit, and its first position within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub stamp: Stamp,
    pub base: u16,
}

/// Writes a step's writes into a transaction, its positions starting at `base`.
pub(super) fn write_into(tx: &mut Transaction, writes: &[Write], base: u16) {
    let mut position = base;
    for write in writes {
        match write {
            Write::Plain(mutation) => tx.write(mutation.clone()),
            Write::Stamped(keys) => {
                for (key, value) in keys {
                    let (key, offset) = key.clone().at(position);
                    tx.set_stamped_key(key, offset, value.clone());
                }
                position += 1;
            }
            Write::StampedValue { key, value, offset } => {
                let mut value = value.clone();
                let at = offset + Stamp::LEN;
                let relative = u16::from_be_bytes([value[at], value[at + 1]]);
                value[at..at + 2].copy_from_slice(&(base + relative).to_be_bytes());
                tx.set_stamped_value(key.clone(), value, *offset);
            }
        }
    }
}
