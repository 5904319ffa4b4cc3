//! Seeded randomness that many parts of one simulation share.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rand::{Rng, SeedableRng, rngs::SmallRng};

/// A generator that can be handed around. Draws come in the order they are made, so a simulation on one
/// thread makes the same draws for the same seed.
#[derive(Debug, Clone)]
pub struct Dice(Arc<Mutex<SmallRng>>);

impl Dice {
    /// Dice that fall the same way for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(SmallRng::seed_from_u64(seed))))
    }

    /// Dice of their own, seeded from these: what one part draws does not shift what another part does.
    pub fn fork(&self) -> Self {
        Self::new(self.rng().random())
    }

    /// True with this probability.
    pub fn chance(&self, probability: f64) -> bool {
        probability > 0.0 && self.rng().random_bool(probability.min(1.0))
    }

    /// A number in the range, each as likely as the others.
    pub fn between(&self, range: RangeInclusive<u64>) -> u64 {
        self.rng().random_range(range)
    }

    /// One of the items.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.rng().random_range(0..items.len())]
    }

    fn rng(&self) -> MutexGuard<'_, SmallRng> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
