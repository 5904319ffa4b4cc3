//! Nodes that come, go and quarrel.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cadre_cluster::{
    bus::nats::testing::NatsServer,
    host::{CallError, Client, EffectPolicy, Repeat, StartError},
    placement::{JoinError, Takeover},
};
use tokio::{task::JoinHandle, time::Instant};

use crate::common::{
    PATIENCE, World,
    bank::Customers,
    eventually,
    faulty::{Faults, faulty},
    probe::{Command, Probe, Script, add, hasty, probe},
    world::{LEASE_TTL, ask, look, tell},
};

pub async fn p2_when_a_node_is_killed_the_other_takes_over_and_nothing_acked_is_lost(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    world.settled(&[&a, &b]).await;
    let customers = Customers::start(&b.client(), 6).await;
    customers.worked(100).await;
    let killed = Instant::now();
    drop(a);
    world.settled(&[&b]).await;
    let took = killed.elapsed();
    assert!(took >= LEASE_TTL / 2, "a node that is merely slow is not robbed: {took:?}");
    assert!(took < LEASE_TTL * 8, "{took:?}");
    customers.worked(100).await;
    customers.end(&world).await;
}

pub async fn a_drained_node_hands_over_without_an_error_and_with_a_short_stall(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    world.settled(&[&a, &b]).await;
    let remote = world.client().await;
    let over = Arc::new(AtomicBool::new(false));
    // Without keys: what is asked again must certainly not have been done.
    let callers: Vec<JoinHandle<(i64, Duration)>> = (0..8)
        .map(|n| {
            let (client, over): (Client, _) = (remote.clone(), over.clone());
            tokio::spawn(async move {
                let (mut done, mut slowest) = (0, Duration::ZERO);
                while !over.load(Ordering::SeqCst) {
                    let start = Instant::now();
                    let called = ask(&client, probe(&n.to_string()), add("o", 1), None).await.unwrap();
                    done += 1;
                    assert_eq!(called.reply.0.total, done);
                    slowest = slowest.max(start.elapsed());
                }
                (done, slowest)
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    a.drain().await;
    world.settled(&[&b]).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    over.store(true, Ordering::SeqCst);
    for (n, caller) in callers.into_iter().enumerate() {
        let (done, slowest) = caller.await.unwrap();
        assert_eq!(look(&b.client(), probe(&n.to_string())).await.total, done);
        // Usually a few milliseconds; two seconds would mean that a request was lost on the way.
        assert!(slowest < Duration::from_millis(1_900), "{slowest:?}");
    }
}

pub async fn p1_an_owner_that_was_robbed_unawares_tells_nobody_that_nothing_was_done(world: World) {
    let faults = Faults::default();
    let a = world.try_node_on(faulty(world.sound.clone(), faults.clone()), world.config("a")).await.unwrap();
    world.settled(&[&a]).await;
    // From now on it hears what is asked and cannot answer it; the other takes its shards.
    faults.gone(true);
    let b = world.node("b").await;
    world.settled(&[&b]).await;
    let remote = world.client().await;
    for n in 0..32 {
        let who = probe(&n.to_string());
        // With a key, until the new owner listens.
        ask(&remote, who.clone(), add("start", 0), Some("k")).await.unwrap();
        // Without one: done twice if anybody says that it was not done.
        let called = ask(&remote, who.clone(), add("o", 1), None).await.unwrap();
        assert_eq!(called.reply.0.total, 1);
        assert_eq!(look(&b.client(), who).await.total, 1);
    }
    assert!(!a.status().await.unwrap().shards.is_empty(), "it still believes to own them");
}

pub async fn the_last_node_drains_and_the_next_goes_on_at_once(world: World) {
    let node = world.node("a").await;
    tell(&node.client(), probe("one"), add("1", 5)).await;
    node.drain().await;
    let node = world.node("b").await;
    assert_eq!(look(&node.client(), probe("one")).await.total, 5);
}

pub async fn a_second_node_of_the_same_name_is_turned_away(world: World) {
    let first = world.node("a").await;
    let second = world.try_node(world.config("a")).await;
    match second {
        Err(StartError::Join(error @ JoinError::NameTaken { .. })) => {
            assert!(error.to_string().contains("a node named a is alive"), "{error}");
        }
        other => panic!("{:?}", other.map(|node| node.member().clone())),
    }
    tell(&first.client(), probe("one"), add("1", 1)).await;
}

pub async fn p1_a_takeover_at_once_ends_the_first_which_serves_no_more(world: World) {
    let first = world.node("a").await;
    world.settled(&[&first]).await;
    tell(&first.client(), probe("one"), add("1", 1)).await;
    let mut config = world.config("a");
    config.takeover = Takeover::AtOnce;
    let second = world.try_node(config).await.unwrap();
    // Whoever answers, it is done once.
    let called = ask(&first.client(), probe("one"), add("2", 1), Some("k")).await.unwrap();
    assert_eq!(called.reply.0.total, 2);
    eventually("the first notices", async || {
        let status = first.status().await.unwrap();
        status.superseded && status.shards.is_empty()
    })
    .await;
    world.settled(&[&second]).await;
    assert_eq!(tell(&first.client(), probe("one"), add("3", 1)).await.reply.0.total, 3, "over the bus");
    tokio::time::timeout(PATIENCE, first.drain()).await.expect("one that is over has nothing to drain");
    tell(&second.client(), probe("one"), add("4", 1)).await;
}

pub async fn a_cluster_of_another_shape_or_name_is_not_joined(world: World) {
    let _node = world.node("a").await;
    let mut config = world.config("b");
    config.shards = 16;
    match world.try_node(config).await {
        Err(StartError::Join(error @ JoinError::ShardCount { .. })) => {
            let text = error.to_string();
            assert!(text.contains("has 8 shards, the configuration says 16"), "{text}");
        }
        other => panic!("{:?}", other.map(|node| node.member().clone())),
    }
    let mut config = world.config("b");
    config.cluster = "another".into();
    match world.try_node(config).await {
        Err(StartError::Join(error @ JoinError::ClusterName { .. })) => {
            let text = error.to_string();
            assert!(text.contains("holds the cluster test, the configuration says another"), "{text}");
        }
        other => panic!("{:?}", other.map(|node| node.member().clone())),
    }
}

pub async fn without_any_node_a_caller_learns_that_nothing_was_done(world: World) {
    let client = world.client().await;
    let called = client.call::<Probe>(&probe("one"), &add("1", 1), None, Duration::from_millis(300)).await;
    assert!(matches!(called, Err(CallError::Unavailable { .. })), "{called:?}");
}

pub async fn when_nothing_can_be_sent_a_caller_learns_that_nothing_was_done(world: World) {
    let node = world.node("a").await;
    let client = world.client().await;
    tell(&client, probe("one"), add("1", 1)).await;
    if !world.nats(NatsServer::stop) {
        return; // only a bus of its own can go away
    }
    // What is sent in the moment before the loss is noticed may have been done, and is called so.
    let call = async |op: &str, key| {
        client.call::<Probe>(&probe("one"), &add(op, 1), key, Duration::from_millis(300)).await
    };
    eventually("the loss is noticed", async || match call("2", Some("k")).await {
        Err(CallError::Unavailable { .. }) => true,
        Err(CallError::OutcomeUnknown) => false,
        other => panic!("there is no bus: {other:?}"),
    })
    .await;
    let keyless = call("3", None).await;
    assert!(matches!(keyless, Err(CallError::Unavailable { .. })), "{keyless:?}");
    // Without a key it is sent once the bus is back, for nothing of it was sent before.
    let patient = client.clone();
    let sent = tokio::spawn(async move { tell(&patient, probe("one"), add("4", 10)).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    world.nats(NatsServer::restart);
    sent.await.unwrap();
    let total = look(&node.client(), probe("one")).await.total;
    assert!(total == 11 || total == 12, "{total}: only what was of unknown outcome may have been done");
}

pub async fn p7_a_planned_handover_loses_no_effect(world: World) {
    let a = world.node("a").await;
    world.settled(&[&a]).await;
    let policy = EffectPolicy { deadline_ms: 600_000, attempts_max: 1, ..hasty() };
    let once = EffectPolicy { repeat: Repeat::Never, ..policy };
    // One is being done when the node leaves, the others are about to be, between steps and commits.
    let start =
        |id: &str, ms, policy| Command::Perform { id: id.into(), script: Script::Slow { ms }, policy };
    tell(&a.client(), probe("running"), start("once", 700, once)).await;
    tell(&a.client(), probe("running"), start("safe", 60_000, policy)).await;
    eventually("both have begun", async || world.deeds.of("once") == 1 && world.deeds.of("safe") == 1).await;
    let b = world.node("b").await;
    let mut started = Vec::new();
    let starting = async {
        for n in 0..200 {
            let (who, id) = (probe(&(n % 20).to_string()), format!("e{n}"));
            tell(&b.client(), who.clone(), start(&id, 1, once)).await;
            started.push((who, id));
        }
    };
    tokio::join!(starting, a.drain());
    for (who, id) in started {
        eventually("it ends", async || world.stored(&who).await.ended.contains_key(&id)).await;
        assert_eq!(world.stored(&who).await.ended[&id], "slow at attempt 1");
        assert_eq!(world.deeds.of(&id), 1, "{id} is done once");
    }
    let stored = world.stored(&probe("running")).await;
    assert_eq!(stored.ended.get("once").map(String::as_str), Some("slow at attempt 1"));
    assert_eq!(world.deeds.of("once"), 1);
    eventually("what may be repeated is begun anew", async || world.deeds.of("safe") == 2).await;
}

pub async fn the_last_node_ends_although_an_effect_does_not(world: World) {
    let mut config = world.config("a");
    config.effects_grace = Duration::from_secs(1);
    let node = world.try_node(config).await.unwrap();
    let policy = EffectPolicy { deadline_ms: 600_000, repeat: Repeat::Never, ..hasty() };
    let hangs = Command::Perform { id: "hangs".into(), script: Script::Hang, policy };
    tell(&node.client(), probe("one"), hangs).await;
    eventually("it runs", async || world.deeds.of("hangs") == 1).await;
    let begun = Instant::now();
    node.drain().await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(900) && took < Duration::from_secs(6), "{took:?}");
    let next = world.node("a").await;
    world.settled(&[&next]).await;
    eventually("it is lost", async || {
        world.stored(&probe("one")).await.ended.get("hangs").is_some_and(|how| how == "lost")
    })
    .await;
}

pub async fn what_no_node_can_be_called_and_no_cluster_can_be_is_refused(world: World) {
    let mut config = world.config("a");
    config.shards = 0;
    let started = world.try_node(config).await.map(drop);
    assert!(matches!(started, Err(StartError::Join(JoinError::NoShards))), "{started:?}");
    for name in ["", "a\0b", "a\n", &"n".repeat(257)] {
        let started = world.try_node(world.config(name)).await.map(drop);
        assert!(matches!(started, Err(StartError::Join(JoinError::Name { .. }))), "{started:?}");
    }
    // Nothing of that was left behind.
    world.settled(&[&world.node("a").await]).await;
}

pub async fn a_node_whose_store_is_gone_does_not_wait_for_ever_to_leave(world: World) {
    let mut config = world.config("a");
    config.effects_grace = Duration::from_millis(200);
    let node = world.try_node(config).await.unwrap();
    world.settled(&[&node]).await;
    world.faults.gone(true);
    tokio::time::timeout(PATIENCE, node.drain()).await.expect("it gives up");
}
