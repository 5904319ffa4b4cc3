//! What a driver has to do.

use async_trait::async_trait;
use bytes::Bytes;

use super::{CommitError, KeyRange, Limits, Mutation, Page, RangeRead, ReadError, Stamp, Version};

/// Opens sessions on one store. One implementation per engine.
pub trait Driver: Send + Sync + 'static {
    /// A name for logs and metrics.
    fn name(&self) -> &'static str;

    /// The bounds on keys, values and transactions.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// A session for one transaction. Does no I/O.
    fn session(&self) -> Box<dyn Session>;
}

/// The driver's side of one transaction: reads at one version, then at most one commit.
///
/// A session knows nothing of the transaction's own writes and tracks no conflicts:
/// [`super::Transaction`] does both. Reads may run concurrently.
#[async_trait]
pub trait Session: Send + Sync {
    /// The version all reads of this session see, chosen at the first call of any of its methods: at least
    /// that of every commit that was confirmed to anyone before.
    async fn read_version(&self) -> Result<Version, ReadError>;

    /// The value of a key.
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError>;

    /// A page of a range that is not empty, limited to between one and [`RangeRead::PAIRS_MAX`] pairs.
    async fn range(&self, read: &RangeRead) -> Result<Page, ReadError>;

    /// Commits. The answer is `Ok` only once the writes are durable and every session that begins afterwards
    /// sees them.
    async fn commit(self: Box<Self>, commit: Commit) -> Result<Committed, CommitError>;
}

/// All that a transaction wants to have happened at one moment.
#[derive(Debug, Default)]
pub struct Commit {
    /// What was read: a write to any of it since the read version is a conflict.
    pub reads: Vec<KeyRange>,
    /// The writes, in order. Never empty.
    pub mutations: Vec<Mutation>,
}

/// A confirmed commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Its place in the order of all commits.
    pub stamp: Stamp,
}

impl Committed {
    /// The version it made.
    pub fn version(&self) -> Version {
        self.stamp.version()
    }
}
