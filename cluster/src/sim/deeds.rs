//! What effects did to the outside of the cluster.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::bank::Report;
use crate::address::Address;

/// A list of it that no crash forgets.
#[derive(Debug, Default)]
pub(super) struct Deeds {
    ledger: Mutex<BTreeMap<String, Deed>>,
    runs: AtomicU64,
    reported: Mutex<Vec<Report>>,
}

/// What an effect did to the outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Deed {
    /// Attempts that got as far as doing it.
    pub done: u32,
    /// Attempts that reported a failure without having done it.
    pub failed: u32,
}

impl Deeds {
    /// Notes what an attempt did.
    pub fn deed(&self, address: &Address, id: &str, change: impl FnOnce(&mut Deed)) {
        change(self.ledger().entry(format!("{address}#{id}")).or_default());
    }

    pub fn all(&self) -> BTreeMap<String, Deed> {
        self.ledger().clone()
    }

    /// A number for one start of an attempt.
    pub fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that an attempt was told that its report is durable.
    pub fn reported(&self, report: Report) {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).push(report);
    }

    pub fn all_reported(&self) -> Vec<Report> {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn ledger(&self) -> MutexGuard<'_, BTreeMap<String, Deed>> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
