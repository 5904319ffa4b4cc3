//! Jobs that run again and again.

use cadre_cluster::clock::Clock as _;

use super::world::{World, count};
use crate::{
    control::{
        Code,
        args::{MissedRuns, Schedule},
    },
    entity::job::{Spec, schedule::MADE_UP_MAX},
    fact::{payload::Payload, status::JobStatus},
};

fn every(ms: u64, schedule: Schedule) -> Spec {
    Spec { schedule: Some(Schedule { interval_ms: Some(ms), ..schedule }), ..Spec::default() }
}

fn runs(facts: &[crate::fact::Fact]) -> Vec<u64> {
    let times = facts.iter().filter_map(|fact| match &fact.payload {
        Payload::JobStarted(started) => started.scheduled_at.map(|time| time.0.0),
        _ => None,
    });
    times.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_runs_all_items_at_each_time_and_ends_after_its_last_run() {
    let world = World::new().await;
    let spec = every(300, Schedule { max_runs: Some(3), ..Schedule::default() });
    assert_eq!(world.create(&["[]"; 4], spec).await.unwrap().status, JobStatus::Scheduled);
    assert_eq!(world.over().await.view.status, JobStatus::Completed);
    let facts = world.check().await;
    let times = runs(&facts);
    assert_eq!((times[1] - times[0], times[2] - times[0]), (300, 600), "without a drift");
    assert_eq!((count(&facts, "job.item.completed"), count(&facts, "job.completed")), (12, 1));
    assert_eq!(world.item(0).await.unwrap().attempt, 3, "attempts are numbered through all runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_that_passes_during_a_run_is_missed_and_skipped() {
    let world = World::new().await;
    let spec = every(200, Schedule { max_runs: Some(2), ..Schedule::default() });
    world.create(&[r#"[{"sleep":300}]"#], spec).await.unwrap();
    world.over().await;
    let times = runs(&world.check().await);
    assert_eq!(times[1] - times[0], 400, "the time at 200 is left out");
}

#[tokio::test(flavor = "multi_thread")]
async fn missed_times_are_made_up_for_when_all_of_them_count() {
    let world = World::new().await;
    let all = Schedule { max_runs: Some(4), missed_runs: MissedRuns::RunAll, ..Schedule::default() };
    world.create(&["[]"], every(3_600_000, all)).await.unwrap();
    world.until("the first run is over", |state| state.view.counts.completed == 1).await;
    world.clock.forward_ms(3 * 3_600_000 + 60_000);
    world.over().await;
    let times = runs(&world.check().await);
    let apart: Vec<u64> = times.windows(2).map(|two| two[1] - two[0]).collect();
    assert_eq!(apart, [3_600_000; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_a_cancel_between_runs_ends_the_schedule() {
    let world = World::new().await;
    world.create(&["[]"], every(250, Schedule::default())).await.unwrap();
    let waits = |state: &crate::entity::job::State| {
        state.work.as_ref().is_some_and(|work| work.status == JobStatus::Scheduled && work.runs > 0)
    };
    world.until("a run is over", waits).await;
    world.cancel().await;
    assert_eq!(world.over().await.view.status, JobStatus::Cancelled);
    let facts = world.check().await;
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    assert_eq!(world.facts().await.len(), facts.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_of_a_job_that_has_never_run_is_pending_and_not_tried_again() {
    let world = World::new().await;
    let schedule = Some(Schedule { cron: Some("0 9 29 2 *".into()), ..Schedule::default() });
    world.create(&["[]"], Spec { schedule, ..Spec::default() }).await.unwrap();
    let refused = world.retry(0).await.unwrap_err();
    assert_eq!((refused.code, &refused.details["status"]), (Code::Conflict, &"pending".into()));
    assert_eq!(count(&world.check().await, "job.started"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_that_cannot_be_kept_is_refused_by_name() {
    let world = World::new().await;
    let cron = |pattern: &str| Schedule { cron: Some(pattern.into()), ..Schedule::default() };
    let zone = Schedule { time_zone: Some("Europe/Atlantis".into()), ..cron("0 9 * * *") };
    let cases = [
        (cron("61 * * * *"), "schedule.cron"),
        (cron("0 0 30 2 *"), "schedule.cron"),
        (zone, "schedule.timeZone"),
    ];
    for (schedule, field) in cases {
        let spec = Spec { schedule: Some(schedule), ..Spec::default() };
        let refused = world.create(&["[]"], spec).await.unwrap_err();
        assert_eq!((refused.code.as_str(), refused.field()), ("invalid_argument", Some(field)));
    }
    assert!(world.facts().await.is_empty());
    assert_eq!(world.state().await.0.work, None);
}

/// A job of one item that runs every hour, whose first run is over and whose node then dies for so long.
async fn after_a_sleep(missed_runs: MissedRuns, max_runs: Option<u32>, ms: u64) -> World {
    let mut world = World::new().await;
    let schedule = Schedule { missed_runs, max_runs, ..Schedule::default() };
    world.create(&["[]"], every(3_600_000, schedule)).await.unwrap();
    world.until("the first run is over", |state| state.view.counts.completed == 1).await;
    world.crash();
    world.clock.forward_ms(ms);
    world.restart().await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_one_run_stands_for_all_that_were_missed_while_nobody_hosted_the_job() {
    let world = after_a_sleep(MissedRuns::RunOnce, Some(2), 10 * 3_600_000 + 60_000).await;
    world.over().await;
    let times = runs(&world.check().await);
    assert_eq!(times[1] - times[0], 10 * 3_600_000, "the last of them");
    assert_eq!(times.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_runs_that_were_missed_while_nobody_hosted_the_job_are_skipped() {
    let world = after_a_sleep(MissedRuns::Skip, Some(2), 10 * 3_600_000 + 60_000).await;
    let now = world.clock.now();
    let looked = |state: &crate::entity::job::State| {
        state.work.as_ref().is_some_and(|work| work.scheduled.is_some_and(|next| next > now))
    };
    let state = world.until("it has looked at them", looked).await;
    assert_eq!((state.view.status, state.work.unwrap().runs), (JobStatus::Scheduled, 1));
    world.clock.forward_ms(3_600_000 - 60_000);
    world.over().await;
    let times = runs(&world.check().await);
    assert_eq!(times[1] - times[0], 11 * 3_600_000, "the next one comes at its time");
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_after_a_year_of_sleep_the_latest_hundred_runs_are_made_up_for() {
    let hours = 365 * 24;
    let runs_max = 1 + MADE_UP_MAX as u32;
    let world = after_a_sleep(MissedRuns::RunAll, Some(runs_max), hours * 3_600_000 + 60_000).await;
    assert_eq!(world.over().await.view.status, JobStatus::Completed);
    let times = runs(&world.check().await);
    assert_eq!(times.len(), runs_max as usize);
    assert_eq!(times[times.len() - 1] - times[0], hours * 3_600_000, "up to the last");
    assert!(times[1..].windows(2).all(|two| two[1] - two[0] == 3_600_000), "without a hole");
}

#[tokio::test(flavor = "multi_thread")]
async fn p2_a_crash_during_a_scheduled_run_neither_repeats_nor_leaves_out_a_run() {
    let mut world = World::new().await;
    let schedule = Schedule { max_runs: Some(2), ..Schedule::default() };
    world.create(&[r#"[{"sleep":50}]"#; 12], every(3_600_000, schedule)).await.unwrap();
    world.until("some are done", |state| state.view.counts.completed >= 3).await;
    world.restart().await;
    world.until("the first run is over", |state| state.view.counts.completed == 12).await;
    world.clock.forward_ms(3_600_000);
    world.restart().await;
    assert_eq!(world.over().await.view.status, JobStatus::Completed);
    let facts = world.check().await;
    assert_eq!((count(&facts, "job.item.started"), count(&facts, "job.item.completed")), (24, 24));
    assert_eq!(count(&facts, "job.started"), 2);
}
