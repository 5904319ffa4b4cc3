//! The embedded driver: one process, one folder, no server.
//!
//! Committing straight into a B-tree or LSM engine costs several syncs or rewrites a page per key. So commits
//! go into a write-ahead log of our own (one write and one sync for all that wait) and into an overlay in
//! memory that keeps the versions running transactions read; from time to time the overlay's net effect moves
//! into the engine in one transaction. What lives shorter than that, like a message or a timer, never gets
//! there.
//!
//! ```text
//! sessions ──commits──► queue ──► committer ──► log (append + sync)
//!    │                               │ applies
//!    └──reads at a version──► active generation ─freeze─► frozen generation
//!                                    └─────────────► engine ◄──checkpoint
//! ```
//!
//! Not promised: that more than one process can open the folder, or that the last record of the log, damaged
//! later on, can be told from a write that a crash cut short.

mod backend;
mod base;
mod checkpoint;
mod committer;
mod config;
mod conflict;
mod disk;
mod files;
mod folder;
mod lock;
mod log;
mod manifest;
mod open;
mod overlay;
mod pace;
#[cfg(test)]
mod power;
mod queue;
mod readers;
mod room;
mod session;
mod shared;
mod stats;
mod sums;
mod threads;
mod view;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

pub use config::{EmbeddedConfig, SyncMode};
pub use stats::EmbeddedStats;

use self::{session::EmbeddedSession, shared::Shared, threads::Threads};
use super::{Driver, OpenError, Session, Store};

/// An open embedded store. Clones are the same store; it closes when the last of them, and of the [`Store`]s
/// made from them, is gone. Dropping the last one blocks until it is closed; [`Self::close`] does not.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    threads: Mutex<Option<Threads>>,
    closed: watch::Receiver<bool>,
}

impl Embedded {
    /// Opens the data folder, making it when it is missing or empty, and recovers what a crash left behind.
    pub fn open(config: EmbeddedConfig) -> Result<Self, OpenError> {
        let (shared, threads, closed) = open::open(config.normalized())?;
        Ok(Self { inner: Arc::new(Inner { shared, threads: Mutex::new(Some(threads)), closed }) })
    }

    /// The store, for transactions.
    pub fn store(&self) -> Store {
        Store::new(self.clone())
    }

    /// What was counted since opening.
    pub fn stats(&self) -> EmbeddedStats {
        self.inner.shared.stats.read()
    }

    /// Closes the store: commits that wait are still answered, everything moves into the engine so that the
    /// next opening is quick, and the folder is free for another process when this returns. Transactions that
    /// are still running find the store unavailable.
    pub async fn close(&self) {
        self.inner.shared.close();
        let mut closed = self.inner.closed.clone();
        // An error means that the threads are gone, which is what is waited for.
        closed.wait_for(|closed| *closed).await.ok();
        self.inner.join();
    }
}

impl Inner {
    fn join(&self) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(threads) = threads {
            threads.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.close();
        self.join();
    }
}

/// Without what is stored in it.
impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("path", &self.inner.shared.config.path).finish_non_exhaustive()
    }
}

impl Driver for Embedded {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn session(&self) -> Box<dyn Session> {
        Box::new(EmbeddedSession::new(Arc::clone(&self.inner.shared)))
    }
}
