//! Jobs that are ended before their time.

use std::time::Duration;

use super::world::{World, count};
use crate::{
    entity::job::{Command, Spec},
    fact::{
        RetryPolicy,
        payload::Payload,
        status::{ItemStatus, JobStatus},
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn p11_a_cancel_in_the_middle_closes_everything_and_nothing_follows() {
    let world = World::new().await;
    let spawns = r#"[{"spawn":{"count":3,"script":[{"sleep":60000}],"join":"all"}}]"#;
    let mut scripts = vec!["[]"; 5];
    scripts.extend([spawns; 40]);
    world.create(&scripts, Spec { concurrency: Some(6), ..Spec::default() }).await.unwrap();
    let six_spawn = |state: &crate::entity::job::State| {
        (state.view.counts.completed, state.view.counts.running) == (5, 6)
    };
    world.until("six of those that spawn run", six_spawn).await;
    assert_eq!(world.cancel().await.status, JobStatus::Cancelling);
    assert!(world.retry(0).await.is_err(), "nothing begins while it is being cancelled");
    let state = world.over().await;
    let counts = state.view.counts;
    assert_eq!(state.view.status, JobStatus::Cancelled);
    assert_eq!((counts.completed, counts.cancelled, counts.pending), (5, 40, 0));
    let facts = world.check().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.facts().await.len(), facts.len(), "nothing follows");
    assert_eq!(count(&facts, "job.item.failed"), 6, "only items that ran are told of");
    assert_eq!(count(&facts, "subagent.spawned"), count(&facts, "subagent.closed"));
    assert!(matches!(facts.last().unwrap().payload, Payload::JobCancelled(_)), "after everything below");
    assert_eq!(world.cancel().await.status, JobStatus::Cancelled, "it sticks");
    assert_eq!(world.facts().await.len(), facts.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_items_that_wait_to_be_tried_again_end_with_the_job() {
    let world = World::new().await;
    let policy = RetryPolicy { max_attempts: 5, backoff_ms: 600_000, max_backoff_ms: 600_000 };
    let spec = Spec { retry_policy: Some(policy), concurrency: Some(2), ..Spec::default() };
    world.create(&[r#"[{"fail":{}}]"#; 4], spec).await.unwrap();
    let both = |state: &crate::entity::job::State| {
        state.work.as_ref().is_some_and(|work| work.slots.len() == 2 && work.slots.running() == 0)
    };
    world.until("both wait", both).await;
    world.cancel().await;
    let state = world.over().await;
    assert_eq!((state.view.status, state.view.counts.cancelled), (JobStatus::Cancelled, 4));
    assert_eq!(world.item(0).await.unwrap().status, ItemStatus::Cancelled);
    assert_eq!(world.item(2).await, None, "it never began");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_was_cancelled_can_be_retried_also_when_it_never_began() {
    let world = World::new().await;
    let scripts = [r#"[{"sleep":60000}]"#, "[]", "[]"];
    world.create(&scripts, Spec { concurrency: Some(1), ..Spec::default() }).await.unwrap();
    world.until("one runs", |state| state.view.counts.running == 1).await;
    world.cancel().await;
    world.over().await;
    assert_eq!(world.retry(2).await.unwrap().status, JobStatus::Running);
    let state = world.over().await;
    assert_eq!(state.view.status, JobStatus::Failed, "the others did not complete");
    assert_eq!((state.view.counts.completed, state.view.counts.cancelled), (1, 2));
    assert_eq!(count(&world.check().await, "job.item.started"), 2, "and nothing else began");
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_a_job_that_takes_too_long_is_closed_and_timed_out() {
    let world = World::new().await;
    let scripts = ["[]", r#"[{"sleep":60000}]"#, r#"[{"sleep":60000}]"#, "[]"];
    let spec = Spec { concurrency: Some(2), max_runtime_ms: Some(200), ..Spec::default() };
    world.create(&scripts, spec).await.unwrap();
    let state = world.over().await;
    assert_eq!(state.view.status, JobStatus::TimedOut);
    assert_eq!((state.view.counts.completed, state.view.counts.cancelled), (1, 3));
    let facts = world.check().await;
    assert_eq!((count(&facts, "job.failed"), count(&facts, "job.cancelled")), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_cancels_that_race_with_the_start_with_the_end_and_with_each_other_end_it_once() {
    for pause in [0, 1, 3, 10, 30, 60] {
        let mut world = World::new().await;
        let scripts = vec![r#"[{"say":"x"},{"sleep":5}]"#; 40];
        world.write(&scripts).await;
        world.prepare(40, 1).await.unwrap();
        let create = world.create_prepared(40, Spec { concurrency: Some(10), ..Spec::default() }, 1);
        let cancel = async |after: u64| {
            tokio::time::sleep(Duration::from_millis(after)).await;
            let command = Command::Cancel { reason: None, by: "test".into() };
            // Before it is there, there is nothing to be cancelled.
            drop(world.call(command).await);
        };
        let (created, ..) = tokio::join!(create, cancel(pause), cancel(pause), cancel(pause + 1));
        created.unwrap();
        if pause % 2 == 1 {
            world.restart().await;
        }
        let status = world.over().await.view.status;
        assert!(matches!(status, JobStatus::Cancelled | JobStatus::Completed), "{status}");
        let counts = world.state().await.0.view.counts;
        assert_eq!(counts.completed + counts.cancelled, 40);
        assert_eq!((counts.pending, counts.running, counts.failed), (0, 0, 0));
        let facts = world.check().await;
        let ends = ["job.cancelled", "job.completed", "job.failed"].map(|class| count(&facts, class));
        assert_eq!(ends.iter().sum::<usize>(), 1, "{ends:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(world.facts().await.len(), facts.len(), "nothing follows");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_the_pause_before_an_attempt_grows_up_to_its_bound() {
    let world = World::new().await;
    let policy = RetryPolicy { max_attempts: 5, backoff_ms: 40, max_backoff_ms: 100 };
    let spec = Spec { retry_policy: Some(policy), ..Spec::default() };
    world.create(&[r#"[{"fail":{}}]"#], spec).await.unwrap();
    world.over().await;
    let facts = world.check().await;
    let pauses: Vec<u64> = facts
        .iter()
        .filter_map(|fact| match &fact.payload {
            Payload::JobItemFailed(failed) => Some(failed.next_attempt_at?.0.0 - fact.at.0),
            _ => None,
        })
        .collect();
    assert_eq!(pauses.len(), 4);
    assert!(pauses.windows(2).all(|two| two[0] <= two[1]), "{pauses:?}");
    assert_eq!((pauses[0], pauses[3]), (40, 100), "{pauses:?}");
    let starts = facts.iter().filter(|fact| matches!(fact.payload, Payload::JobItemStarted(_)));
    let starts: Vec<u64> = starts.map(|fact| fact.at.0).collect();
    for (start, pause) in starts.windows(2).zip(&pauses) {
        assert!(start[1] - start[0] >= *pause, "an attempt came before its time: {starts:?} {pauses:?}");
    }
}
