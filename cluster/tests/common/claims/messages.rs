//! Messages between entities.

use std::time::Duration;

use futures::future::join_all;

use crate::common::{
    World, eventually,
    probe::{Command, Fact, add, probe},
    world::{ask, look, tell},
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
