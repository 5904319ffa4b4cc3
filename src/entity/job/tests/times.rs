//! The times of schedules.

use cadre_cluster::clock::Timestamp;
use proptest::prelude::*;

use crate::{
    control::args::{MissedRuns, Schedule},
    entity::job::schedule::{Due, MADE_UP_MAX, Plan},
    fact::Time,
};

fn every(ms: u64, missed_runs: MissedRuns, created: u64) -> Plan {
    let schedule = Schedule { interval_ms: Some(ms), missed_runs, ..Schedule::default() };
    Plan::new(&schedule, Timestamp(created)).unwrap()
}

fn cron(pattern: &str, created: &str) -> Plan {
    cron_in("UTC", pattern, created)
}

fn cron_in(zone: &str, pattern: &str, created: &str) -> Plan {
    let schedule =
        Schedule { cron: Some(pattern.into()), time_zone: Some(zone.into()), ..Schedule::default() };
    Plan::new(&schedule, Time::parse(created).unwrap().0).unwrap()
}

fn texts(plan: &Plan, count: usize) -> Vec<String> {
    let times = std::iter::successors(plan.first(), |time| plan.after(*time));
    times.take(count).map(|time| Time(time).to_string()).collect()
}

#[test]
fn patterns_name_times_in_utc() {
    let plan = cron("0 9 * * MON-FRI", "2026-05-08T09:00:00.001Z");
    assert_eq!(texts(&plan, 2), ["2026-05-11T09:00:00.000Z", "2026-05-12T09:00:00.000Z"]);
    let plan = cron("0 9 * * MON-FRI", "2026-05-08T09:00:00.000Z");
    assert_eq!(texts(&plan, 1), ["2026-05-08T09:00:00.000Z"], "a time that is now counts");
    let plan = cron("*/20 * * * * *", "2026-05-08T09:00:05.500Z");
    assert_eq!(texts(&plan, 2), ["2026-05-08T09:00:20.000Z", "2026-05-08T09:00:40.000Z"], "six fields");
}

#[test]
fn patterns_follow_the_clocks_of_their_zone() {
    let plan = cron_in("Europe/Berlin", "0 9 * * *", "2026-03-27T12:00:00.000Z");
    let expected = ["2026-03-28T08:00:00.000Z", "2026-03-29T07:00:00.000Z", "2026-03-30T07:00:00.000Z"];
    assert_eq!(texts(&plan, 3), expected, "clocks are put forward on the 29th");
    let plan = cron_in("Asia/Kathmandu", "0 0 * * *", "2026-01-01T00:00:00.000Z");
    assert_eq!(texts(&plan, 1), ["2026-01-01T18:15:00.000Z"], "five hours and three quarters ahead");
}

#[test]
fn a_time_of_the_day_that_a_gap_swallows_comes_right_after_it_and_only_once() {
    let plan = cron_in("Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00.000Z");
    let expected = ["2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"];
    assert_eq!(texts(&plan, 3), expected);
    let plan = cron_in("Europe/Berlin", "0 3 * * *", "2026-03-29T00:00:00.000Z");
    assert_eq!(
        texts(&plan, 2),
        ["2026-03-29T01:00:00.000Z", "2026-03-30T01:00:00.000Z"],
        "the end of the gap"
    );
    let plan = cron_in("Pacific/Apia", "0 12 * * *", "2011-12-29T23:00:00.000Z");
    let expected = ["2011-12-30T10:00:00.000Z", "2011-12-30T22:00:00.000Z"];
    assert_eq!(texts(&plan, 2), expected, "a whole day was left out");
}

#[test]
fn a_time_of_the_day_that_is_there_twice_comes_the_first_time_only() {
    let plan = cron_in("Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00.000Z");
    assert_eq!(texts(&plan, 2), ["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"]);
    // Asked for between the two, or in the second of the two hours, it is over for the day.
    for asked in ["2026-10-25T00:45:00.000Z", "2026-10-25T01:10:00.000Z", "2026-10-25T01:30:00.000Z"] {
        let plan = cron_in("Europe/Berlin", "30 2 * * *", asked);
        assert_eq!(texts(&plan, 1), ["2026-10-26T01:30:00.000Z"], "{asked}");
    }
}

#[test]
fn a_pattern_of_every_half_hour_is_neither_silent_nor_doubled_when_clocks_change() {
    for (zone, created) in [
        ("Europe/Berlin", "2026-10-24T23:00:00.000Z"),
        ("Europe/Berlin", "2026-03-28T23:00:00.000Z"),
        ("Australia/Lord_Howe", "2026-04-04T12:00:00.000Z"),
        ("America/New_York", "2026-11-01T04:00:00.000Z"),
    ] {
        let plan = cron_in(zone, "*/30 * * * *", created);
        let first = Time::parse(created).unwrap().0.0;
        let expected: Vec<String> =
            (0..12).map(|n| Time(Timestamp(first + n * 1_800_000)).to_string()).collect();
        assert_eq!(texts(&plan, 12), expected, "{zone} {created}");
    }
}

#[test]
fn a_pattern_within_a_gap_waits_for_a_day_without_one() {
    let plan = cron_in("Europe/Berlin", "*/30 2 * * *", "2026-03-28T12:00:00.000Z");
    assert_eq!(texts(&plan, 2), ["2026-03-30T00:00:00.000Z", "2026-03-30T00:30:00.000Z"]);
    let plan = cron_in("Europe/Berlin", "*/30 2 29 3 *", "2026-01-01T00:00:00.000Z");
    assert_eq!(texts(&plan, 1), ["2027-03-29T00:00:00.000Z"], "in 2026 the clocks change on that day");
}

#[test]
fn a_pattern_that_never_comes_is_refused() {
    for (pattern, zone) in
        [("0 0 30 2 *", "UTC"), ("0 0 31 4,6 *", "Asia/Tokyo"), ("0 0 0 1 1 * 2020", "UTC")]
    {
        let schedule =
            Schedule { cron: Some(pattern.into()), time_zone: Some(zone.into()), ..Schedule::default() };
        let refused = Plan::new(&schedule, Timestamp(1_800_000_000_000)).unwrap_err();
        assert_eq!(refused.field(), Some("schedule.cron"), "{pattern}");
    }
}

#[test]
fn p9_what_is_made_up_for_is_bounded_and_the_latest() {
    let plans = [
        every(1_000, MissedRuns::RunAll, 1_800_000_000_000),
        Plan::new(
            &Schedule {
                cron: Some("* * * * * *".into()),
                missed_runs: MissedRuns::RunAll,
                ..Schedule::default()
            },
            Timestamp(1_800_000_000_000),
        )
        .unwrap(),
    ];
    for plan in plans {
        let (mut due, mut runs) = (plan.first().unwrap(), Vec::new());
        let now = Timestamp(due.0 + 365 * 24 * 3_600_000);
        while due <= now {
            let taken = plan.take(due, now, true);
            runs.extend(taken.run);
            due = taken.next.unwrap();
        }
        assert_eq!(runs.len(), MADE_UP_MAX);
        assert_eq!(runs.last(), Some(&now));
        assert_eq!(now.0 - runs[0].0, (MADE_UP_MAX as u64 - 1) * 1_000, "without a hole");
    }
}

#[test]
fn a_start_puts_the_first_time_off_and_is_the_measure_of_an_interval() {
    let start = |at: u64| {
        let start_at = Some(Time(Timestamp(at)));
        let schedule = Schedule { interval_ms: Some(1_000), start_at, ..Schedule::default() };
        Plan::new(&schedule, Timestamp(5_300)).unwrap().first().unwrap().0
    };
    assert_eq!((start(9_100), start(5_300), start(100)), (9_100, 5_300, 6_100));
    assert_eq!(every(1_000, MissedRuns::Skip, 5_300).first(), Some(Timestamp(5_300)));
}

#[test]
fn a_pattern_after_years_of_silence_is_not_counted_through() {
    let plan = cron("* * * * * *", "2020-01-01T00:00:00.000Z");
    let now = Time::parse("2030-01-01T00:00:00.500Z").unwrap().0;
    let due = plan.take(plan.first().unwrap(), now, false);
    assert_eq!(due, Due { run: Some(Timestamp(now.0 - 500)), next: Some(Timestamp(now.0 + 500)) });
}

fn policies() -> impl Strategy<Value = MissedRuns> {
    prop::sample::select(MissedRuns::ALL)
}

proptest! {
    /// The next time is after, is on the grid, and there is none between.
    #[test]
    fn intervals_do_not_drift(ms in 1_u64..100_000, created in 0_u64..1 << 41, later in 0_u64..1 << 36) {
        let plan = every(ms, MissedRuns::Skip, created);
        let next = plan.after(Timestamp(created + later)).unwrap().0;
        prop_assert!(next > created + later && next - (created + later) <= ms);
        prop_assert_eq!((next - created) % ms, 0);
    }

    /// Whatever the policy: a run stands for a time that has come, and the next look is later than this one's time.
    #[test]
    fn taking_a_time_goes_forward(
        ms in 1_000_u64..100_000, created in 0_u64..1 << 41, late in 0_u64..10_000_000,
        policy in policies(), busy: bool,
    ) {
        let plan = every(ms, policy, created);
        let (due, now) = (Timestamp(created), Timestamp(created + late));
        let taken = plan.take(due, now, busy);
        prop_assert!(taken.next > Some(due));
        prop_assert!(taken.run.is_none_or(|run| run >= due && run <= now));
        if policy != MissedRuns::RunAll {
            prop_assert!(taken.next > Some(now));
        }
        if policy == MissedRuns::RunOnce {
            prop_assert!(taken.run.is_some_and(|run| now.0 - run.0 < ms));
        }
        if policy == MissedRuns::Skip && busy {
            prop_assert_eq!(taken.run, None);
        }
    }

    /// When all count, as many runs are made as there were times; when one stands for all, one.
    #[test]
    fn missed_times_are_counted_once(ms in 1_000_u64..100_000, passed in 0_u64..50, rest in 0_u64..1_000) {
        let now = Timestamp(7_000_000 + passed * ms + rest);
        for (policy, expected) in [(MissedRuns::RunAll, passed + 1), (MissedRuns::RunOnce, 1)] {
            let plan = every(ms, policy, 7_000_000);
            let (mut runs, mut due) = (Vec::new(), plan.first().unwrap());
            while due <= now {
                let taken = plan.take(due, now, true);
                runs.extend(taken.run);
                due = taken.next.unwrap();
            }
            prop_assert_eq!(runs.len() as u64, expected);
            prop_assert!(runs.windows(2).all(|two| two[0] < two[1]));
        }
    }

    /// Patterns: the next time is after, and asking again from just before it gives the same.
    #[test]
    fn patterns_find_the_same_time_from_anywhere_before_it(
        minute in 0_u32..60, hour in 0_u32..24, at in 1_600_000_000_000_u64..1_900_000_000_000,
        zone in prop::sample::select(&["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"][..]),
    ) {
        let time_zone = Some(zone.to_owned());
        let schedule =
            Schedule { cron: Some(format!("{minute} {hour} * * *")), time_zone, ..Schedule::default() };
        let plan = Plan::new(&schedule, Timestamp(at)).unwrap();
        let next = plan.after(Timestamp(at)).unwrap();
        prop_assert!(next.0 > at && next.0 - at <= 25 * 3_600_000);
        prop_assert_eq!(plan.after(Timestamp(next.0 - 1)), Some(next));
        prop_assert!(plan.after(next).unwrap() > next);
    }
}
