//! When a job runs: the next time, and which times were missed. Pure: the time is an argument.

mod cron;

use self::cron::Clock;
use crate::control::{
    Error,
    args::{MissedRuns, Schedule},
};
use cadre_cluster::clock::Timestamp;

/// A run that begins no later than this is on time: about twice what it takes another node to take over.
const LATE_MS_MAX: u64 = 5_000;
/// The most missed runs that are made up for, the latest ones. A schedule that slept for a year, or whose runs take longer
/// than they are apart, would otherwise never be done with the past (P9).
pub const MADE_UP_MAX: usize = 100;

/// A schedule that is understood.
#[derive(Debug, Clone)]
pub struct Plan {
    rhythm: Rhythm,
    missed: MissedRuns,
    start: Timestamp,
}

#[derive(Debug, Clone)]
enum Rhythm {
    Cron(Box<Clock>),
    /// Every so often, counted from the anchor, so that nothing drifts.
    Every {
        ms: u64,
        anchor: Timestamp,
    },
}

/// What follows when a time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The time that a run begins for now.
    pub run: Option<Timestamp>,
    /// The time to look at next; it may have passed, when each missed run is made up for.
    pub next: Option<Timestamp>,
}

impl Plan {
    /// Understands a schedule of a job that was created at `created`, from which an interval counts when it has no
    /// `startAt`.
    pub fn new(schedule: &Schedule, created: Timestamp) -> Result<Self, Error> {
        let zone = schedule.zone("schedule")?;
        let anchor = schedule.start_at.map_or(created, Timestamp::from);
        let rhythm = match (&schedule.cron, schedule.interval_ms) {
            (Some(pattern), _) => {
                let clock =
                    Clock::new(pattern, zone).map_err(|error| Error::invalid("schedule.cron", error))?;
                Rhythm::Cron(Box::new(clock))
            }
            (None, Some(ms)) if ms > 0 => Rhythm::Every { ms, anchor },
            _ => return Err(Error::invalid("schedule.intervalMs", "must be more than 0")),
        };
        let plan = Self { rhythm, missed: schedule.missed_runs, start: anchor.max(created) };
        if plan.first().is_none() {
            return Err(Error::invalid("schedule.cron", "never comes"));
        }
        Ok(plan)
    }

    /// The first time, not before the job was created nor before `startAt`.
    pub fn first(&self) -> Option<Timestamp> {
        match self.start.0.checked_sub(1) {
            Some(before) => self.after(Timestamp(before)),
            None => Some(self.start),
        }
    }

    /// The first time after this one.
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        match &self.rhythm {
            Rhythm::Every { anchor, .. } if time < *anchor => Some(*anchor),
            Rhythm::Every { ms, anchor } => {
                let runs = (time.0 - anchor.0) / ms + 1;
                Some(Timestamp(anchor.0.checked_add(runs.checked_mul(*ms)?)?))
            }
            Rhythm::Cron(clock) => clock.after(time),
        }
    }

    /// The last time until `now`; `due` is one.
    fn last(&self, due: Timestamp, now: Timestamp) -> Timestamp {
        if let Rhythm::Every { ms, .. } = &self.rhythm {
            return Timestamp(now.0 - (now.0 - due.0) % ms).max(due);
        }
        // Whatever comes after `early` has come, and what comes after `late` has not.
        let comes = |from: u64| self.after(Timestamp(from)).filter(|time| *time <= now);
        let (mut early, mut late, mut last) = (due.0, now.0, due);
        while late - early > 1 {
            let middle = early + (late - early) / 2;
            match comes(middle) {
                Some(time) => (early, last) = (time.0, time),
                None => late = middle,
            }
        }
        comes(early).unwrap_or(last)
    }

    /// The first time, from `due` on, of those that are made up for.
    fn made_up_from(&self, due: Timestamp, now: Timestamp) -> Timestamp {
        let missed = std::iter::successors(Some(due), |time| self.after(*time));
        if missed.take_while(|time| *time <= now).nth(MADE_UP_MAX).is_none() {
            return due;
        }
        let before = |time: &Timestamp| Some(self.last(due, Timestamp(time.0 - 1)));
        let latest = std::iter::successors(Some(self.last(due, now)), before);
        latest.take(MADE_UP_MAX).last().unwrap_or(due)
    }

    /// What follows at `now`, when `due` is the first time that nothing was done about. `busy` says that the former run
    /// went on until now: what was due meanwhile is missed, however little.
    pub fn take(&self, due: Timestamp, now: Timestamp, busy: bool) -> Due {
        if due > now {
            return Due { run: None, next: Some(due) };
        }
        match self.missed {
            MissedRuns::RunAll => {
                let from = self.made_up_from(due, now);
                Due { run: Some(from), next: self.after(from) }
            }
            MissedRuns::RunOnce => Due { run: Some(self.last(due, now)), next: self.after(now) },
            MissedRuns::Skip => {
                let last = self.last(due, now);
                let on_time = !busy && now.0 - last.0 <= LATE_MS_MAX;
                Due { run: on_time.then_some(last), next: self.after(now) }
            }
        }
    }
}

/// A schedule in words.
pub fn describe(schedule: &Schedule) -> String {
    let zone = schedule.time_zone.as_deref().unwrap_or("UTC");
    match (&schedule.cron, schedule.interval_ms) {
        (Some(cron), _) => format!("{cron} {zone}"),
        (None, Some(ms)) => format!("every {ms} ms"),
        (None, None) => String::new(),
    }
}
