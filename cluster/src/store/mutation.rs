//! The writes of a transaction.

use bytes::Bytes;

use super::{CommitError, KeyRange, Limits, Stamp};

/// One write, applied in the order it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mutation {
    /// Sets a key.
    Set {
        /// The key.
        key: Bytes,
        /// Its new value.
        value: Bytes,
    },
    /// Removes a key.
    Clear {
        /// The key.
        key: Bytes,
    },
    /// Removes every key of a range.
    ClearRange {
        /// The range.
        range: KeyRange,
    },
    /// Adds to a little-endian 64-bit integer; a missing key counts as zero, the sum wraps. Conflicts with
    /// nobody who does not read the key.
    Add {
        /// The key.
        key: Bytes,
        /// What to add.
        delta: i64,
    },
    /// Sets a key in which the ten bytes at `offset` become the commit's [`Stamp`].
    SetStampedKey {
        /// The key, with room for the stamp.
        key: Bytes,
        /// Where the stamp goes.
        offset: usize,
        /// Its value.
        value: Bytes,
    },
    /// Sets a value whose ten bytes at `offset` become the commit's [`Stamp`].
    SetStampedValue {
        /// The key.
        key: Bytes,
        /// The value, with room for the stamp.
        value: Bytes,
        /// Where the stamp goes.
        offset: usize,
    },
}

impl Mutation {
    /// What it counts towards the size of its transaction: no less than what FoundationDB counts.
    pub fn bytes(&self) -> usize {
        // FoundationDB counts 56 bytes for a mutation, 32 for its conflict range and up to two for the ends
        // of ranges. The rest is room for a prefix of nine bytes on up to four keys.
        const OVERHEAD: usize = 128;
        OVERHEAD
            + match self {
                Self::Set { key, value }
                | Self::SetStampedKey { key, value, .. }
                | Self::SetStampedValue { key, value, .. } => 3 * key.len() + value.len(),
                Self::Clear { key } => 4 * key.len(),
                Self::ClearRange { range } => 2 * (range.begin.len() + range.end.len()),
                Self::Add { key, .. } => 3 * key.len() + 8,
            }
    }

    /// The length of its longest key.
    pub fn key_bytes(&self) -> usize {
        match self {
            Self::Set { key, .. }
            | Self::SetStampedKey { key, .. }
            | Self::SetStampedValue { key, .. }
            | Self::Clear { key }
            | Self::Add { key, .. } => key.len(),
            // An exclusive end may be one byte longer than the longest key.
            Self::ClearRange { range } => range.begin.len().max(range.end.len().saturating_sub(1)),
        }
    }

    /// The length of its value.
    pub fn value_bytes(&self) -> usize {
        match self {
            Self::Set { value, .. }
            | Self::SetStampedKey { value, .. }
            | Self::SetStampedValue { value, .. } => value.len(),
            Self::Clear { .. } | Self::ClearRange { .. } => 0,
            Self::Add { .. } => 8,
        }
    }

    /// Refuses what no store could hold.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), CommitError> {
        let check = |what, limit: usize, actual: usize| {
            if actual > limit { Err(CommitError::TooLarge { what, limit, actual }) } else { Ok(()) }
        };
        check("key", limits.key_bytes_max, self.key_bytes())?;
        check("value", limits.value_bytes_max, self.value_bytes())
    }

    /// `template` with `stamp` at `offset`.
    ///
    /// # Panics
    /// When the template has no room for it there, which [`super::Transaction`] refuses to record.
    pub fn stamped(template: &Bytes, offset: usize, stamp: &Stamp) -> Bytes {
        let mut bytes = template.to_vec();
        bytes[offset..offset + Stamp::LEN].copy_from_slice(stamp.as_bytes());
        bytes.into()
    }

    /// The sum that [`Mutation::Add`] leaves behind.
    pub fn added(old: Option<&[u8]>, delta: i64) -> Bytes {
        let mut number = [0; 8];
        if let Some(old) = old {
            let len = old.len().min(8);
            number[..len].copy_from_slice(&old[..len]);
        }
        Bytes::copy_from_slice(&i64::from_le_bytes(number).wrapping_add(delta).to_le_bytes())
    }
}
