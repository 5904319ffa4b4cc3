//! A cron pattern on the clocks of a time zone.
//!
//! Clocks on walls go back and forth. The pattern is compared with what the clock shows, and the answer is a moment of real
//! time, later than the one that was asked from. When clocks are put forward, a pattern that names one time of the day
//! and finds it missing comes at the moment after the gap; when they are put back, it comes the first time only. A pattern
//! that comes several times a day (`*/10 * * * *`, `0 * * * *`) follows what the clock shows: what falls into the gap
//! is left out, and the hour that is there twice counts twice, so that it is never silent for longer than it says.
//!
//! The crate that knows patterns is asked about wall clocks only, which have no gaps for it: asked for the time after a
//! moment in the second of two equal hours, it would answer with one in the first.

use std::str::FromStr;

use cadre_cluster::clock::Timestamp;
use chrono::{DateTime, Offset, TimeDelta, TimeZone, Utc};
use chrono_tz::Tz;
use croner::{Cron, JobType, errors::CronError};

/// Farther than clocks are ever put (a day, where the date line was moved), with room for two of that.
const NEAR_S: i64 = 2 * 24 * 3600;
/// How many changes of clocks and empty stretches are looked through. A pattern that has only times that gaps swallow
/// comes to this in a few centuries, and is then said never to come.
const LOOKS_MAX: usize = 1_000;

/// A pattern, and where the clock hangs.
#[derive(Debug, Clone)]
pub struct Clock {
    cron: Cron,
    zone: Tz,
    /// Whether it names one time of the day.
    is_fixed: bool,
}

/// A change of the clocks: the first second with another offset.
struct Change {
    at: i64,
    before: i64,
    after: i64,
}

impl Clock {
    /// From a pattern of five fields, or six with seconds in front.
    pub fn new(pattern: &str, zone: Tz) -> Result<Self, CronError> {
        let cron = Cron::from_str(pattern)?;
        let is_fixed = cron.determine_job_type() == JobType::FixedTime;
        Ok(Self { cron, zone, is_fixed })
    }

    /// The first time after this one.
    pub fn after(&self, time: Timestamp) -> Option<Timestamp> {
        // Patterns know whole seconds only.
        let mut now = i64::try_from(time.0 / 1000).ok()?;
        // What the clock has shown, and is not to be found again.
        let mut shown = now + self.offset(now)?;
        if self.is_fixed
            && let Some(Change { at, before, .. }) = self.change(now - NEAR_S, now)?
        {
            shown = shown.max(at + before - 1);
        }
        for _ in 0..LOOKS_MAX {
            let next = self.next_shown(shown)?;
            let found = next - self.offset(now)?;
            let until = found.min(now + NEAR_S);
            match self.change(now, until)? {
                None if until == found => return moment(found),
                None => {
                    // Whatever the clocks do meanwhile, they show nothing that matches.
                    now = until.max(found - NEAR_S);
                    shown = now + self.offset(now)?;
                }
                Some(Change { at, after, .. }) if self.is_fixed && next < at + after => return moment(at),
                Some(Change { at, before, after }) => {
                    now = at;
                    // The moment of the change may itself be a time.
                    shown = at + if self.is_fixed { after.max(before) } else { after } - 1;
                }
            }
        }
        None
    }

    /// The first matching second after one, as a wall clock shows them.
    fn next_shown(&self, shown: i64) -> Option<i64> {
        let found = self.cron.find_next_occurrence(&second(shown)?, false).ok()?;
        Some(found.timestamp())
    }

    /// How far ahead of UTC the clock is.
    fn offset(&self, at: i64) -> Option<i64> {
        let offset = self.zone.offset_from_utc_datetime(&second(at)?.naive_utc()).fix();
        Some(offset.local_minus_utc().into())
    }

    /// The first change of the clock after `from` and not after `to`, which are near: no zone changes there and back in two
    /// days.
    fn change(&self, from: i64, to: i64) -> Option<Option<Change>> {
        let before = self.offset(from)?;
        if self.offset(to)? == before {
            return Some(None);
        }
        let (mut same, mut other) = (from, to);
        while other - same > 1 {
            let middle = same + (other - same) / 2;
            match self.offset(middle)? == before {
                true => same = middle,
                false => other = middle,
            }
        }
        Some(Some(Change { at: other, before, after: self.offset(other)? }))
    }
}

fn moment(at: i64) -> Option<Timestamp> {
    u64::try_from(at).ok()?.checked_mul(1000).map(Timestamp)
}

fn second(at: i64) -> Option<DateTime<Utc>> {
    DateTime::UNIX_EPOCH.checked_add_signed(TimeDelta::try_seconds(at)?)
}
