//! How long to wait for a group to fill.
//!
//! Callers that commit one transaction after the other fall into two halves: while one half's group is synced
//! the other half gathers, and each sync carries only half of them. Those who were just answered are mostly
//! back within microseconds; waiting that long for them, a fraction of what the sync takes, doubles the group.
//! Whether they do come back is learnt: a wait in vain halves the patience for the next, until there is none.

use std::time::Duration;

/// What is expected of the next group.
#[derive(Debug)]
pub(super) struct Pace {
    /// What writing and syncing a group takes, smoothed.
    write: Duration,
    patience: Duration,
    /// How many transactions are about: those just answered and those that came meanwhile.
    population: usize,
    groups: u64,
}

impl Pace {
    const PATIENCE_MAX: Duration = Duration::from_millis(1);
    const PATIENCE_MIN: Duration = Duration::from_micros(10);
    /// Without patience left, every so many groups one more attempt is made.
    const TRY_AGAIN_EVERY: u64 = 64;

    pub(super) fn new() -> Self {
        Self { write: Duration::ZERO, patience: Duration::ZERO, population: 0, groups: 0 }
    }

    /// How many transactions to wait for, and for how long; `None` when those that are there should go.
    pub(super) fn gather(&self, waiting: usize) -> Option<(usize, Duration)> {
        // The last few would cost more than they bring.
        let wanted = self.population - self.population / 8;
        (waiting > 0 && waiting < wanted && self.patience >= Self::PATIENCE_MIN)
            .then_some((wanted, self.patience))
    }

    /// After a wait: whether they came.
    pub(super) fn gathered(&mut self, came: bool) {
        self.patience = if came { 2 * self.patience } else { self.patience / 2 };
        self.patience = self.patience.min(self.patience_max());
    }

    /// After a group: what its write took, how many were answered, and how many wait already.
    pub(super) fn wrote(&mut self, took: Duration, answered: usize, waiting: usize) {
        self.write = (7 * self.write + took) / 8;
        self.population = answered + waiting;
        self.groups += 1;
        if self.groups % Self::TRY_AGAIN_EVERY == 1 {
            self.patience = self.patience.max(self.patience_max());
        }
    }

    fn patience_max(&self) -> Duration {
        (self.write / 2).min(Self::PATIENCE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Duration = Duration::from_micros(200);

    fn running(answered: usize, waiting: usize) -> Pace {
        let mut pace = Pace::new();
        (0..130).for_each(|_| pace.wrote(WRITE, answered, waiting));
        pace
    }

    #[test]
    fn a_lone_caller_is_never_made_to_wait() {
        assert_eq!(running(1, 0).gather(1), None);
    }

    #[test]
    fn two_halves_are_brought_together_within_half_a_write() {
        let (wanted, patience) = running(32, 32).gather(32).unwrap();
        assert_eq!(wanted, 56);
        assert!(patience <= WRITE / 2);
    }

    #[test]
    fn those_who_do_not_come_back_are_soon_no_longer_waited_for() {
        let mut pace = running(32, 32);
        let mut waits = 0;
        for _ in 0..Pace::TRY_AGAIN_EVERY - 3 {
            if pace.gather(10).is_some() {
                waits += 1;
                pace.gathered(false);
            }
            pace.wrote(WRITE, 10, 10);
        }
        assert!(waits < 8, "{waits}");
    }
}
