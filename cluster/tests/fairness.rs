//! P8 on one node: a tenant that floods it does not make another wait behind the flood.
//!
//! Counted in steps of the noisy tenant between what the quiet one asks and what it is answered, not in seconds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cadre_cluster::{
    address::Address,
    host::{CallError, Client, Entity, Node},
    sabotage::{self, Sabotage},
};
use common::{
    World, eventually,
    metrics::tally,
    probe::{Probe, add},
    world::{ask, embedded_local},
};
use futures::future::join_all;
use tokio::task::JoinHandle;

const FLOOD: usize = 3_000;
const GROUP_STEPS: usize = 16;

fn of(tenant: &str, id: impl ToString) -> Address {
    Address::new(tenant, Probe::KIND, &id.to_string()).unwrap()
}

/// Runs on one thread: what is broken on purpose is broken on the current thread only. One after the other: gauges are
/// the whole program's.
fn on_one_thread<T>(sabotage: Option<Sabotage>, test: impl Future<Output = T>) -> T {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    tally();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    sabotage::with(sabotage, || runtime.block_on(test))
}

/// One command to each of thousands of entities, all at once, and how many were answered so far.
fn flood(client: &Client, entities: usize) -> (JoinHandle<()>, Arc<AtomicUsize>) {
    let (client, answered) = (client.clone(), Arc::new(AtomicUsize::new(0)));
    let count = answered.clone();
    let flooding = tokio::spawn(async move {
        join_all((0..entities).map(|n| {
            let (client, count) = (client.clone(), count.clone());
            async move {
                ask(&client, of("noisy", n), add("flood", 1), None).await.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
            }
        }))
        .await;
    });
    (flooding, answered)
}

async fn node(world: &World) -> Node {
    let mut config = world.config("a");
    config.group_steps_max = GROUP_STEPS;
    let node = world.try_node(config).await.unwrap();
    // So that every shard is served when it matters.
    for n in 0..32 {
        ask(&node.client(), of("warm", n), add("start", 0), None).await.unwrap();
    }
    node
}

/// How many steps of the flood were done while the quiet tenant waited for three answers, one after the other.
async fn steps_in_between() -> usize {
    let world = embedded_local("fairness").await;
    let node = node(&world).await;
    world.faults.delay_commits(Duration::from_millis(50));
    let (flooding, answered) = flood(&node.client(), FLOOD);
    eventually("the flood waits to be committed", async || {
        tally().gauge("cadre_host_steps_waiting{}") > FLOOD as f64 * 0.9
    })
    .await;
    let before = answered.load(Ordering::SeqCst);
    for amount in 0..3 {
        ask(&node.client(), of("quiet", "one"), add("turn", amount), None).await.unwrap();
    }
    let between = answered.load(Ordering::SeqCst) - before;
    world.faults.delay_commits(Duration::ZERO);
    flooding.await.unwrap();
    assert_eq!(answered.load(Ordering::SeqCst), FLOOD, "the flood is served, too");
    between
}

/// Two groups are on their way when a step comes, one more may be formed before it is there, and as many end before its
/// answer is read; on one thread some of that comes late. A dozen groups for each answer, of the 188 that the flood is.
const BETWEEN_MAX: usize = 3 * 12 * GROUP_STEPS;

#[test]
fn p8_a_turn_of_a_quiet_tenant_does_not_wait_behind_a_flood_of_another() {
    let between = on_one_thread(None, steps_in_between());
    assert!(between <= BETWEEN_MAX, "{between} steps of the flood came first");
}

#[test]
fn p8_a_node_that_does_not_tell_tenants_apart_is_noticed() {
    let between = on_one_thread(Some(Sabotage::TenantsNotToldApart), steps_in_between());
    assert!(between > BETWEEN_MAX, "only {between} steps of the flood came first");
}

/// Whether a tenant finds room while another has taken all that it can get.
async fn finds_room(narrow: impl FnOnce(&mut cadre_cluster::host::HostConfig)) -> bool {
    let world = embedded_local("fairness").await;
    let mut config = world.config("a");
    narrow(&mut config);
    let node = world.try_node(config).await.unwrap();
    eventually("it serves", async || {
        ask(&node.client(), of("quiet", "one"), add("start", 0), None).await.is_ok()
            && node.status().await.is_some_and(|status| status.shards.len() == 8)
    })
    .await;
    world.faults.delay_commits(Duration::from_millis(300));
    let client = node.client();
    let noisy = tokio::spawn(async move {
        join_all((0..200).map(|n| {
            let client = client.clone();
            async move { ask(&client, of("noisy", n), add("flood", 1), None).await }
        }))
        .await
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Entities that are not in memory yet; more than could take the place of one that was idle.
    let client = node.client();
    let quiet = join_all((0..4).map(|n| ask(&client, of("quiet", n), add("turn", 1), None))).await;
    world.faults.delay_commits(Duration::ZERO);
    let noisy = noisy.await.unwrap();
    let busy = noisy.iter().filter(|answer| matches!(answer, Err(CallError::Busy))).count();
    assert!((1..200).contains(&busy), "{busy} of the flood were turned away");
    quiet.into_iter().all(|answer| match answer {
        Ok(_) => true,
        Err(CallError::Busy) => false,
        Err(error) => panic!("{error}"),
    })
}

#[test]
fn p8_inputs_of_one_tenant_leave_room_for_those_of_another() {
    let narrow = |config: &mut cadre_cluster::host::HostConfig| config.inputs_waiting_max = 50;
    assert!(on_one_thread(None, finds_room(narrow)));
    assert!(
        !on_one_thread(Some(Sabotage::TenantsNotToldApart), finds_room(narrow)),
        "and it would be noticed"
    );
}

#[test]
fn p8_entities_of_one_tenant_leave_room_for_those_of_another() {
    let narrow = |config: &mut cadre_cluster::host::HostConfig| config.entities_live_max = 50;
    assert!(on_one_thread(None, finds_room(narrow)));
    assert!(
        !on_one_thread(Some(Sabotage::TenantsNotToldApart), finds_room(narrow)),
        "and it would be noticed"
    );
}
