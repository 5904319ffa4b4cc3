//! The nemesis: does to the cluster, at drawn moments, whatever may happen to one.

use std::{sync::Arc, time::Duration};

use super::{
    Dice,
    env::{Env, SKEW_MAX},
    nodes::{Program, SimNode},
};
use crate::{
    bus::simulated::Faults as BusFaults,
    store::simulated::{Faults as StoreFaults, Outage},
};

/// Troubles the cluster for `duration`, then makes everything well again.
pub async fn trouble<P: Program>(env: &Env, nodes: &[Arc<SimNode<P>>], dice: &Dice, duration: Duration) {
    let end = tokio::time::Instant::now() + duration;
    weather(env, dice);
    while tokio::time::Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(dice.between(50..=2_500))).await;
        let node = dice.pick(nodes);
        match dice.between(0..=14) {
            0..=1 => crash(env, node, dice).await,
            2 => crash_soon(env, node, dice).await,
            3..=4 => sleep_over(env, node, dice).await,
            5 => cut_from_store(env, node, dice).await,
            6 => part(env, nodes, dice).await,
            7 => skew(env, node, dice),
            8 => drain(env, node, dice).await,
            9 => bus_outage(env, dice).await,
            10 => supplant(env, node, dice).await,
            11 => slow_down(env, node, dice).await,
            12 if !nodes.iter().any(|node| node.is_retired()) => retire(env, node, dice).await,
            _ => weather(env, dice),
        }
    }
    make_well(env, nodes).await;
}

/// Ends all faults, and starts whoever is down.
async fn make_well<P: Program>(env: &Env, nodes: &[Arc<SimNode<P>>]) {
    env.trace.note("all is well");
    // A commit takes its time also when all is well: whoever goes round in circles gets to the end of it.
    let a_moment = Duration::from_millis(1)..=Duration::from_millis(1);
    env.store.set_faults(StoreFaults { commit_latency: a_moment, ..StoreFaults::none() });
    env.bus.set_faults(BusFaults::none());
    env.bus.set_outage(false);
    env.bus.heal_all();
    for node in nodes {
        env.store.set_faults_at(&node.name, None);
        node.bury_former().await;
        if let Some(lifeline) = node.lifeline().await {
            lifeline.be_safe();
            lifeline.release();
        }
        node.start().await;
    }
}

fn weather(env: &Env, dice: &Dice) {
    let ms = Duration::from_millis;
    let rough = dice.chance(0.6);
    env.trace.note(format_args!("weather: {}", if rough { "rough" } else { "fair" }));
    env.store.set_faults(if rough {
        StoreFaults::rough()
    } else {
        StoreFaults { read_latency: ms(0)..=ms(1), commit_latency: ms(1)..=ms(3), ..StoreFaults::none() }
    });
    env.bus.set_faults(if dice.chance(0.6) {
        let duplicate = if env.doubles { 0.1 } else { 0.0 };
        BusFaults { drop: 0.1, duplicate, delay: ms(0)..=ms(40) }
    } else {
        BusFaults { delay: ms(0)..=ms(1), ..BusFaults::none() }
    });
}

/// Dies now, comes back later.
async fn crash<P: Program>(env: &Env, node: &Arc<SimNode<P>>, dice: &Dice) {
    env.trace.note(format_args!("{} crashes", node.name));
    node.crash().await;
    restart_later(node, dice);
}

/// Dies at one of its next actions, before or after it takes effect.
async fn crash_soon<P: Program>(env: &Env, node: &Arc<SimNode<P>>, dice: &Dice) {
    let Some(lifeline) = node.lifeline().await else { return };
    env.trace.note(format_args!("{} may crash at any moment", node.name));
    lifeline.crash_by_chance(0.02, dice.fork());
    let (node, dice) = (node.clone(), dice.fork());
    tokio::spawn(async move {
        if tokio::time::timeout(Duration::from_secs(4), lifeline.cut_happened()).await.is_ok() {
            node.crash().await;
            restart_later(&node, &dice);
        } else {
            lifeline.be_safe();
        }
    });
}

fn restart_later<P: Program>(node: &Arc<SimNode<P>>, dice: &Dice) {
    let (node, wait) = (node.clone(), Duration::from_millis(dice.between(10..=5_000)));
    tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        node.start().await;
    });
}

/// Sleeps, possibly past its lease, and wakes up believing that nothing happened.
async fn sleep_over<P: Program>(env: &Env, node: &Arc<SimNode<P>>, dice: &Dice) {
    let Some(lifeline) = node.lifeline().await else { return };
    let sleep = Duration::from_millis(dice.between(100..=7_000));
    env.trace.note(format_args!("{} sleeps for {} ms", node.name, sleep.as_millis()));
    lifeline.hold();
    tokio::spawn(async move {
        tokio::time::sleep(sleep).await;
        lifeline.release();
    });
}

/// Sleeps, and is replaced under its own name meanwhile. When it wakes it may be the one that is too many, or the
/// other one has to wait until it dies.
async fn supplant<P: Program>(env: &Env, node: &Arc<SimNode<P>>, dice: &Dice) {
    let Some(lifeline) = node.lifeline().await else { return };
    let sleep = Duration::from_millis(dice.between(100..=6_000));
    let awake = Duration::from_millis(dice.between(100..=3_000));
    env.trace.note(format_args!("{} is replaced and wakes after {} ms", node.name, sleep.as_millis()));
    lifeline.hold();
    tokio::spawn(async move {
        tokio::time::sleep(sleep).await;
        lifeline.release();
        tokio::time::sleep(awake).await;
        lifeline.cut();
    });
    let node = node.clone();
    tokio::spawn(async move { node.supplant().await });
}

/// Leaves for good, in one way or another.
async fn retire<P: Program>(env: &Env, node: &Arc<SimNode<P>>, dice: &Dice) {
    env.trace.note(format_args!("{} leaves for good", node.name));
    node.retire();
    if dice.chance(0.5) {
        node.drain().await;
    } else {
        node.crash().await;
    }
}

/// Reaches the store only slowly, some of it too late.
async fn slow_down<P: Program>(env: &Env, node: &Arc<SimNode<P>>, dice: &Dice) {
    env.trace.note(format_args!("the store is slow for {}", node.name));
    let faults = StoreFaults { slow_read: 0.2, slow_commit: 0.3, ..StoreFaults::rough() };
    env.store.set_faults_at(&node.name, Some(faults));
    tokio::time::sleep(Duration::from_millis(dice.between(500..=5_000))).await;
    env.store.set_faults_at(&node.name, None);
}

/// Cannot reach the store, while the others can.
async fn cut_from_store<P: Program>(env: &Env, node: &Arc<SimNode<P>>, dice: &Dice) {
    let outage = if dice.chance(0.5) { Outage::Hanging } else { Outage::Refusing };
    env.trace.note(format_args!("{} loses the store: {outage:?}", node.name));
    env.store.set_faults_at(&node.name, Some(StoreFaults::rough().with_outage(outage)));
    tokio::time::sleep(Duration::from_millis(dice.between(100..=5_000))).await;
    env.store.set_faults_at(&node.name, None);
}

/// Two nodes, or a node and its clients or readers, no longer hear each other, perhaps only in one direction.
async fn part<P: Program>(env: &Env, nodes: &[Arc<SimNode<P>>], dice: &Dice) {
    let one = &dice.pick(nodes).name;
    let others: Vec<&str> =
        nodes.iter().map(|node| node.name.as_str()).chain(env.outsiders.iter().copied()).collect();
    let other = *dice.pick(&others);
    env.trace.note(format_args!("{one} and {other} are parted"));
    env.bus.block(one, other);
    if dice.chance(0.5) {
        env.bus.block(other, one);
    }
    tokio::time::sleep(Duration::from_millis(dice.between(100..=4_000))).await;
    env.bus.heal(one, other);
}

/// The clock jumps, forwards or backwards.
fn skew<P: Program>(env: &Env, node: &Arc<SimNode<P>>, dice: &Dice) {
    let most = SKEW_MAX.as_millis() as u64;
    let offset = dice.between(0..=2 * most).cast_signed() - most.cast_signed();
    env.trace.note(format_args!("{}'s clock is off by {offset} ms", node.name));
    node.skew(offset);
}

/// Hands over, stops, and comes back: a rolling upgrade.
async fn drain<P: Program>(env: &Env, node: &Arc<SimNode<P>>, dice: &Dice) {
    env.trace.note(format_args!("{} drains", node.name));
    node.drain().await;
    env.trace.note(format_args!("{} is drained", node.name));
    restart_later(node, dice);
}

async fn bus_outage(env: &Env, dice: &Dice) {
    env.trace.note("the bus is down");
    env.bus.set_outage(true);
    tokio::time::sleep(Duration::from_millis(dice.between(100..=5_000))).await;
    env.bus.set_outage(false);
}
