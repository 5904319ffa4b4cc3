//! Jobs that are being got ready, and those that never come to be.

use super::world::World;
use crate::{
    control::Code,
    entity::job::{ABANDONED_AFTER_MS, Command, Spec},
    fact::status::JobStatus,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_begins_only_when_its_items_were_said_to_come() {
    let world = World::new().await;
    let refused = world.create_prepared(1, Spec::default(), 1).await.unwrap_err();
    assert_eq!(refused.code, Code::Unavailable);
    assert!(refused.retryable, "getting it ready again helps");
    assert_eq!(world.state().await.1, 0, "nothing is stored of it");
    for items in [0, 100_001] {
        let refused = world.prepare(items, 1).await.unwrap_err();
        assert_eq!((refused.code, refused.field()), (Code::InvalidArgument, Some("items")), "{items}");
    }
    assert_eq!(world.state().await.1, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_the_same_request_goes_on_where_it_was_and_another_is_a_conflict() {
    let mut world = World::new().await;
    let first = world.prepare(3, 1).await.unwrap();
    assert!(first.prepared.is_some());
    world.restart().await;
    assert_eq!(world.prepare(3, 1).await.unwrap(), first, "also after a crash");
    let refused = world.prepare(3, 2).await.unwrap_err();
    assert_eq!(refused.to_json()["error"]["details"]["status"], "preparing");
    assert_eq!(world.create_prepared(3, Spec::default(), 2).await.unwrap_err().code, Code::Conflict);
    world.write(&["[]"; 3]).await;
    world.create_prepared(3, Spec::default(), 1).await.unwrap();
    assert_eq!(world.over().await.view.status, JobStatus::Completed);
    assert_eq!(world.prepare(3, 1).await.unwrap().prepared, None, "it is there");
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_what_was_written_of_a_job_that_nobody_came_back_to_is_removed() {
    let mut world = World::new().await;
    world.prepare(1_000, 1).await.unwrap();
    // Its writer died after a part of them.
    world.write(&["[]"; 600]).await;
    world.crash();
    world.clock.forward_ms(ABANDONED_AFTER_MS / 2);
    world.restart().await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(world.recorded().await, (600, 0), "not before its time");
    world.clock.forward_ms(ABANDONED_AFTER_MS);
    world.eventually("it is gone", async || world.recorded().await == (0, 0)).await;
    world.eventually("all of it", async || world.state().await.1 == 0).await;
    assert_eq!(world.facts().await.len(), 0, "it never was");
    world.create_of(1, Spec::default(), 2).await.expect("its place is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn p9_what_was_written_of_a_job_that_is_refused_goes_at_once() {
    let world = World::new().await;
    world.prepare(600, 1).await.unwrap();
    world.write(&["[]"; 600]).await;
    assert!(world.call(Command::Abandon { fingerprint: 2 }).await.is_err(), "somebody else's");
    assert_eq!(world.recorded().await, (600, 0));
    world.call(Command::Abandon { fingerprint: 1 }).await.unwrap();
    world.eventually("it is gone", async || world.recorded().await == (0, 0)).await;
    world.eventually("all of it", async || world.state().await.1 == 0).await;
    world.create(&["[]"], Spec::default()).await.unwrap();
    let refused = world.call(Command::Abandon { fingerprint: 1 }).await.unwrap_err();
    assert_eq!(refused.code, Code::Conflict, "a job that is there is not abandoned");
    assert_eq!(world.over().await.view.status, JobStatus::Completed);
}
