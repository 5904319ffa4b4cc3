//! What may go wrong, how often, and for whom.

use std::{collections::BTreeMap, ops::RangeInclusive, time::Duration};

use crate::{sim::Dice, store::TRANSACTION_AGE_MAX};

/// How the store treats those who use it. Odds are per action, between 0 and 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// How long a read takes.
    pub read_latency: RangeInclusive<Duration>,
    /// How often a read takes [`Self::slow_read_latency`] instead.
    pub slow_read: f64,
    /// See [`Self::slow_read`].
    pub slow_read_latency: RangeInclusive<Duration>,
    /// How long a commit takes, there and back.
    pub commit_latency: RangeInclusive<Duration>,
    /// How often a commit takes [`Self::slow_commit_latency`] instead.
    pub slow_commit: f64,
    /// See [`Self::slow_commit`].
    pub slow_commit_latency: RangeInclusive<Duration>,
    /// How often a page is cut short, with more to follow.
    pub short_page: f64,
    /// How often a read is `Unavailable`.
    pub read_unavailable: f64,
    /// How often a commit is `Unavailable`, nothing written.
    pub commit_unavailable: f64,
    /// How often a commit is a `Conflict` that never was.
    pub conflict: f64,
    /// How often a commit is `OutcomeUnknown` and was never applied.
    pub unknown_lost: f64,
    /// How often a commit is `OutcomeUnknown` and was applied.
    pub unknown_done: f64,
    /// How often a commit is `OutcomeUnknown` and is applied only later, if it still conflicts with nothing.
    pub unknown_late: f64,
    /// How much later.
    pub unknown_late_by: RangeInclusive<Duration>,
    /// How often one of these is late by [`Self::unknown_very_late_by`] instead.
    pub unknown_very_late: f64,
    /// See [`Self::unknown_very_late`].
    pub unknown_very_late_by: RangeInclusive<Duration>,
    /// Nothing works.
    pub outage: Option<Outage>,
}

/// How it shows that nothing works. Commits that were under way when it began end as `OutcomeUnknown`, or
/// hang as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Everything is `Unavailable` at once.
    Refusing,
    /// Everything waits for the outage to end.
    Hanging,
}

impl Faults {
    /// A store that answers at once and always.
    pub fn none() -> Self {
        let at_once = Duration::ZERO..=Duration::ZERO;
        Self {
            read_latency: at_once.clone(),
            slow_read: 0.0,
            slow_read_latency: at_once.clone(),
            commit_latency: at_once.clone(),
            slow_commit: 0.0,
            slow_commit_latency: at_once.clone(),
            short_page: 0.0,
            read_unavailable: 0.0,
            commit_unavailable: 0.0,
            conflict: 0.0,
            unknown_lost: 0.0,
            unknown_done: 0.0,
            unknown_late: 0.0,
            unknown_late_by: at_once.clone(),
            unknown_very_late: 0.0,
            unknown_very_late_by: at_once,
            outage: None,
        }
    }

    /// A bad day: everything that can go wrong does, often enough that a few hundred transactions meet it all.
    pub fn rough() -> Self {
        let ms = Duration::from_millis;
        Self {
            read_latency: ms(0)..=ms(4),
            slow_read: 0.002,
            // Also past the age at which its transaction is too old.
            slow_read_latency: ms(100)..=TRANSACTION_AGE_MAX + ms(500),
            commit_latency: ms(1)..=ms(12),
            slow_commit: 0.02,
            slow_commit_latency: ms(50)..=ms(800),
            short_page: 0.2,
            read_unavailable: 0.01,
            commit_unavailable: 0.02,
            conflict: 0.03,
            unknown_lost: 0.01,
            unknown_done: 0.02,
            unknown_late: 0.02,
            unknown_late_by: ms(1)..=ms(300),
            unknown_very_late: 0.4,
            // Past a lease, and up to the age at which a transaction that minds its reads is too old anyway.
            unknown_very_late_by: ms(300)..=TRANSACTION_AGE_MAX,
            outage: None,
        }
    }

    /// The same, with an outage.
    pub fn with_outage(self, outage: Outage) -> Self {
        Self { outage: Some(outage), ..self }
    }

    pub(super) fn draw_read(&self, dice: &Dice) -> ReadPlan {
        let slow = dice.chance(self.slow_read);
        ReadPlan {
            latency: draw(dice, if slow { &self.slow_read_latency } else { &self.read_latency }),
            unavailable: dice.chance(self.read_unavailable),
            short: dice.chance(self.short_page),
        }
    }

    pub(super) fn draw_commit(&self, dice: &Dice) -> CommitPlan {
        let slow = dice.chance(self.slow_commit);
        let latency = draw(dice, if slow { &self.slow_commit_latency } else { &self.commit_latency });
        let there = latency.mul_f64(dice.between(0..=100) as f64 / 100.0);
        CommitPlan { there, back: latency - there, fate: self.draw_fate(dice) }
    }

    fn draw_fate(&self, dice: &Dice) -> Fate {
        let fates = [
            (self.commit_unavailable, Fate::Unavailable),
            (self.conflict, Fate::Conflict),
            (self.unknown_lost, Fate::UnknownLost),
            (self.unknown_done, Fate::UnknownDone),
            (self.unknown_late, Fate::UnknownLate { by: self.draw_lateness(dice) }),
        ];
        fates.into_iter().find(|(odds, _)| dice.chance(*odds)).map_or(Fate::Plain, |(_, fate)| fate)
    }

    fn draw_lateness(&self, dice: &Dice) -> Duration {
        let very = dice.chance(self.unknown_very_late);
        draw(dice, if very { &self.unknown_very_late_by } else { &self.unknown_late_by })
    }
}

fn draw(dice: &Dice, range: &RangeInclusive<Duration>) -> Duration {
    let micros = |duration: &Duration| duration.as_micros() as u64;
    Duration::from_micros(dice.between(micros(range.start())..=micros(range.end())))
}

/// What will happen to a read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadPlan {
    pub latency: Duration,
    pub unavailable: bool,
    pub short: bool,
}

/// What will happen to a commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommitPlan {
    /// Until it takes effect.
    pub there: Duration,
    /// From there until it is answered.
    pub back: Duration,
    pub fate: Fate,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    Plain,
    Unavailable,
    Conflict,
    UnknownLost,
    UnknownDone,
    UnknownLate { by: Duration },
}

/// The faults of every node.
#[derive(Debug)]
pub(super) struct Weather {
    pub everywhere: Faults,
    pub at_node: BTreeMap<String, Faults>,
}

impl Weather {
    pub fn at(&self, node: &str) -> &Faults {
        self.at_node.get(node).unwrap_or(&self.everywhere)
    }
}
