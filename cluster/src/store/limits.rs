//! The bounds of a transaction, the same for every driver so that code written against one runs on all.
//!
//! They are FoundationDB's own, less what it takes for the place of a stamp in keys and values. The embedded
//! and the simulated driver could do more, and refuse to, so that nothing that works on a laptop fails in a
//! cluster (P9).

use std::time::Duration;

/// The place of a stamp, which FoundationDB counts to the key or value that it goes into.
const STAMP_OFFSET_LEN: usize = 4;
/// The longest key, including a driver's own prefix.
pub const KEY_BYTES_MAX: usize = 10_000 - STAMP_OFFSET_LEN;
/// The longest value.
pub const VALUE_BYTES_MAX: usize = 100_000 - STAMP_OFFSET_LEN;
/// The most that the mutations and conflict ranges of one transaction may add up to.
pub const TRANSACTION_BYTES_MAX: usize = 10_000_000;
/// The longest time from a transaction's first read to its commit.
pub const TRANSACTION_AGE_MAX: Duration = Duration::from_secs(5);

/// What one store accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest key that a caller may use.
    pub key_bytes_max: usize,
    /// The longest value.
    pub value_bytes_max: usize,
    /// The largest transaction.
    pub transaction_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            key_bytes_max: KEY_BYTES_MAX,
            value_bytes_max: VALUE_BYTES_MAX,
            transaction_bytes_max: TRANSACTION_BYTES_MAX,
        }
    }
}
