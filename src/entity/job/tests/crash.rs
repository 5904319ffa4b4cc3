//! Nodes that die in the middle.

use std::{collections::BTreeMap, time::Duration};

use super::world::World;
use crate::{
    entity::job::Spec,
    fact::{id::ItemId, payload::Payload, status::JobStatus},
};

#[tokio::test(flavor = "multi_thread")]
async fn p2_a_crash_in_the_middle_neither_repeats_a_finished_item_nor_loses_one() {
    let mut world = World::new().await;
    let scripts = vec![r#"[{"say":"hello"},{"sleep":20},{"tool":"echo","args":{}}]"#; 300];
    world.create(&scripts, Spec { concurrency: Some(16), ..Spec::default() }).await.unwrap();
    for part in 1..=4 {
        world.until("some are done", |state| state.view.counts.completed >= part * 50).await;
        world.restart().await;
    }
    assert_eq!(world.over().await.view.status, JobStatus::Completed);
    let mut items: BTreeMap<ItemId, (u32, u32, u32)> = BTreeMap::new();
    for fact in world.check().await {
        let Some(item) = fact.ids.item().cloned() else { continue };
        let (started, turns, completed) = items.entry(item).or_default();
        match fact.payload {
            Payload::JobItemStarted(_) => *started += 1,
            Payload::TurnStarted(_) => *turns += 1,
            Payload::JobItemCompleted(_) => *completed += 1,
            _ => {}
        }
    }
    assert_eq!(items.len(), 300);
    let other = items.iter().find(|(_, counts)| **counts != (1, 1, 1));
    assert_eq!(other, None, "each is started once, runs once and completes once");
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_a_cancel_that_a_crash_interrupts_is_carried_out() {
    let mut world = World::new().await;
    world.create(&[r#"[{"sleep":60000}]"#; 30], Spec::default()).await.unwrap();
    world.until("some run", |state| state.view.counts.running == 8).await;
    world.cancel().await;
    world.restart().await;
    let state = world.over().await;
    assert_eq!((state.view.status, state.view.counts.cancelled), (JobStatus::Cancelled, 30));
    world.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p7_a_job_goes_on_though_nobody_hosts_it_for_a_while() {
    let mut world = World::new().await;
    world.create(&[r#"[{"sleep":10}]"#; 20], Spec { concurrency: Some(2), ..Spec::default() }).await.unwrap();
    world.crash();
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.restart().await;
    assert_eq!(world.over().await.view.status, JobStatus::Completed);
    world.check().await;
}
