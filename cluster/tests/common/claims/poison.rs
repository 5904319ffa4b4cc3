//! Inputs that cannot be applied: put aside with a reason, never in a loop, at nobody else's cost.

use std::time::Duration;

use bytes::Bytes;
use cadre_cluster::{bus::Headers, clock::Timestamp, codec, host::CallError, keys};
use futures::future::join_all;

use crate::common::{
    World, eventually,
    metrics::tally,
    probe::{Command, Message, add, probe},
    world::{CLUSTER, SHARDS, ask, look, tell},
};

pub async fn a_command_that_breaks_the_entity_is_put_aside_and_its_neighbours_are_not(world: World) {
    let counted = || tally().of("cadre_host_dead_letters_total{input=command}");
    let before = counted();
    let node = world.node("a").await;
    let client = node.client();
    tell(&client, probe("one"), add("start", 1)).await;
    // So that all of them share a step, or a group commit.
    world.faults.delay_commits(Duration::from_millis(50));
    let broken = [
        (Command::Panic, "decide panicked: told to panic"),
        (Command::PanicInApply, "apply panicked: cannot be applied"),
        (Command::KeepSilent, "decided without an answer"),
        (Command::Grow { bytes: 200_000 }, "the limit is 98304"),
        (Command::WriteRecord { bytes: 7_000_000 }, "the limit is 6291456"),
        (Command::WriteRecord { bytes: 150_000 }, "value of 150000 bytes is over the limit"),
        (Command::Shout { to: probe("two"), bytes: 150_000 }, "is over the limit"),
        (Command::Answer { bytes: 150_000 }, "the limit is"),
    ];
    let good = (0..10).map(|n| {
        let (client, who) = (&client, probe(if n % 2 == 0 { "one" } else { "neighbour" }));
        async move { ask(client, who, add(&n.to_string(), 1), None).await }
    });
    let bad = broken.iter().enumerate().map(|(n, (command, _))| {
        let (client, command, key) = (&client, command.clone(), format!("k{n}"));
        async move { ask(client, probe("one"), command, Some(&key)).await }
    });
    let (good, bad) = tokio::join!(join_all(good), join_all(bad));
    for answer in good {
        answer.unwrap();
    }
    for ((command, expected), answer) in broken.iter().zip(bad) {
        match answer {
            Err(CallError::Poisoned { reason }) => {
                assert!(reason.contains(expected), "{reason}, not {expected}")
            }
            other => panic!("{command:?} was answered {other:?}"),
        }
    }
    world.faults.delay_commits(Duration::ZERO);
    assert_eq!(look(&client, probe("one")).await.total, 6);
    assert_eq!(look(&client, probe("neighbour")).await.total, 5);
    assert!(counted() - before >= broken.len() as u64, "each is counted");
    let letters = world.dead_letters().await;
    assert_eq!(letters.len(), broken.len(), "{letters:#?}");
    for (_, expected) in broken {
        assert!(letters.iter().any(|letter| letter.input == "command" && letter.reason.contains(expected)));
    }
}

pub async fn a_message_that_cannot_be_applied_is_put_aside_and_the_rest_arrive(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    let one = probe("one");
    let broken = [Message::Refused, Message::Panic, Message::PanicInApply, Message::Grow { bytes: 200_000 }];
    for message in broken.clone() {
        tell(&client, probe("sender"), Command::Ping { to: one.clone(), times: 3 }).await;
        tell(&client, probe("sender"), Command::Misguide { to: one.clone(), message }).await;
        tell(&client, probe("sender"), Command::Ping { to: one.clone(), times: 3 }).await;
    }
    // Two that no version understands.
    for junk in [&b""[..], &b"\x07not a message"[..]] {
        let (key, offset) = keys::inbox_message(one.shard(SHARDS), &one).at(0);
        let mut tx = world.sound.begin();
        tx.set_stamped_key(key, offset, junk.to_vec());
        tx.commit().await.unwrap();
    }
    eventually("what can be applied is", async || world.stored(&one).await.received == 24).await;
    eventually("what cannot is put aside", async || world.dead_letters().await.len() == 6).await;
    eventually("nothing is left", async || world.all(keys::inboxes(one.shard(SHARDS))).await.is_empty())
        .await;
    let reasons: Vec<_> = world.dead_letters().await.into_iter().map(|letter| letter.reason).collect();
    for expected in
        ["cannot be applied: NoWay", "decide panicked", "apply panicked", "bytes large", "empty", "version 7"]
    {
        assert!(reasons.iter().any(|reason| reason.contains(expected)), "{expected} is not in {reasons:?}");
    }
    // No loop: nothing more comes, and the entity lives.
    let commits = world.faults.commits();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(world.faults.commits() - commits < 20, "only heartbeats");
    assert_eq!(world.dead_letters().await.len(), 6);
    assert_eq!(look(&client, one).await.received, 24);
}

pub async fn an_unreadable_command_is_put_aside(world: World) {
    let node = world.node("a").await;
    world.settled(&[&node]).await;
    let (bus, one) = (world.bus().await, probe("one"));
    let subject = one.subject(CLUSTER, one.shard(SHARDS));
    // Clients ask again when nobody listens yet; the requests below are bare.
    tell(&node.client(), one.clone(), add("0", 1)).await;
    let request = |command: &'static [u8]| codec::pack(&(None::<String>, Bytes::from_static(command)));
    let (malformed, of_tomorrow) = (request(b"\x01\xc1"), request(b"\x02\xc0"));
    for payload in [malformed, of_tomorrow, Bytes::from_static(b"junk")] {
        let answer =
            bus.request(&subject, Headers::default(), payload, Duration::from_secs(10)).await.unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains("Poisoned"), "{answer}");
    }
    let letters = world.dead_letters().await;
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert!(letters[0].reason.contains("command is malformed"), "{}", letters[0].reason);
    assert!(letters[1].reason.contains("has version 2"), "{}", letters[1].reason);
    tell(&node.client(), one, add("1", 1)).await;
}

pub async fn what_is_too_large_is_refused_by_name(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    let command = Command::Add { op: "x".repeat(2 << 20), amount: 1 };
    let answer = ask(&client, probe("one"), command, None).await;
    assert!(matches!(answer, Err(CallError::TooLarge { .. })), "{answer:?}");
    let answer = ask(&client, probe("one"), add("1", 1), Some(&"k".repeat(20_000))).await;
    assert!(matches!(answer, Err(CallError::KeyTooLong { limit: 1024, actual: 20_000 })), "{answer:?}");
    let answer = ask(&client, probe("one"), add("1", 1), Some(&"k".repeat(1_024))).await.unwrap();
    assert_eq!(answer.reply.0.total, 1);
}

pub async fn p9_dead_letters_are_kept_for_a_time(world: World) {
    let mut config = world.config("a");
    config.dead_letter_ttl = Duration::from_secs(3_600);
    let node = world.try_node(config).await.unwrap();
    for _ in 0..3 {
        let answer = ask(&node.client(), probe("one"), Command::Panic, None).await;
        assert!(matches!(answer, Err(CallError::Poisoned { .. })), "{answer:?}");
    }
    world.clock.shift_ms(3_000_000);
    ask(&node.client(), probe("one"), Command::Panic, None).await.unwrap_err();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(world.dead_letters().await.len(), 4, "none before its time");
    world.clock.shift_ms(601_000);
    eventually("the first are gone", async || world.dead_letters().await.len() == 1).await;
    let shard = probe("one").shard(SHARDS);
    assert_eq!(world.all(keys::letters_expired(shard, Timestamp(u64::MAX - 1))).await.len(), 1);
}
