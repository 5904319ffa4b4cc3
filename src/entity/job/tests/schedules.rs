//! Jobs that run again and again.

use super::world::{World, count};
use crate::{
    control::args::{MissedRuns, Schedule},
    entity::job::Spec,
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
async fn a_schedule_that_cannot_be_kept_is_refused_by_name() {
    let world = World::new().await;
    let cron = |pattern: &str| Schedule { cron: Some(pattern.into()), ..Schedule::default() };
    let zone = Schedule { time_zone: Some("Europe/Berlin".into()), ..cron("0 9 * * *") };
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
}
