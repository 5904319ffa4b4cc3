//! What the store counts, for metrics and for benchmarks.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tokio::time::Instant;

/// Counters of an embedded store since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EmbeddedStats {
    /// Transactions that were committed.
    pub commits: u64,
    /// Transactions that were refused because of a conflict.
    pub conflicts: u64,
    /// Groups of transactions that were written together.
    pub groups: u64,
    /// Syncs of the log.
    pub syncs: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Checkpoints that were finished.
    pub checkpoints: u64,
    /// How often commits had to wait for a checkpoint.
    pub stalls: u64,
}

#[derive(Debug)]
pub(super) struct Stats {
    commits: AtomicU64,
    conflicts: AtomicU64,
    groups: AtomicU64,
    syncs: AtomicU64,
    log_bytes: AtomicU64,
    checkpoints: AtomicU64,
    stalls: AtomicU64,
    metrics: Metrics,
}

/// Handles that are looked up once.
struct Metrics {
    commit_seconds: Histogram,
    group_transactions: Histogram,
    sync_seconds: Histogram,
    checkpoint_seconds: Histogram,
    checkpoint_bytes: Histogram,
    stall_seconds: Histogram,
    commits: Counter,
    conflicts: Counter,
    log_bytes: Counter,
    overlay_bytes: Gauge,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Stats {
    pub(super) fn new() -> Self {
        Self {
            commits: AtomicU64::new(0),
            conflicts: AtomicU64::new(0),
            groups: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            checkpoints: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            metrics: Metrics {
                commit_seconds: histogram!("cadre_store_commit_seconds"),
                group_transactions: histogram!("cadre_store_group_transactions"),
                sync_seconds: histogram!("cadre_store_sync_seconds"),
                checkpoint_seconds: histogram!("cadre_store_checkpoint_seconds"),
                checkpoint_bytes: histogram!("cadre_store_checkpoint_bytes"),
                stall_seconds: histogram!("cadre_store_stall_seconds"),
                commits: counter!("cadre_store_commits_total"),
                conflicts: counter!("cadre_store_conflicts_total"),
                log_bytes: counter!("cadre_store_log_bytes_total"),
                overlay_bytes: gauge!("cadre_store_overlay_bytes"),
            },
        }
    }

    /// Measures a sync of the log.
    pub(super) fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let start = Instant::now();
        let result = sync();
        self.metrics.sync_seconds.record(start.elapsed());
        self.syncs.fetch_add(1, Ordering::Relaxed);
        result
    }

    pub(super) fn group(&self, transactions: u64, log_bytes: u64, overlay_bytes: usize) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.commits.fetch_add(transactions, Ordering::Relaxed);
        self.log_bytes.fetch_add(log_bytes, Ordering::Relaxed);
        self.metrics.commits.increment(transactions);
        self.metrics.log_bytes.increment(log_bytes);
        self.metrics.group_transactions.record(transactions as f64);
        self.metrics.overlay_bytes.set(overlay_bytes as f64);
    }

    pub(super) fn conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
        self.metrics.conflicts.increment(1);
    }

    /// A commit was answered that had been handed in at `start`.
    pub(super) fn answered(&self, start: Instant, now: Instant) {
        self.metrics.commit_seconds.record(now.saturating_duration_since(start));
    }

    pub(super) fn checkpoint(&self, start: Instant, bytes: usize) {
        self.metrics.checkpoint_bytes.record(bytes as f64);
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.metrics.checkpoint_seconds.record(start.elapsed());
    }

    pub(super) fn stall(&self, start: Instant) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        self.metrics.stall_seconds.record(start.elapsed());
    }

    pub(super) fn read(&self) -> EmbeddedStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EmbeddedStats {
            commits: read(&self.commits),
            conflicts: read(&self.conflicts),
            groups: read(&self.groups),
            syncs: read(&self.syncs),
            log_bytes: read(&self.log_bytes),
            checkpoints: read(&self.checkpoints),
            stalls: read(&self.stalls),
        }
    }
}
