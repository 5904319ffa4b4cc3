//! When a job runs: the next time, and which times were missed. Pure: the time is an argument.

use std::str::FromStr;

use cadre_cluster::clock::Timestamp;
use chrono::{DateTime, Utc};
use croner::Cron;

use crate::control::{
    Error,
    args::{MissedRuns, Schedule},
};

/// A run that begins no later than this is on time: about twice what it takes another node to take over.
const LATE_MS_MAX: u64 = 5_000;
/// The names of the only time zone that is known here.
const UTC: [&str; 7] = ["UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu", "Etc/UCT"];

/// A schedule that is understood.
#[derive(Debug, Clone)]
pub struct Plan {
    rhythm: Rhythm,
    missed: MissedRuns,
    start: Timestamp,
}

#[derive(Debug, Clone)]
enum Rhythm {
    Cron(Box<Cron>),
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
        if let Some(zone) = schedule.time_zone.as_deref().filter(|zone| !UTC.contains(zone)) {
            let message = format!("{zone} is not known here, only UTC is");
            return Err(Error::invalid("schedule.timeZone", message));
        }
        let anchor = schedule.start_at.map_or(created, Timestamp::from);
        let rhythm = match (&schedule.cron, schedule.interval_ms) {
            (Some(pattern), _) => {
                let cron = Cron::from_str(pattern).map_err(|error| Error::invalid("schedule.cron", error))?;
                Rhythm::Cron(Box::new(cron))
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
            Rhythm::Cron(cron) => {
                let found = cron.find_next_occurrence(&second(time)?, false).ok()?;
                u64::try_from(found.timestamp_millis()).ok().map(Timestamp)
            }
        }
    }

    /// The last time until `now`; `due` is one.
    fn last(&self, due: Timestamp, now: Timestamp) -> Timestamp {
        let found = match &self.rhythm {
            Rhythm::Every { ms, .. } => Some(Timestamp(now.0 - (now.0 - due.0) % ms)),
            Rhythm::Cron(cron) => second(now)
                .and_then(|now| cron.find_previous_occurrence(&now, true).ok())
                .and_then(|found| u64::try_from(found.timestamp_millis()).ok().map(Timestamp)),
        };
        found.unwrap_or(due).max(due)
    }

    /// What follows at `now`, when `due` is the first time that nothing was done about. `busy` says that the former run
    /// went on until now: what was due meanwhile is missed, however little.
    pub fn take(&self, due: Timestamp, now: Timestamp, busy: bool) -> Due {
        if due > now {
            return Due { run: None, next: Some(due) };
        }
        let last = self.last(due, now);
        match self.missed {
            MissedRuns::RunAll => Due { run: Some(due), next: self.after(due) },
            MissedRuns::RunOnce => Due { run: Some(last), next: self.after(now) },
            MissedRuns::Skip => {
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

/// The whole second of a time: patterns know no smaller ones.
fn second(time: Timestamp) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(i64::try_from(time.0 / 1000).ok()?, 0)
}
