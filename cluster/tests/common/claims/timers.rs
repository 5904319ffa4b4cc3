//! Durable timers.

use std::time::Duration;

use cadre_cluster::{clock::Clock, host::CallError};

use crate::common::{
    World, eventually,
    probe::{Command, Fact, add, probe},
    world::{ask, look, tell},
};

fn remind(name: &str, in_ms: u64) -> Command {
    Command::Remind { name: name.into(), in_ms }
}

async fn fired(world: &World, id: &str, name: &str) -> u32 {
    world.stored(&probe(id)).await.fired.get(name).copied().unwrap_or(0)
}

pub async fn a_timer_fires_after_a_restart_and_not_early(world: World) {
    let node = world.node("a").await;
    tell(&node.client(), probe("one"), remind("soon", 300)).await;
    tell(&node.client(), probe("one"), remind("late", 3_600_000)).await;
    node.drain().await;
    let _node = world.node("b").await;
    eventually("the timer fires", async || fired(&world, "one", "soon").await == 1).await;
    let ledger = world.ledger().await;
    let due = ledger.iter().find_map(|entry| match &entry.fact {
        Fact::ReminderSet { name, due } if name == "soon" => Some(*due),
        _ => None,
    });
    let at = ledger.iter().find(|entry| entry.fact == Fact::Fired { name: "soon".into() }).unwrap().at;
    assert!(at >= due.unwrap(), "due at {due:?}, fired at {at}");
    assert_eq!(fired(&world, "one", "late").await, 0);
    world.clock.shift_ms(3_600_000);
    eventually("the other does, too", async || fired(&world, "one", "late").await == 1).await;
}

pub async fn a_cancelled_timer_does_not_fire(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    tell(&client, probe("one"), remind("off", 60_000)).await;
    tell(&client, probe("one"), remind("moved", 60_000)).await;
    tell(&client, probe("one"), Command::Forget { name: "off".into() }).await;
    tell(&client, probe("one"), remind("moved", 120_000)).await;
    tell(&client, probe("two"), remind("mark", 60_000)).await;
    world.clock.shift_ms(61_000);
    eventually("another of that time fires", async || fired(&world, "two", "mark").await == 1).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(look(&client, probe("one")).await.fired, Default::default());
    world.clock.shift_ms(61_000);
    eventually("the moved one fires", async || fired(&world, "one", "moved").await == 1).await;
    assert_eq!(fired(&world, "one", "off").await, 0);
}

pub async fn a_timer_is_not_forgotten_while_its_step_is_on_its_way(world: World) {
    let mut config = world.config("a");
    config.look_every = Duration::from_secs(3600);
    let node = world.try_node(config).await.unwrap();
    world.settled(&[&node]).await;
    world.faults.delay_commits(Duration::from_millis(200));
    tell(&node.client(), probe("one"), remind("soon", 1)).await;
    eventually("it fires without a periodic look", async || fired(&world, "one", "soon").await == 1).await;
}

pub async fn a_clock_that_goes_back_does_not_take_time_back(world: World) {
    let node = world.node("a").await;
    let client = node.client();
    let before = tell(&client, probe("one"), add("1", 1)).await.reply.1;
    tell(&client, probe("two"), remind("waits", 500)).await;
    world.clock.shift_ms(-1_500);
    let after = tell(&client, probe("one"), add("2", 1)).await.reply.1;
    assert!(after >= before, "{before}, then {after}");
    tell(&client, probe("one"), remind("soon", 100)).await;
    eventually("timers fire all the same", async || {
        fired(&world, "one", "soon").await == 1 && fired(&world, "two", "waits").await == 1
    })
    .await;
    let times: Vec<_> =
        world.ledger().await.into_iter().filter(|entry| entry.who == probe("one")).map(|e| e.at).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(world.clock.now() >= before);
}

pub async fn p9_as_many_timers_as_allowed_can_be_set_anew(world: World) {
    let mut config = world.config("a");
    config.pending_max = 4;
    let node = world.try_node(config).await.unwrap();
    let set = |name: u32| Command::Remind { name: name.to_string(), in_ms: 600_000 };
    for name in 0..4 {
        tell(&node.client(), probe("one"), set(name)).await;
    }
    let fifth = ask(&node.client(), probe("one"), set(4), None).await;
    assert!(matches!(fifth, Err(CallError::Poisoned { .. })), "{fifth:?}");
    tell(&node.client(), probe("one"), set(2)).await;
    tell(&node.client(), probe("one"), Command::Forget { name: "2".into() }).await;
    tell(&node.client(), probe("one"), set(4)).await;
}
