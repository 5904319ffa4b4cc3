//! What lies outside the cluster in a simulation: true time, and the clocks that get it wrong.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use tokio::time::Instant;

use super::Dice;
use crate::clock::{Clock, Timestamp};

/// Shared by all nodes, clients and checkers of one simulation.
#[derive(Debug)]
pub struct World {
    began: Instant,
    /// What the outside draws from.
    pub dice: Dice,
}

impl World {
    /// The virtual year is 2033; nothing depends on it.
    const EPOCH_MS: u64 = 2_000_000_000_000;

    /// A world that begins now.
    pub fn new(dice: Dice) -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), dice })
    }

    /// True time.
    pub fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).expect("simulations end");
        Timestamp(Self::EPOCH_MS + elapsed)
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
