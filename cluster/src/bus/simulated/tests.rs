use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout};

use super::{Faults, SimBus, SimConnection};
use crate::{
    bus::{Driver, Headers, PublishError, RequestError, Subject, SubscribeError, Subscription},
    sim::{Dice, Lifeline, Trace},
};

mod conformance {
    use std::sync::Arc;

    use super::*;
    use crate::bus::conformance::Pair;

    fn pair() -> Pair {
        let bus = SimBus::new(Dice::new(1));
        bus.set_queue_capacity(64);
        let (one, other) = super::pair(&bus);
        Pair { one: Arc::new(one), other: Arc::new(other), queue_capacity: 64 }
    }

    crate::bus_conformance!(pair(), start_paused = true);
}

const SECOND: Duration = Duration::from_secs(1);

fn subject(text: &str) -> Subject {
    Subject::from_wire(text)
}

fn pair(bus: &SimBus) -> (SimConnection, SimConnection) {
    (bus.connect(Lifeline::new("one")), bus.connect(Lifeline::new("two")))
}

async fn publish(from: &SimConnection, to: &str, payload: &str) -> Result<(), PublishError> {
    from.publish(&subject(to), Headers::default(), Bytes::copy_from_slice(payload.as_bytes())).await
}

async fn ask(from: &SimConnection, to: &str) -> Result<Bytes, RequestError> {
    from.request(&subject(to), Headers::default(), Bytes::from_static(b"?"), SECOND).await
}

/// Answers every request with its own payload until the task is ended.
async fn echo(on: &SimConnection, pattern: &str) {
    let mut subscription = on.subscribe(&subject(pattern)).await.unwrap();
    tokio::spawn(async move {
        while let Some(delivery) = subscription.next().await {
            if let Some(reply) = delivery.reply {
                let _ = reply.send(delivery.payload).await;
            }
        }
    });
}

/// What arrives within `patience` of silence.
async fn drain(subscription: &mut dyn Subscription, patience: Duration) -> Vec<String> {
    let mut received = Vec::new();
    while let Ok(Some(delivery)) = timeout(patience, subscription.next()).await {
        received.push(String::from_utf8(delivery.payload.to_vec()).unwrap());
    }
    received
}

#[tokio::test(start_paused = true)]
async fn drops_lose_messages_and_time_requests_out() {
    let bus = SimBus::new(Dice::new(1));
    let (one, two) = pair(&bus);
    echo(&two, "a").await;
    bus.set_faults(Faults { drop: 1.0, ..Faults::none() });
    assert_eq!(ask(&one, "a").await, Err(RequestError::TimedOut { timeout_ms: 1000 }));
    bus.set_faults(Faults::none());
    assert_eq!(ask(&one, "a").await, Ok(Bytes::from_static(b"?")));
}

#[tokio::test(start_paused = true)]
async fn duplicates_arrive_twice_and_a_request_takes_one_answer() {
    let bus = SimBus::new(Dice::new(1));
    let (one, two) = pair(&bus);
    bus.set_faults(Faults { duplicate: 1.0, ..Faults::none() });
    let mut subscription = two.subscribe(&subject("a")).await.unwrap();
    publish(&one, "a", "x").await.unwrap();
    assert_eq!(drain(&mut *subscription, SECOND).await, ["x", "x"]);
    echo(&two, "b").await;
    assert_eq!(ask(&one, "b").await, Ok(Bytes::from_static(b"?")));
}

#[tokio::test(start_paused = true)]
async fn a_fixed_delay_keeps_the_order_and_a_range_does_not() {
    let bus = SimBus::new(Dice::new(1));
    let (one, two) = pair(&bus);
    let mut subscription = two.subscribe(&subject("a")).await.unwrap();
    let sent: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    for (longest, ordered) in [(5, true), (50, false)] {
        let delay = Duration::from_millis(5)..=Duration::from_millis(longest);
        bus.set_faults(Faults { delay, ..Faults::none() });
        let start = Instant::now();
        for payload in &sent {
            publish(&one, "a", payload).await.unwrap();
        }
        let mut received = drain(&mut *subscription, SECOND).await;
        assert!(start.elapsed() >= SECOND + Duration::from_millis(5));
        assert_eq!(received == sent, ordered);
        received.sort_by_key(|payload| payload.parse::<u32>().unwrap());
        assert_eq!(received, sent);
    }
}

#[tokio::test(start_paused = true)]
async fn a_one_way_block_lets_requests_through_and_loses_the_answers() {
    let bus = SimBus::new(Dice::new(1));
    let (one, two) = pair(&bus);
    echo(&two, "a").await;
    let mut witness = two.subscribe(&subject("a")).await.unwrap();
    bus.block("two", "one");
    assert_eq!(ask(&one, "a").await, Err(RequestError::TimedOut { timeout_ms: 1000 }));
    assert_eq!(drain(&mut *witness, SECOND).await, ["?"]);
    bus.partition("one", "two");
    assert_eq!(ask(&one, "a").await, Err(RequestError::TimedOut { timeout_ms: 1000 }));
    assert!(drain(&mut *witness, SECOND).await.is_empty());
    bus.heal("two", "one");
    assert_eq!(ask(&one, "a").await, Ok(Bytes::from_static(b"?")));
}

#[tokio::test(start_paused = true)]
async fn a_partition_loses_what_is_under_way_and_spares_other_nodes() {
    let bus = SimBus::new(Dice::new(1));
    let (one, two) = pair(&bus);
    let three = bus.connect(Lifeline::new("three"));
    bus.set_faults(Faults { delay: SECOND..=SECOND, ..Faults::none() });
    let mut at_two = two.subscribe(&subject("a")).await.unwrap();
    let mut at_three = three.subscribe(&subject("a")).await.unwrap();
    publish(&one, "a", "x").await.unwrap();
    bus.partition("one", "two");
    assert!(drain(&mut *at_two, 2 * SECOND).await.is_empty());
    assert_eq!(drain(&mut *at_three, SECOND).await, ["x"]);
    bus.heal_all();
    publish(&one, "a", "y").await.unwrap();
    assert_eq!(drain(&mut *at_two, 2 * SECOND).await, ["y"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_fails_every_action_and_subscriptions_survive_it() {
    let bus = SimBus::new(Dice::new(1));
    let (one, two) = pair(&bus);
    let mut subscription = two.subscribe(&subject("a")).await.unwrap();
    publish(&one, "a", "with a way back").await.unwrap();
    bus.set_outage(true);
    assert!(matches!(publish(&one, "a", "lost").await, Err(PublishError::Unavailable { .. })));
    assert!(matches!(ask(&one, "a").await, Err(RequestError::NotSent { .. })));
    assert!(matches!(one.subscribe(&subject("a")).await, Err(SubscribeError::Unavailable { .. })));
    bus.set_outage(false);
    publish(&one, "a", "back").await.unwrap();
    assert_eq!(drain(&mut *subscription, SECOND).await, ["with a way back", "back"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_during_an_outage_fails_and_its_request_times_out() {
    let bus = SimBus::new(Dice::new(1));
    let (one, two) = pair(&bus);
    let mut subscription = two.subscribe(&subject("a")).await.unwrap();
    let request = tokio::spawn(async move { ask(&one, "a").await });
    let reply = subscription.next().await.unwrap().reply.unwrap();
    bus.set_outage(true);
    assert!(matches!(reply.send(Bytes::new()).await, Err(PublishError::Unavailable { .. })));
    assert_eq!(request.await.unwrap(), Err(RequestError::TimedOut { timeout_ms: 1000 }));
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_stops_listening_only_when_the_server_notices() {
    let bus = SimBus::new(Dice::new(1));
    bus.set_death_notice(5 * SECOND);
    let line = Lifeline::new("two");
    let (one, two) = (bus.connect(Lifeline::new("one")), bus.connect(line.clone()));
    let subscription = two.subscribe(&subject("a")).await.unwrap();
    line.cut();
    drop(subscription);
    assert_eq!(ask(&one, "a").await, Err(RequestError::TimedOut { timeout_ms: 1000 }));
    sleep(5 * SECOND).await;
    assert_eq!(ask(&one, "a").await, Err(RequestError::NoResponders { subject: "a".into() }));
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_acts_and_receives_no_more() {
    let bus = SimBus::new(Dice::new(1));
    let line = Lifeline::new("two");
    let (one, two) = (bus.connect(Lifeline::new("one")), bus.connect(line.clone()));
    let mut at_one = one.subscribe(&subject(">")).await.unwrap();
    let mut at_two = two.subscribe(&subject("a")).await.unwrap();
    publish(&one, "a", "too late to read").await.unwrap();
    line.cut();
    assert!(timeout(SECOND, publish(&two, "b", "from the dead")).await.is_err());
    assert!(timeout(SECOND, at_two.next()).await.is_err());
    assert_eq!(drain(&mut *at_one, SECOND).await, ["too late to read"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_on_its_way_back_has_sent_all_the_same() {
    let bus = SimBus::new(Dice::new(1));
    let line = Lifeline::new("two");
    let (one, two) = (bus.connect(Lifeline::new("one")), bus.connect(line.clone()));
    let mut at_one = one.subscribe(&subject("a")).await.unwrap();
    // Of many nodes that die by chance some die before they sent, some after.
    let (mut before, mut after, dice) = (0, 0, Dice::new(7));
    for n in 0..200 {
        let line = Lifeline::new(&format!("mortal {n}"));
        line.crash_by_chance(0.3, dice.clone());
        let mortal = bus.connect(line);
        let told = timeout(SECOND, publish(&mortal, "a", "x")).await.is_ok();
        match (drain(&mut *at_one, SECOND).await.len(), told) {
            (0, false) => before += 1,
            (1, false) => after += 1,
            (1, true) => {}
            outcome => panic!("impossible: {outcome:?}"),
        }
    }
    assert!(before > 20 && after > 20, "{before} died before, {after} after");
    drop(two);
}

#[tokio::test(start_paused = true)]
async fn a_sleeping_node_finds_its_messages_when_it_wakes() {
    let bus = SimBus::new(Dice::new(1));
    let line = Lifeline::new("two");
    let (one, two) = (bus.connect(Lifeline::new("one")), bus.connect(line.clone()));
    let mut at_two = two.subscribe(&subject("a")).await.unwrap();
    line.hold();
    publish(&one, "a", "x").await.unwrap();
    assert!(timeout(SECOND, at_two.next()).await.is_err());
    line.release();
    assert_eq!(drain(&mut *at_two, SECOND).await, ["x"]);
}

#[tokio::test(start_paused = true)]
async fn a_next_dropped_while_the_node_sleeps_loses_nothing() {
    let bus = SimBus::new(Dice::new(1));
    let line = Lifeline::new("two");
    let (one, two) = (bus.connect(Lifeline::new("one")), bus.connect(line.clone()));
    let mut at_two = two.subscribe(&subject("a")).await.unwrap();
    let holder = tokio::spawn(async move {
        sleep(SECOND).await;
        line.hold();
        publish(&one, "a", "x").await.unwrap();
        sleep(2 * SECOND).await;
        line.release();
    });
    assert!(timeout(2 * SECOND, at_two.next()).await.is_err());
    holder.await.unwrap();
    assert_eq!(drain(&mut *at_two, SECOND).await, ["x"]);
}

/// Nodes that talk at random over a bad network while it changes; what the network wrote down.
async fn talk(seed: u64) -> Vec<String> {
    let dice = Dice::new(seed);
    let bus = SimBus::new(dice.fork());
    let trace = Trace::new();
    bus.trace_into(trace.clone());
    bus.set_death_notice(Duration::from_millis(200));
    bus.set_queue_capacity(4);
    let names = ["one", "two", "three", "four"];
    let lines = names.map(Lifeline::new);
    let nodes: Vec<_> = lines.iter().map(|line| bus.connect(line.clone())).collect();
    for (name, node) in names.iter().zip(&nodes) {
        echo(node, &format!("{name}.*")).await;
        echo(node, "all.>").await;
    }
    bus.set_faults(Faults { drop: 0.1, duplicate: 0.1, delay: Duration::ZERO..=Duration::from_millis(30) });
    let mut talkers = Vec::new();
    for node in nodes {
        let dice = dice.fork();
        talkers.push(tokio::spawn(async move {
            for _ in 0..40 {
                sleep(Duration::from_micros(dice.between(0..=20_000))).await;
                let to = format!("{}.x", dice.pick(&["one", "two", "three", "four", "all", "none"]));
                if dice.chance(0.5) {
                    let patience = Duration::from_millis(50);
                    let _ = node
                        .request(&subject(&to), Headers::default(), Bytes::from_static(b"?"), patience)
                        .await;
                } else {
                    let _ = publish(&node, &to, "x").await;
                }
            }
        }));
    }
    sleep(Duration::from_millis(100)).await;
    bus.partition("one", "two");
    sleep(Duration::from_millis(100)).await;
    bus.set_outage(true);
    sleep(Duration::from_millis(50)).await;
    bus.set_outage(false);
    bus.heal_all();
    lines[3].cut();
    sleep(3 * SECOND).await;
    talkers.iter().for_each(|talker| talker.abort());
    trace.lines()
}

/// Runs on a runtime of its own, as two runs of a simulation would.
fn talk_alone(seed: u64) -> Vec<String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(talk(seed))
}

#[test]
fn one_seed_gives_one_trace() {
    for seed in 0..20 {
        let first = talk_alone(seed);
        assert!(first.len() > 200, "only {} lines", first.len());
        for outcome in [
            "arrives",
            "dropped",
            "parted",
            "node is dead",
            "the bus is down",
            "request has ended",
            "no longer",
        ] {
            assert!(first.iter().any(|line| line.contains(outcome)), "seed {seed}: nothing was {outcome}");
        }
        let second = talk_alone(seed);
        if let Some(at) = first.iter().zip(&second).position(|(one, other)| one != other) {
            panic!("seed {seed}, line {at}: `{}` the first time, then `{}`", first[at], second[at]);
        }
        assert_eq!(first.len(), second.len(), "seed {seed}");
        assert_ne!(first, talk_alone(seed + 1000));
    }
}
