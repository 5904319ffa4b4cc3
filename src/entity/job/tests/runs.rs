//! Items run, fail and are tried again.

use cadre_cluster::keys;

use super::world::{TENANT, World, count};
use crate::{
    entity::{job::Spec, records},
    fact::{
        RetryPolicy,
        payload::Payload,
        status::{ItemStatus, JobStatus},
    },
};

fn patient(attempts: u32) -> Option<RetryPolicy> {
    Some(RetryPolicy { max_attempts: attempts, backoff_ms: 10, max_backoff_ms: 20 })
}

#[tokio::test(flavor = "multi_thread")]
async fn all_items_complete_and_no_more_run_at_once_than_allowed() {
    let world = World::new().await;
    let scripts = vec![r#"[{"say":"hello"},{"sleep":5}]"#; 150];
    world.create(&scripts, Spec { concurrency: Some(7), ..Spec::default() }).await.unwrap();
    let state = world.over().await;
    assert_eq!((state.view.status, state.view.counts.completed), (JobStatus::Completed, 150));
    let facts = world.check().await;
    let counted = ["job.created", "job.started", "job.item.started", "job.item.completed", "job.completed"];
    assert_eq!(counted.map(|class| count(&facts, class)), [1, 1, 150, 150, 1]);
    assert_eq!(count(&facts, "turn.completed"), 150);
    let progress = count(&facts, "job.progress");
    assert!((50..=101).contains(&progress), "about one for each hundredth, not {progress}");
    let turn = facts.iter().find(|fact| fact.event_type().as_str() == "turn.started").unwrap();
    assert!(turn.ids.item().is_some() && turn.ids.run().is_some() && turn.ids.job() == Some(&world.job));
    assert_eq!((world.counted("completed").await, world.counted("running").await), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_item_is_tried_again_by_policy_and_keeps_its_history() {
    let world = World::new().await;
    let flaky = r#"[{"fail":{"message":"not yet","times":2}},{"say":"now"}]"#;
    let scripts = [flaky, "[]", r#"[{"fail":{"message":"never"}}]"#, r#"[{"fail":{"retryable":false}}]"#];
    world.create(&scripts, Spec { retry_policy: patient(3), ..Spec::default() }).await.unwrap();
    let state = world.over().await;
    assert_eq!(state.view.status, JobStatus::Failed);
    assert_eq!((state.view.counts.completed, state.view.counts.failed), (2, 2));
    let mut items = Vec::new();
    for index in 0..4 {
        let item = world.item(index).await.unwrap();
        items.push((item.status, item.attempts_total, item.last_error.map(|error| error.message)));
    }
    let expected = [
        (ItemStatus::Completed, 3, None),
        (ItemStatus::Completed, 1, None),
        (ItemStatus::Failed, 3, Some("never".to_owned())),
        (ItemStatus::Failed, 1, Some("the script says so".to_owned())),
    ];
    assert_eq!(items, expected);
    let facts = world.check().await;
    let retried = facts.iter().filter(|fact| {
        matches!(&fact.payload, Payload::JobItemFailed(failed)
            if failed.will_retry && failed.next_attempt_at.is_some())
    });
    assert_eq!(retried.count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn items_that_wait_to_be_tried_again_do_not_keep_new_ones_from_their_turn_for_ever() {
    let world = World::new().await;
    let scripts = vec![r#"[{"fail":{"times":1}},{"say":"x"}]"#; 40];
    let spec = Spec { retry_policy: patient(2), concurrency: Some(3), ..Spec::default() };
    world.create(&scripts, spec).await.unwrap();
    assert_eq!(world.over().await.view.status, JobStatus::Completed);
    assert_eq!(count(&world.check().await, "job.item.started"), 80);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_the_failed_item_completes_the_job() {
    let world = World::new().await;
    let scripts = ["[]", r#"[{"fail":{"times":1,"retryable":true}}]"#, "[]"];
    let spec = Spec { retry_policy: patient(1), ..Spec::default() };
    world.create(&scripts, spec).await.unwrap();
    assert_eq!(world.over().await.view.status, JobStatus::Failed);
    let refused = world.retry(0).await.unwrap_err();
    assert_eq!(refused.to_json()["error"]["details"]["status"], "completed");
    assert_eq!(world.retry(1).await.unwrap().status, JobStatus::Running);
    let state = world.over().await;
    assert_eq!((state.view.status, state.view.counts.completed), (JobStatus::Completed, 3));
    let facts = world.check().await;
    assert_eq!((count(&facts, "job.failed"), count(&facts, "job.completed")), (1, 1));
    assert_eq!((count(&facts, "job.item.started"), count(&facts, "job.started")), (4, 2));
    assert_eq!(world.item(1).await.unwrap().attempts_total, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_that_runs_or_waits_is_not_retried() {
    let world = World::new().await;
    let scripts = [r#"[{"sleep":60000}]"#, "[]"];
    world.create(&scripts, Spec { concurrency: Some(1), ..Spec::default() }).await.unwrap();
    world.until("it runs", |state| state.view.counts.running == 1).await;
    let status = |refused: crate::control::Error| refused.to_json()["error"]["details"]["status"].clone();
    assert_eq!(status(world.retry(0).await.unwrap_err()), "running");
    assert_eq!(status(world.retry(1).await.unwrap_err()), "pending");
    assert!(world.retry(2).await.is_err());
    world.cancel().await;
    world.over().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p7_an_item_without_a_record_fails_and_the_others_go_on() {
    let world = World::new().await;
    world.write(&["[]", "[]", "[]"]).await;
    let mut tx = world.store.begin();
    tx.clear(keys::data(TENANT, &records::item(&world.job, 1)));
    tx.commit().await.unwrap();
    world.create_of(4, Spec::default(), 1).await.unwrap();
    let state = world.over().await;
    assert_eq!((state.view.counts.completed, state.view.counts.failed), (2, 2));
    for index in [1, 3] {
        let item = world.item(index).await.unwrap();
        assert_eq!((item.status, item.attempts_total), (ItemStatus::Failed, 0));
        assert_eq!(item.last_error.unwrap().code, "not_found");
    }
    world.check().await;
    world.write(&["[]", "[]"]).await;
    world.retry(1).await.unwrap();
    assert_eq!(world.over().await.view.counts.completed, 3, "and can be retried once it is there");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_an_item_waits_for_the_decision_that_it_asked_for() {
    let world = World::new().await;
    let script = r#"[{"approve":{"prompt":"really?"}},{"say":"yes"}]"#;
    world.create(&[script, script], Spec::default()).await.unwrap();
    let asked = loop {
        let facts = world.facts().await;
        let asked: Vec<_> =
            facts.into_iter().filter(|fact| fact.event_type().as_str() == "action.required").collect();
        if asked.len() == 2 {
            break asked;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    for (fact, decision) in asked.iter().zip(["allow", "deny"]) {
        let (run, action) = (fact.ids.run().unwrap(), fact.ids.action().unwrap());
        assert!(world.respond(run, action, "perhaps").await.is_err());
        world.respond(run, action, decision).await.unwrap();
    }
    let state = world.over().await;
    assert_eq!(state.view.status, JobStatus::Failed);
    assert_eq!((state.view.counts.completed, state.view.counts.cancelled), (1, 1));
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_job_again_is_the_same_answer_and_another_is_a_conflict() {
    let world = World::new().await;
    world.create(&["[]"], Spec::default()).await.unwrap();
    world.over().await;
    assert_eq!(world.create_of(1, Spec::default(), 1).await.unwrap().status, JobStatus::Completed);
    let refused = world.create_of(1, Spec::default(), 2).await.unwrap_err();
    assert_eq!(refused.code.as_str(), "conflict");
    assert_eq!(count(&world.check().await, "job.created"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_what_a_failed_attempt_has_started_is_closed_before_the_next_begins() {
    let world = World::new().await;
    let script = r#"[{"spawn":{"count":2,"script":[{"sleep":60000}],"join":"none"}},{"fail":{"times":1}}]"#;
    world.create(&[script], Spec { retry_policy: patient(2), ..Spec::default() }).await.unwrap();
    world.until("the second attempt has ended", |state| state.view.counts.completed == 1).await;
    let facts = world.facts().await;
    let second = facts.iter().rposition(|fact| fact.event_type().as_str() == "job.item.started").unwrap();
    assert_eq!(count(&facts[..second], "subagent.closed"), 2);
    world.cancel().await;
    assert_eq!(world.over().await.view.status, JobStatus::Cancelled);
    let facts = world.check().await;
    assert_eq!((count(&facts, "subagent.spawned"), count(&facts, "subagent.closed")), (4, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_may_start_subagents_and_the_job_waits_for_them() {
    let world = World::new().await;
    let script = r#"[{"spawn":{"count":2,"script":[{"sleep":30}],"join":"none"}}]"#;
    world.create(&[script, script], Spec { concurrency: Some(1), ..Spec::default() }).await.unwrap();
    assert_eq!(world.over().await.view.status, JobStatus::Completed);
    let facts = world.check().await;
    assert_eq!(count(&facts, "subagent.completed"), 4);
}
