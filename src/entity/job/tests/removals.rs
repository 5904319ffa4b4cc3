//! Items of jobs that ended long ago, and what runs leave behind.

use super::world::{KEPT_MS, World};
use crate::{
    control::args::Schedule,
    entity::job::Spec,
    fact::{RetryPolicy, status::JobStatus},
};

#[tokio::test(flavor = "multi_thread")]
async fn p9_items_of_a_job_that_ended_long_ago_are_removed_and_the_job_stays() {
    let mut world = World::new().await;
    let mut scripts = vec!["[]"; 599];
    scripts.push(r#"[{"fail":{"retryable":false}}]"#);
    world.create(&scripts, Spec { concurrency: Some(64), ..Spec::default() }).await.unwrap();
    let ended = world.over().await.view;
    let facts = world.check().await.len();
    world.clock.forward_ms(KEPT_MS - 60_000);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(world.recorded().await, (600, 600), "not before their time");
    assert!(world.has_attempt(599, 1).await);
    world.clock.forward_ms(120_000);
    // Also when the node dies meanwhile.
    world.until("it has begun", |state| state.work.as_ref().unwrap().removed.is_some()).await;
    world.restart().await;
    let all = |state: &crate::entity::job::State| state.work.as_ref().unwrap().removed == Some(600);
    let state = world.until("all are removed", all).await;
    assert_eq!(world.recorded().await, (0, 0));
    for index in [0, 250, 599] {
        world.eventually("its attempt is forgotten", async || !world.has_attempt(index, 1).await).await;
    }
    assert_eq!(state.view, ended, "P5: it is as it was, with its counts");
    assert_eq!((state.view.counts.completed, state.view.counts.failed), (599, 1));
    assert_eq!(world.facts().await.len(), facts, "P11: no fact follows the end");
    let refused = world.retry(599).await.unwrap_err();
    assert_eq!(refused.to_json()["error"]["details"]["status"], "expired");
    assert_eq!(
        world.create_of(600, Spec::default(), 1).await.unwrap().status,
        JobStatus::Failed,
        "it exists"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_opened_again_keeps_its_items_for_the_whole_time_after_its_last_end() {
    let world = World::new().await;
    world.create(&[r#"[{"fail":{"times":1}}]"#, "[]"], patient(1)).await.unwrap();
    assert_eq!(world.over().await.view.status, JobStatus::Failed);
    world.clock.forward_ms(KEPT_MS / 2);
    world.retry(0).await.unwrap();
    assert_eq!(world.over().await.view.status, JobStatus::Completed);
    world.clock.forward_ms(KEPT_MS - 60_000);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(world.recorded().await, (2, 2));
    assert!(!world.has_attempt(0, 1).await && world.has_attempt(0, 2).await, "the last attempt is kept");
    world.clock.forward_ms(120_000);
    world.eventually("they are removed", async || world.recorded().await == (0, 0)).await;
}

fn patient(attempts: u32) -> Spec {
    let retry_policy = Some(RetryPolicy { max_attempts: attempts, backoff_ms: 10, max_backoff_ms: 20 });
    Spec { retry_policy, ..Spec::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_a_job_that_runs_for_ever_leaves_no_more_behind_than_its_last_run() {
    let world = World::new().await;
    let schedule = Schedule { interval_ms: Some(100), max_runs: Some(4), ..Schedule::default() };
    let spec = Spec { schedule: Some(schedule), ..patient(2) };
    world.create(&["[]", r#"[{"fail":{"times":1}}]"#], spec).await.unwrap();
    world.over().await;
    let last = world.item(1).await.unwrap().attempts_total;
    assert!(last >= 5, "{last}");
    for (index, last) in [(0, 4), (1, last)] {
        for former in 1..last {
            let gone = async || !world.has_attempt(index, former).await;
            world.eventually("a former attempt is forgotten", gone).await;
        }
        assert!(world.has_attempt(index, last).await);
    }
    world.check().await;
}
