//! Bounds: how much may wait, and how many entities are in memory (P9).

use std::time::Duration;

use cadre_cluster::host::{CallError, EffectPolicy};
use futures::future::join_all;

use crate::common::{
    World, eventually,
    probe::{Command, Script, add, hasty, probe},
    world::{Answer, ask, look, tell},
};

fn patient() -> EffectPolicy {
    EffectPolicy { deadline_ms: 600_000, ..hasty() }
}

fn busy(answers: &[Answer]) -> usize {
    let busy = |answer: &&Answer| matches!(answer, Err(CallError::Busy));
    let others = answers.iter().filter(|answer| answer.is_err() && !busy(answer)).count();
    assert_eq!(others, 0, "{answers:?}");
    answers.iter().filter(busy).count()
}

pub async fn p9_more_than_an_entity_may_have_waiting_is_busy_and_passes(world: World) {
    let mut config = world.config("a");
    config.inputs_per_entity_max = 10;
    let node = world.try_node(config).await.unwrap();
    let client = node.client();
    tell(&client, probe("one"), add("start", 0)).await;
    world.faults.delay_commits(Duration::from_millis(200));
    let calls = join_all((0..30).map(|_| ask(&client, probe("one"), add("o", 1), None)));
    let (answers, other) = tokio::join!(calls, ask(&client, probe("two"), add("o", 1), None));
    assert_eq!(busy(&answers), 20);
    other.unwrap();
    world.faults.delay_commits(Duration::ZERO);
    assert_eq!(tell(&client, probe("one"), add("o", 1)).await.reply.0.total, 11);
}

pub async fn p9_more_than_a_node_may_have_waiting_is_busy_and_passes(world: World) {
    let mut config = world.config("a");
    config.inputs_waiting_max = 10;
    let node = world.try_node(config).await.unwrap();
    let client = node.client();
    tell(&client, probe("0"), add("start", 0)).await;
    world.faults.delay_commits(Duration::from_millis(200));
    let answers = join_all((0..30).map(|n| ask(&client, probe(&n.to_string()), add("o", 1), None))).await;
    assert_eq!(busy(&answers), 22, "the last places are for another tenant");
    assert_eq!(node.inputs_waiting(), 0);
    world.faults.delay_commits(Duration::ZERO);
    tell(&client, probe("0"), add("o", 1)).await;
}

pub async fn idle_entities_leave_memory_and_come_back_as_they_were(mut world: World) {
    world.idle_max = Duration::from_millis(100);
    let node = world.node("a").await;
    let client = node.client();
    join_all((0..50).map(|n| tell(&client, probe(&n.to_string()), add("o", n)))).await;
    eventually("all leave", async || node.status().await.unwrap().entities_live == 0).await;
    for n in 0..50 {
        assert_eq!(look(&client, probe(&n.to_string())).await.total, n);
    }
}

pub async fn entities_that_are_over_leave_memory_at_once_and_come_back_as_they_were(mut world: World) {
    world.idle_max = Duration::from_secs(600);
    let node = world.node("a").await;
    let client = node.client();
    let live = async |count| node.status().await.unwrap().entities_live == count;
    join_all((0..50).map(|n| tell(&client, probe(&n.to_string()), add("o", n)))).await;
    assert!(live(50).await, "they may be idle for long");
    join_all((0..50).map(|n| tell(&client, probe(&n.to_string()), Command::Retire))).await;
    eventually("all leave", async || live(0).await).await;
    for n in 0..50 {
        assert_eq!(look(&client, probe(&n.to_string())).await.total, n);
    }
    eventually("whoever only answered leaves again", async || live(0).await).await;
    // What it still has to do keeps it; what it only has to do later does not.
    let busy = Command::Perform { id: "e".into(), script: Script::Slow { ms: 500 }, policy: patient() };
    tell(&client, probe("busy"), busy).await;
    tell(&client, probe("busy"), Command::Retire).await;
    tell(&client, probe("later"), Command::Remind { name: "t".into(), in_ms: 400 }).await;
    tell(&client, probe("later"), Command::Retire).await;
    eventually("one leaves", async || live(1).await).await;
    assert!(world.stored(&probe("busy")).await.ended.is_empty(), "the other waits for its effect");
    eventually("the other leaves too", async || live(0).await).await;
    assert_eq!(world.stored(&probe("busy")).await.ended["e"], "slow at attempt 1");
    eventually("the timer wakes it", async || world.stored(&probe("later")).await.fired.contains_key("t"))
        .await;
    eventually("it leaves again", async || live(0).await).await;
}

pub async fn p6_what_arrives_as_an_entity_leaves_memory_is_not_lost(mut world: World) {
    const ROUNDS: u32 = 60;
    world.idle_max = Duration::from_secs(600);
    let node = world.node("a").await;
    let client = node.client();
    let names: Vec<String> = (0..8).map(|n| format!("over-{n}")).collect();
    join_all(names.iter().map(|name| tell(&client, probe(name), Command::Retire))).await;
    let client = &client;
    join_all(names.iter().map(|name| async move {
        for round in 0..ROUNDS {
            // Without keys: none of them may end with an unknown outcome either.
            let remind = Command::Remind { name: round.to_string(), in_ms: (round % 3).into() };
            let ping = Command::Ping { to: probe(name), times: 1 };
            let (sender, id) = (probe(&format!("{name}-sender")), format!("e{round}"));
            // Not each time: an entity with an effect does not leave.
            let perform = match round % 4 {
                0 => Command::Perform { id, script: Script::Say("done".into()), policy: patient() },
                _ => Command::Look,
            };
            tokio::join!(
                tell(client, probe(name), add("o", 1)),
                tell(client, sender, ping),
                tell(client, probe(name), remind),
                tell(client, probe(name), perform),
            );
        }
    }))
    .await;
    for name in &names {
        eventually("all arrives", async || {
            let state = world.stored(&probe(name)).await;
            let (fired, ended) = (state.fired.len(), state.ended.len());
            (fired, ended, state.received) == (ROUNDS as usize, ROUNDS as usize / 4, ROUNDS.into())
        })
        .await;
        let state = world.stored(&probe(name)).await;
        assert_eq!(state.total, i64::from(ROUNDS));
        assert!(state.fired.values().all(|times| *times == 1), "each timer once: {:?}", state.fired);
    }
    let senders = names.len();
    eventually("all leave", async || node.status().await.unwrap().entities_live == senders).await;
}

pub async fn p9_no_more_entities_are_live_than_allowed(world: World) {
    let mut config = world.config("a");
    config.entities_live_max = 20;
    let node = world.try_node(config).await.unwrap();
    let client = node.client();
    for n in 0..100 {
        eventually("room is made", async || {
            match ask(&client, probe(&n.to_string()), add("o", n), Some("k")).await {
                Ok(_) => true,
                Err(CallError::Busy) => false,
                Err(error) => panic!("{error}"),
            }
        })
        .await;
        let live = node.status().await.unwrap().entities_live;
        assert!(live <= 20, "{live} are live");
    }
    // Messages find room by themselves.
    eventually("room is made", async || {
        let ping = Command::Ping { to: probe("7"), times: 5 };
        ask(&client, probe("sender"), ping, Some("k")).await.is_ok()
    })
    .await;
    eventually("they arrive", async || world.stored(&probe("7")).await.received == 5).await;
}

pub async fn p9_more_bytes_than_a_node_may_hold_are_busy_and_pass(world: World) {
    let mut config = world.config("a");
    config.inputs_waiting_bytes_max = 100_000;
    let node = world.try_node(config).await.unwrap();
    let client = node.client();
    tell(&client, probe("0"), add("start", 0)).await;
    world.faults.delay_commits(Duration::from_millis(200));
    let large = "x".repeat(30_000);
    let answers = join_all((0..10).map(|n| ask(&client, probe(&n.to_string()), add(&large, 1), None))).await;
    assert_eq!(busy(&answers), 7, "the fourth would leave too little for another tenant");
    world.faults.delay_commits(Duration::ZERO);
    join_all((0..3).map(|n| tell(&client, probe(&n.to_string()), add(&large, 1)))).await;
}
