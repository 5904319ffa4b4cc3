//! Versions and versionstamps: where a commit stands in the order of all commits.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A version of the whole store. A transaction reads at one; a commit makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Version(pub u64);

/// The position of a committed transaction: the version it made and its place among the transactions of
/// that version. Ten bytes whose order is the commit order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Stamp([u8; Stamp::LEN]);

impl Stamp {
    /// The encoded length: eight bytes of version, two of order within it, all big-endian.
    pub const LEN: usize = 10;
    /// Before every commit.
    pub const ZERO: Self = Self([0; Self::LEN]);

    /// The stamp of the transaction at place `order` of `version`.
    pub fn new(version: Version, order: u16) -> Self {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&version.0.to_be_bytes());
        bytes[8..].copy_from_slice(&order.to_be_bytes());
        Self(bytes)
    }

    /// The last stamp that a read at `version` can see.
    pub fn last_of(version: Version) -> Self {
        Self::new(version, u16::MAX)
    }

    /// The version half.
    pub fn version(&self) -> Version {
        let mut version = [0; 8];
        version.copy_from_slice(&self.0[..8]);
        Version(u64::from_be_bytes(version))
    }

    /// The bytes as they stand in keys.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

impl From<[u8; Stamp::LEN]> for Stamp {
    fn from(bytes: [u8; Stamp::LEN]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
