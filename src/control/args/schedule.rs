//! When a job runs.

use std::str::FromStr;

use chrono_tz::Tz;
use croner::Cron;

use super::declare::arguments;
use crate::{
    control::{check, error::Error, words::words},
    fact::Time,
};

words! {
    /// What happens to times that passed while nobody could run the job.
    MissedRuns {
        /// They are left out. A run may begin up to 5 seconds late without having been missed.
        Skip = "skip",
        /// One run stands for all of them.
        RunOnce = "run_once",
        /// Each is made up for, one after the other.
        RunAll = "run_all",
    }
}

arguments! {
    /// When a job runs: at the times of `cron`, or every `intervalMs`. Exactly one of the two must be there.
    #[derive(Eq, Default)]
    Schedule {
        ..
        /// Minute, hour, day of the month, month, day of the week: `0 9 * * MON-FRI`. A sixth field in front is the
        /// second.
        cron: Option<String>,
        /// Milliseconds from one run to the next: at least 1,000, at most 366 days.
        interval_ms: Option<u64>,
        /// The time zone of `cron`, by its IANA name. Absent: UTC.
        time_zone: Option<String>,
        /// What happens to times that passed while nobody could run it, or while the former run went on. With `skip` a
        /// time that passed no more than 5 seconds ago, and not during a run, still counts.
        missed_runs: MissedRuns,
        /// It does not run before.
        start_at: Option<Time>,
        /// It ends after so many runs.
        max_runs: Option<u32>,
    }
}

impl Schedule {
    /// How far runs may be apart: a second, so that a schedule is no busy loop, to a leap year.
    pub const INTERVAL_MS: std::ops::RangeInclusive<u64> = 1_000..=366 * 24 * 60 * 60 * 1000;

    /// What types cannot say. `field` is where the schedule is.
    pub fn check(&self, field: &str) -> Result<(), Error> {
        let at = |name: &str| format!("{field}.{name}");
        let (cron, interval) = (at("cron"), at("intervalMs"));
        check::exactly_one(&[(&cron, self.cron.is_some()), (&interval, self.interval_ms.is_some())])?;
        if let Some(pattern) = &self.cron {
            check::name(&cron, Some(pattern))?;
            Cron::from_str(pattern).map_err(|error| Error::invalid(&cron, error))?;
        }
        check::range(&interval, self.interval_ms, Self::INTERVAL_MS)?;
        self.zone(field)?;
        check::range(&at("maxRuns"), self.max_runs, 1..=u32::MAX)
    }

    /// The time zone of its pattern.
    pub fn zone(&self, field: &str) -> Result<Tz, Error> {
        let name = self.time_zone.as_deref().unwrap_or("UTC");
        let unknown =
            |_| Error::invalid(format!("{field}.timeZone"), "must be an IANA name such as Europe/Berlin");
        name.parse().map_err(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(schedule: Schedule) -> Option<String> {
        schedule.check("schedule").err().and_then(|error| error.field().map(String::from))
    }

    #[test]
    fn a_schedule_has_times_or_an_interval_not_both() {
        let cron = Schedule { cron: Some("0 9 * * MON-FRI".into()), ..Schedule::default() };
        let interval = Schedule { interval_ms: Some(60_000), ..Schedule::default() };
        assert_eq!((refused(cron.clone()), refused(interval)), (None, None));
        let both = Schedule { interval_ms: Some(60_000), ..cron };
        assert_eq!(refused(both).as_deref(), Some("schedule.cron"));
        assert_eq!(refused(Schedule::default()).as_deref(), Some("schedule.cron"));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let cron = |pattern: &str| Schedule { cron: Some(pattern.into()), ..Schedule::default() };
        for pattern in ["", "x", "61 * * * *", "* * *", "0 9 * * MON-FRI-SUN", "é"] {
            assert_eq!(refused(cron(pattern)).as_deref(), Some("schedule.cron"), "{pattern}");
        }
        for name in ["no zone", "", "Europe/Berlin2", "europe/berlin", "+02:00"] {
            let zone = Schedule { time_zone: Some(name.into()), ..cron("0 9 * * *") };
            assert_eq!(refused(zone).as_deref(), Some("schedule.timeZone"), "{name}");
        }
        for name in ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3"] {
            let zone = Schedule { time_zone: Some(name.into()), ..cron("0 9 * * *") };
            assert_eq!(refused(zone), None, "{name}");
        }
        let busy = Schedule { interval_ms: Some(1), ..Schedule::default() };
        assert_eq!(refused(busy).as_deref(), Some("schedule.intervalMs"));
    }
}
