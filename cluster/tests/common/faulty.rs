//! A store that counts commits and can be made to fail.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use cadre_cluster::store::{
    Commit, CommitError, Committed, Driver, Limits, Page, RangeRead, ReadError, Session, Store, Transaction,
    Version,
};

/// The switches. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Faults(Arc<Switches>);

#[derive(Debug, Default)]
struct Switches {
    gone: AtomicBool,
    full: AtomicBool,
    commit_delay_ms: AtomicU64,
    /// So many commits to come are done and reported as unknown.
    unknown: AtomicU64,
    commits: AtomicU64,
}

impl Faults {
    /// Whether nothing can be read or written.
    pub fn gone(&self, gone: bool) {
        self.0.gone.store(gone, Ordering::SeqCst);
    }

    /// Whether there is no room for a commit.
    pub fn full(&self, full: bool) {
        self.0.full.store(full, Ordering::SeqCst);
    }

    /// Every commit takes so much longer.
    pub fn delay_commits(&self, delay: Duration) {
        self.0.commit_delay_ms.store(delay.as_millis() as u64, Ordering::SeqCst);
    }

    /// So many commits to come are done, and reported as perhaps done.
    pub fn unknown(&self, commits: u64) {
        self.0.unknown.store(commits, Ordering::SeqCst);
    }

    /// How many commits there were.
    pub fn commits(&self) -> u64 {
        self.0.commits.load(Ordering::SeqCst)
    }

    fn check(&self) -> Result<(), String> {
        if self.0.gone.load(Ordering::SeqCst) { Err("switched off".into()) } else { Ok(()) }
    }
}

/// `store`, with faults.
pub fn faulty(store: Store, faults: Faults) -> Store {
    Store::new(Faulty { store, faults })
}

struct Faulty {
    store: Store,
    faults: Faults,
}

impl Driver for Faulty {
    fn name(&self) -> &'static str {
        self.store.driver_name()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn session(&self) -> Box<dyn Session> {
        Box::new(FaultySession { tx: self.store.begin(), faults: self.faults.clone() })
    }
}

struct FaultySession {
    tx: Transaction,
    faults: Faults,
}

#[async_trait]
impl Session for FaultySession {
    async fn read_version(&self) -> Result<Version, ReadError> {
        self.faults.check().map_err(|reason| ReadError::Unavailable { reason })?;
        self.tx.read_version().await
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        self.faults.check().map_err(|reason| ReadError::Unavailable { reason })?;
        self.tx.snapshot_get(key).await
    }

    async fn range(&self, read: &RangeRead) -> Result<Page, ReadError> {
        self.faults.check().map_err(|reason| ReadError::Unavailable { reason })?;
        self.tx.snapshot_range(read).await
    }

    async fn commit(self: Box<Self>, commit: Commit) -> Result<Committed, CommitError> {
        let Self { mut tx, faults } = *self;
        let delay = faults.0.commit_delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        faults.check().map_err(|reason| CommitError::Unavailable { reason })?;
        if faults.0.full.load(Ordering::SeqCst) {
            return Err(CommitError::Full { reason: "not a byte".into() });
        }
        for range in commit.reads {
            tx.add_read_conflict(range);
        }
        for mutation in commit.mutations {
            tx.write(mutation);
        }
        let committed = tx.commit().await?;
        faults.0.commits.fetch_add(1, Ordering::SeqCst);
        let unknown =
            faults.0.unknown.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if unknown.is_ok() { Err(CommitError::OutcomeUnknown) } else { Ok(committed) }
    }
}
