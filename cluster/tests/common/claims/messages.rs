//! Messages between entities.

use std::time::Duration;

use cadre_cluster::{address::Address, codec, keys};
use futures::future::join_all;

use crate::common::{
    World, eventually,
    probe::{Command, Fact, Message, TENANT, add, probe},
    world::{SHARDS, ask, look, tell},
};

pub async fn p6_messages_are_applied_once_across_a_change_of_owner(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    world.settled(&[&a, &b]).await;
    let client = b.client();
    for n in 0..8 {
        tell(&client, probe(&format!("from-{n}")), add("start", 1_000)).await;
    }
    let giving = (0..8).map(|n| {
        let client = client.clone();
        tokio::spawn(async move {
            for m in 0..50 {
                let (from, to) = (probe(&format!("from-{n}")), probe(&format!("to-{}", m % 8)));
                let (op, key) = (format!("{n}-{m}"), format!("k{m}"));
                ask(&client, from, Command::Give { op, to, amount: 1 }, Some(&key)).await.unwrap();
            }
        })
    });
    let giving: Vec<_> = giving.collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(a);
    for task in giving {
        task.await.unwrap();
    }
    eventually("everything arrives", async || {
        let stored = join_all((0..8).map(|n| {
            let world = &world;
            async move { world.stored(&probe(&format!("to-{n}"))).await }
        }));
        stored.await.iter().map(|probe| probe.received).sum::<u64>() >= 400
    })
    .await;
    let ledger = world.ledger().await;
    let mut received: Vec<_> = ledger
        .iter()
        .filter_map(|entry| match &entry.fact {
            Fact::Received { op, .. } => Some(op.clone()),
            _ => None,
        })
        .collect();
    received.sort();
    received.dedup();
    assert_eq!(received.len(), 400, "each once");
    let total: i64 = world.probes().await.iter().map(|(_, _, probe)| probe.total).sum();
    assert_eq!(total, 8_000);
}

pub async fn ten_thousand_messages_to_one_entity_take_few_steps(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    let (joiner, before) = (probe("joiner"), world.faults.commits());
    let pings = (0..20).map(|n| {
        let (client, to) = (&client, joiner.clone());
        async move { tell(client, probe(&format!("p{n}")), Command::Ping { to, times: 500 }).await }
    });
    join_all(pings).await;
    eventually("all are joined", async || world.stored(&joiner).await.received == 10_000).await;
    let commits = world.faults.commits() - before;
    assert!(commits < 400, "10,000 messages took {commits} commits");
    assert_eq!(look(&client, joiner).await.received, 10_000);
}

pub async fn p7_messages_arrive_however_many_commands_wait(world: World) {
    let mut config = world.config("a");
    config.step_inputs_max = 2;
    let node = world.try_node(config).await.unwrap();
    let client = node.client();
    let callers: Vec<_> = (0..16)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                loop {
                    tell(&client, probe("one"), add(&n.to_string(), 1)).await;
                }
            })
        })
        .collect();
    eventually("the queue is long", async || node.inputs_waiting() > 8).await;
    tell(&client, probe("two"), Command::Ping { to: probe("one"), times: 10 }).await;
    eventually("messages arrive all the same", async || world.stored(&probe("one")).await.received == 10)
        .await;
    for caller in callers {
        caller.abort();
    }
}

/// Puts a message into an inbox that no doorbell tells of.
async fn slip_in(world: &World, to: &Address, message: &Message) {
    let (key, offset) = keys::inbox_message(to.shard(SHARDS), to).at(0);
    let record = codec::pack(&(probe("nobody"), codec::encode(message)));
    let mut tx = world.sound.begin();
    tx.set_stamped_key(key, offset, [&[1][..], &record].concat());
    tx.commit().await.unwrap();
}

pub async fn p9_messages_that_nobody_can_take_keep_no_others_from_arriving_and_end_as_dead_letters(
    world: World,
) {
    let mut config = world.config("a");
    config.unhosted_after = Duration::from_secs(3);
    let node = world.try_node(config).await.unwrap();
    world.settled(&[&node]).await;
    // More in one shard than one look takes, all of them before any probe.
    let ghosts = (0..).map(|n| Address::new(TENANT, "ghost", &n.to_string()).unwrap());
    let one = probe("one");
    let ghosts: Vec<_> = ghosts.filter(|ghost| ghost.shard(SHARDS) == one.shard(SHARDS)).take(600).collect();
    for ghost in &ghosts {
        slip_in(&world, ghost, &Message::Ping).await;
    }
    slip_in(&world, &one, &Message::Ping).await;
    eventually("it arrives", async || world.stored(&one).await.received == 1).await;
    eventually("the others are put aside", async || world.dead_letters().await.len() == 600).await;
    eventually("nothing is left", async || world.all(keys::inboxes(one.shard(SHARDS))).await.is_empty())
        .await;
    let letters = world.dead_letters().await;
    assert_eq!(letters.len(), 600);
    assert_eq!(letters[0].reason, "no node hosts entities of kind ghost");
}
