//! What lies outside the cluster in a simulation: true time, the clocks that get it wrong, and a ledger of what
//! effects did.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use tokio::time::Instant;

use super::{Dice, bank::Report};
use crate::{
    address::Address,
    clock::{Clock, Timestamp},
};

/// Shared by all nodes, clients and checkers of one simulation.
#[derive(Debug)]
pub(super) struct World {
    began: Instant,
    pub dice: Dice,
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

impl World {
    /// The virtual year is 2033; nothing depends on it.
    const EPOCH_MS: u64 = 2_000_000_000_000;

    pub fn new(dice: Dice) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            dice,
            ledger: Mutex::default(),
            runs: AtomicU64::new(0),
            reported: Mutex::default(),
        })
    }

    /// True time.
    pub fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).expect("simulations end");
        Timestamp(Self::EPOCH_MS + elapsed)
    }

    /// Notes what an attempt did.
    pub fn deed(&self, address: &Address, id: &str, change: impl FnOnce(&mut Deed)) {
        change(self.ledger().entry(format!("{address}#{id}")).or_default());
    }

    pub fn deeds(&self) -> BTreeMap<String, Deed> {
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

/// A node's clock: true time, wrong by an amount that can change, also backwards.
#[derive(Debug)]
pub(super) struct SkewedClock {
    world: Arc<World>,
    offset_ms: AtomicI64,
}

impl SkewedClock {
    pub fn new(world: Arc<World>, offset_ms: i64) -> Arc<Self> {
        Arc::new(Self { world, offset_ms: AtomicI64::new(offset_ms) })
    }

    pub fn skew(&self, offset_ms: i64) {
        self.offset_ms.store(offset_ms, Ordering::Relaxed);
    }
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let offset = self.offset_ms.load(Ordering::Relaxed);
        Timestamp(self.world.now().0.saturating_add_signed(offset))
    }
}
