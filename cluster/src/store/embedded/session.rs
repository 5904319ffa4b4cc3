//! One transaction's view of the store.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;

use super::{base::BaseError, queue::closed, readers::Cohort, shared::Shared, view::View};
use crate::store::{
    Commit, CommitError, Committed, Page, RangeRead, ReadError, Session, TRANSACTION_AGE_MAX, Version,
};

pub(super) struct EmbeddedSession {
    shared: Arc<Shared>,
    begun: OnceLock<Begun>,
}

struct Begun {
    cohort: Arc<Cohort>,
    at: Instant,
}

impl EmbeddedSession {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, begun: OnceLock::new() }
    }

    fn begun(&self) -> &Begun {
        self.begun.get_or_init(|| Begun { cohort: self.shared.readers.enter(), at: Instant::now() })
    }

    /// Reads are answered from memory or the page cache, so they are done right here.
    fn read<T>(&self, read: impl FnOnce(&View, u64) -> Result<T, BaseError>) -> Result<T, ReadError> {
        let begun = self.begun();
        if begun.is_too_old() {
            return Err(ReadError::TooOld);
        }
        let version = begun.cohort.version;
        match begun.cohort.read(|view| read(view, version)) {
            Some(result) => result.map_err(|error| ReadError::Failed(Arc::new(error))),
            None if self.shared.queue.is_closed() => {
                Err(ReadError::Unavailable { reason: "the store is closed".to_owned() })
            }
            None => Err(ReadError::TooOld),
        }
    }
}

impl Begun {
    fn is_too_old(&self) -> bool {
        self.at.elapsed() > TRANSACTION_AGE_MAX
    }
}

#[async_trait]
impl Session for EmbeddedSession {
    async fn read_version(&self) -> Result<Version, ReadError> {
        self.read(|_, version| Ok(Version(version)))
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        self.read(|view, version| view.get(key, version))
    }

    async fn range(&self, read: &RangeRead) -> Result<Page, ReadError> {
        self.read(|view, version| view.range(read, version))
    }

    async fn commit(self: Box<Self>, commit: Commit) -> Result<Committed, CommitError> {
        if self.shared.queue.is_closed() {
            return Err(closed());
        }
        if self.begun.get().is_some_and(Begun::is_too_old) {
            return Err(CommitError::TooOld);
        }
        // Without reads there is nothing to check, and no version to keep for it.
        let cohort = (!commit.reads.is_empty()).then(|| Arc::clone(&self.begun().cohort));
        let shared = Arc::clone(&self.shared);
        drop(self);
        shared.queue.submit(commit, cohort).await
    }
}
