//! The store or the bus is gone for a while.

use std::time::Duration;

use cadre_cluster::{
    bus::nats::testing::NatsServer,
    feed::{Cursor, Tail, TailConfig},
    host::{CallError, EffectPolicy, Node, NotReady, Repeat},
    keys,
    store::ReadError,
};

use crate::common::{
    PATIENCE, World,
    bank::Customers,
    eventually,
    probe::{Command, Fact, Probe, Script, add, hasty, probe},
    world::{CLUSTER, SHARDS, ask, look, tell},
};

fn patient() -> EffectPolicy {
    EffectPolicy { deadline_ms: 600_000, ..hasty() }
}

pub async fn when_the_store_is_gone_calls_say_so_and_all_goes_on_after(world: World) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    world.settled(&[&a, &b]).await;
    let customers = Customers::start(&b.client(), 4).await;
    customers.worked(50).await;
    let bus = world.bus().await;
    let config = TailConfig { look_every: Duration::from_millis(100), page_events: 100 };
    let mut tail = Tail::new(world.feed(), CLUSTER, bus, Cursor::START, config);
    tail.next().await.unwrap();

    world.faults.gone(true);
    let called = a.client().call::<Probe>(&probe("new"), &add("1", 1), None, Duration::from_secs(1)).await;
    assert!(matches!(called, Err(CallError::Unavailable { .. } | CallError::OutcomeUnknown)), "{called:?}");
    let read = world.feed().read(Cursor::START, 1).await;
    assert!(matches!(read, Err(cadre_cluster::feed::Error::Read(ReadError::Unavailable { .. }))), "{read:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.faults.gone(false);

    world.settled(&[&a, &b]).await;
    customers.worked(50).await;
    let ops = customers.end(&world).await;
    let mut seen = 0;
    tokio::time::timeout(PATIENCE, async {
        while seen < ops {
            if let Ok(page) = tail.next().await {
                seen += page.events.len();
            }
        }
    })
    .await
    .expect("the tail goes on");
}

pub async fn when_nats_is_gone_for_a_moment_local_work_goes_on_and_the_rest_recovers(world: World) {
    without_nats(world, Duration::from_secs(2)).await;
}

/// [`when_nats_is_gone_for_a_moment_local_work_goes_on_and_the_rest_recovers`] for longer.
pub async fn without_nats(world: World, outage: Duration) {
    let (a, b) = (world.node("a").await, world.node("b").await);
    world.settled(&[&a, &b]).await;
    let customers = Customers::start(&b.client(), 4).await;
    customers.worked(50).await;
    let mut local = 0;
    let mine = loop {
        let who = probe(&format!("local-{local}"));
        let shard = who.shard(crate::common::world::SHARDS);
        if b.status().await.unwrap().shards.contains_key(&shard) {
            break who;
        }
        local += 1;
    };
    if !world.nats(NatsServer::stop) {
        return; // only a bus of its own can go away
    }
    let back = tokio::time::Instant::now() + outage;
    let mut done = 0;
    while tokio::time::Instant::now() < back {
        done += 1;
        assert_eq!(tell(&b.client(), mine.clone(), add("o", 1)).await.reply.0.total, done);
    }
    assert!(done > 10, "only {done} steps without the bus");
    world.nats(NatsServer::restart);
    let remote = world.client().await;
    for n in 0..16 {
        tell(&remote, probe(&format!("after-{n}")), add("o", 1)).await;
    }
    world.settled(&[&a, &b]).await;
    customers.worked(50).await;
    customers.end(&world).await;
}

pub async fn p2_a_commit_that_was_done_and_not_confirmed_is_done_once(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    tell(&client, probe("0"), add("start", 1)).await;
    world.faults.unknown(3);
    for n in 0..10 {
        let called = ask(&client, probe("0"), add(&n.to_string(), 1), None).await.unwrap();
        let entry = world.ledger().await.pop().unwrap();
        assert_eq!(entry.fact, Fact::Added { op: n.to_string(), amount: 1 });
        assert_eq!(called.cursor, Some(entry.cursor));
    }
    assert_eq!(look(&client, probe("0")).await.total, 11);
    tell(&client, probe("0"), Command::Give { op: "g".into(), to: probe("1"), amount: 11 }).await;
}

pub async fn p2_when_the_store_is_full_callers_are_told_and_nothing_that_waits_is_lost(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    tell(&client, probe("0"), add("start", 1)).await;
    let slow = Command::Perform { id: "slow".into(), script: Script::Slow { ms: 300 }, policy: patient() };
    tell(&client, probe("1"), slow).await;
    world.faults.delay_commits(Duration::from_millis(100));
    let ping = tokio::spawn({
        let client = client.clone();
        async move { tell(&client, probe("0"), Command::Ping { to: probe("1"), times: 3 }).await }
    });
    ping.await.unwrap();
    world.faults.full(true);
    world.faults.delay_commits(Duration::ZERO);
    let called = client.call::<Probe>(&probe("0"), &add("1", 1), None, Duration::from_secs(1)).await;
    let Err(CallError::Unavailable { reason }) = called else { panic!("{called:?}") };
    assert!(reason.contains("no space left"), "{reason}");
    // The effect ends meanwhile, and nobody but this node knows how.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(world.stored(&probe("1")).await.ended.get("slow"), None);
    world.faults.full(false);
    eventually("what waited is applied", async || {
        let stored = world.stored(&probe("1")).await;
        stored.received == 3 && stored.ended.contains_key("slow")
    })
    .await;
    assert_eq!(world.deeds.of("slow"), 1, "it was not done again");
    assert_eq!(
        tell(&client, probe("0"), add("1", 1)).await.reply.0.total,
        2,
        "what was refused was not done"
    );
}

pub async fn p7_a_node_that_does_not_progress_is_not_ready_and_says_why(world: World) {
    let patience = Duration::from_millis(700);
    let ready = async |node: &Node| node.status().await.unwrap().check(patience);
    let node = world.node("a").await;
    world.settled(&[&node]).await;
    eventually("it is ready", async || ready(&node).await.is_ok()).await;
    let one = probe("one");
    world.faults.delay_commits(Duration::from_secs(2));
    let told = tokio::spawn({
        let (client, to) = (node.client(), one.clone());
        async move { tell(&client, probe("two"), Command::Ping { to, times: 1 }).await }
    });
    eventually("it stalls", async || {
        let stalled = ready(&node).await;
        let Err(NotReady::Stalled { shard, waiting }) = stalled else { return false };
        (shard, &waiting.address) == (one.shard(SHARDS), &one)
    })
    .await;
    told.await.unwrap();
    world.faults.delay_commits(Duration::ZERO);
    eventually("it is ready again", async || ready(&node).await.is_ok()).await;
    world.faults.gone(true);
    let is_blind =
        |ready| matches!(ready, Err(NotReady::Blind { .. } | NotReady::Lost | NotReady::Silent { .. }));
    eventually("it is blind", async || is_blind(ready(&node).await)).await;
    world.faults.gone(false);
    eventually("it sees again", async || ready(&node).await.is_ok()).await;
    world.faults.full(true);
    eventually("it cannot write", async || matches!(ready(&node).await, Err(NotReady::Silent { .. }))).await;
    world.faults.full(false);
    eventually("it can again", async || ready(&node).await.is_ok()).await;
}

pub async fn p7_an_attempt_that_is_due_while_the_store_is_full_is_made_afterwards(world: World) {
    let node = world.node("a").await;
    let policy = EffectPolicy { backoff_ms: 500, backoff_ms_max: 500, ..patient() };
    let retried = Command::Perform { id: "e".into(), script: Script::FailFirst(1), policy };
    tell(&node.client(), probe("0"), retried).await;
    eventually("the first attempt fails", async || world.deeds.of("e") == 1).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    world.faults.full(true);
    let called =
        node.client().call::<Probe>(&probe("0"), &add("1", 1), None, Duration::from_millis(900)).await;
    assert!(matches!(called, Err(CallError::Unavailable { .. })), "{called:?}");
    world.faults.full(false);
    eventually("the second ends", async || world.stored(&probe("0")).await.ended.contains_key("e")).await;
    assert_eq!(world.deeds.of("e"), 2);
}

pub async fn p7_an_entity_that_waits_for_the_store_keeps_its_effects(mut world: World) {
    world.idle_max = Duration::from_millis(50);
    let node = world.node("a").await;
    let once = EffectPolicy { repeat: Repeat::Never, ..patient() };
    for (who, trouble) in ["full", "gone"].into_iter().enumerate() {
        let who = probe(&who.to_string());
        let slow = Command::Perform { id: trouble.into(), script: Script::Slow { ms: 700 }, policy: once };
        tell(&node.client(), who.clone(), slow).await;
        let switch = |on: bool| if trouble == "full" { world.faults.full(on) } else { world.faults.gone(on) };
        switch(true);
        // It finds out, and is asked to leave memory meanwhile.
        let called = node.client().call::<Probe>(&who, &add("1", 1), Some("k"), Duration::from_secs(1)).await;
        assert!(called.is_err(), "{called:?}");
        switch(false);
        eventually("it ends", async || world.stored(&who).await.ended.contains_key(trouble)).await;
        assert_eq!(world.stored(&who).await.ended[trouble], "slow at attempt 1", "{trouble}");
        assert_eq!(world.deeds.of(trouble), 1);
    }
}

pub async fn p6_timers_that_are_due_while_the_store_is_full_fire_once_afterwards(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    for n in 0..50 {
        tell(&client, probe("0"), Command::Remind { name: n.to_string(), in_ms: 300 }).await;
    }
    world.faults.full(true);
    tokio::time::sleep(Duration::from_secs(2)).await;
    world.faults.full(false);
    eventually("all have fired", async || world.stored(&probe("0")).await.fired.len() == 50).await;
    let commits = world.faults.commits();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(world.faults.commits() - commits < 20, "nothing is left to do but heartbeats");
    assert!(world.stored(&probe("0")).await.fired.values().all(|times| *times == 1));
}

pub async fn p7_an_entity_that_cannot_be_read_hurts_nobody_else(world: World) {
    let node = world.node("a").await;
    let (client, bad) = (node.client(), probe("bad"));
    world.settled(&[&node]).await;
    tell(&client, bad.clone(), add("1", 1)).await;
    node.drain().await;
    let sound = world.sound.begin().snapshot_get(&keys::state(&bad)).await.unwrap().unwrap();
    world.write(keys::state(&bad), &[9, 9, 9]).await;
    let node = world.node("a").await;
    world.settled(&[&node]).await;
    tell(&node.client(), probe("good"), Command::Ping { to: bad.clone(), times: 1 }).await;
    let called = node.client().call::<Probe>(&bad, &add("2", 1), None, Duration::from_millis(500)).await;
    assert!(called.is_err(), "{called:?}");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let status = node.status().await.unwrap();
    assert_eq!(status.check(Duration::from_millis(700)), Ok(()), "the shard goes on");
    world.write(keys::state(&bad), &sound).await;
    eventually("it goes on, too", async || world.stored(&bad).await.received == 1).await;
}
