//! Commands, answers and idempotency keys.

use std::time::Duration;

use cadre_cluster::{address::Address, clock::Clock, host::CallError, keys};
use futures::future::join_all;

use crate::common::{
    World, eventually,
    probe::{Command, Fact, Refusal, TENANT, add, probe},
    world::{SHARDS, ask, look, tell},
};

pub async fn a_command_is_answered_with_the_cursor_of_its_event(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    let (first, second) = tokio::join!(
        ask(&client, probe("one"), add("1", 5), Some("k")),
        ask(&client, probe("one"), add("2", 5), None)
    );
    let ledger = world.ledger().await;
    for (op, called) in [("1", first.unwrap()), ("2", second.unwrap())] {
        let entry =
            ledger.iter().find(|entry| entry.fact == Fact::Added { op: op.into(), amount: 5 }).unwrap();
        assert_eq!(called.cursor, Some(entry.cursor), "{op}");
    }
    assert_eq!(tell(&client, probe("one"), Command::Look).await.cursor, None, "nothing happened");
}

pub async fn p3_the_same_key_has_the_same_answer_after_a_restart(world: World) {
    let node = world.node("a").await;
    let before = ask(&node.client(), probe("one"), add("1", 5), Some("k")).await.unwrap();
    tell(&node.client(), probe("one"), add("2", 7)).await;
    node.drain().await;
    let node = world.node("a").await;
    let after = ask(&node.client(), probe("one"), add("1", 5), Some("k")).await.unwrap();
    assert_eq!(after, before);
    drop(node);
    let node = world.node("b").await;
    let after = ask(&node.client(), probe("one"), add("1", 5), Some("k")).await.unwrap();
    assert_eq!(after, before);
    assert_eq!(look(&node.client(), probe("one")).await.total, 12);
}

pub async fn a_refusal_is_durable_under_its_key(world: World) {
    let node = world.node("a").await;
    let give = Command::Give { op: "g".into(), to: probe("two"), amount: 5 };
    let refused = ask(&node.client(), probe("one"), give.clone(), Some("k")).await;
    assert!(matches!(refused, Err(CallError::Refused(Refusal::NoWay { total: 0 }))), "{refused:?}");
    tell(&node.client(), probe("one"), add("1", 5)).await;
    node.drain().await;
    let node = world.node("a").await;
    let refused = ask(&node.client(), probe("one"), give.clone(), Some("k")).await;
    assert!(matches!(refused, Err(CallError::Refused(Refusal::NoWay { total: 0 }))), "{refused:?}");
    ask(&node.client(), probe("one"), give.clone(), Some("another key")).await.unwrap();
}

pub async fn a_refusal_that_may_not_be_met_again_leaves_its_key_free(world: World) {
    let node = world.node("a").await;
    let more = Command::AddMore { op: "m".into(), amount: 2 };
    let refused = ask(&node.client(), probe("one"), more.clone(), Some("k")).await;
    assert!(matches!(refused, Err(CallError::Refused(Refusal::NotNow { total: 0 }))), "{refused:?}");
    tell(&node.client(), probe("one"), add("1", 5)).await;
    let taken = ask(&node.client(), probe("one"), more.clone(), Some("k")).await.unwrap();
    assert_eq!(taken.reply.0.total, 7);
    let again = ask(&node.client(), probe("one"), more, Some("k")).await.unwrap();
    assert_eq!(again, taken, "P3: from now on the key stands for that answer");
}

pub async fn a_key_used_for_another_command_is_refused(world: World) {
    let node = world.node("a").await;
    ask(&node.client(), probe("one"), add("1", 5), Some("k")).await.unwrap();
    let reused = ask(&node.client(), probe("one"), add("1", 6), Some("k")).await;
    assert!(matches!(reused, Err(CallError::KeyReused)), "{reused:?}");
    ask(&node.client(), probe("two"), add("1", 6), Some("k")).await.unwrap();
    assert_eq!(look(&node.client(), probe("one")).await.total, 5);
}

pub async fn keys_expire_and_are_swept(world: World) {
    let mut config = world.config("a");
    config.idempotency_ttl = Duration::from_secs(3600);
    let node = world.try_node(config).await.unwrap();
    let client = node.client();
    let calls = (0..100).map(|n| {
        let client = &client;
        async move { ask(client, probe("one"), add(&n.to_string(), 1), Some(&n.to_string())).await.unwrap() }
    });
    join_all(calls).await;
    let recorded = |n: u32| keys::idempotency(&probe("one"), &n.to_string());
    assert!(world.sound.begin().get(&recorded(7)).await.unwrap().is_some());
    world.clock.shift_ms(3_601_000);
    eventually("the keys are swept", async || {
        let tx = world.sound.begin();
        join_all((0..100).map(|n| {
            let tx = &tx;
            async move { tx.get(&recorded(n)).await.unwrap() }
        }))
        .await
        .iter()
        .all(Option::is_none)
    })
    .await;
    let again = ask(&client, probe("one"), add("7", 1), Some("7")).await.unwrap();
    assert_eq!(again.reply.0.total, 101, "an expired key is a new one");
}

pub async fn many_commands_at_once_share_few_commits(world: World) {
    let node = world.node("a").await;
    world.settled(&[&node]).await;
    world.faults.delay_commits(Duration::from_millis(20));
    let client = node.client();
    let before = world.faults.commits();
    let who: Vec<Address> = (0..200).map(|n| probe(&n.to_string())).collect();
    let answers = join_all(
        who.iter().map(|who| ask(&client, who.clone(), Command::Add { op: "o".into(), amount: 1 }, None)),
    );
    assert!(answers.await.iter().all(Result::is_ok));
    let commits = world.faults.commits() - before;
    assert!(commits < 60, "200 steps took {commits} commits");
}

pub async fn an_unknown_kind_is_named(world: World) {
    let node = world.node("a").await;
    let nobody = Address::new(TENANT, "nobody", "1").unwrap();
    let answer = ask(&node.client(), nobody, Command::Look, None).await;
    assert!(matches!(&answer, Err(CallError::UnknownKind { kind }) if kind == "nobody"), "{answer:?}");
}

pub async fn p9_more_keys_than_a_transaction_can_remove_are_swept(world: World) {
    let mut config = world.config("a");
    config.inputs_per_entity_max = 10_000;
    let node = world.try_node(config).await.unwrap();
    let client = node.client();
    let key = |n: u32| format!("{n:01000}");
    let calls = (0..3_000).map(|n| {
        let (client, key) = (&client, key(n));
        async move { ask(client, probe("one"), add("o", 1), Some(&key)).await.unwrap() }
    });
    join_all(calls).await;
    world.clock.shift_ms(26 * 3_600_000);
    eventually("the keys are swept", async || {
        world.all(keys::expired(probe("one").shard(SHARDS), world.clock.now())).await.is_empty()
    })
    .await;
    let tx = world.sound.begin();
    for n in [0, 1_500, 2_999] {
        assert_eq!(tx.get(&keys::idempotency(&probe("one"), &key(n))).await.unwrap(), None);
    }
}
