//! The surroundings of the nodes of one simulation, the same for all of them.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Dice, Trace, world::World};
use crate::{
    address::ShardId, bus::simulated::SimBus, host::HostConfig, keys, placement::Takeover,
    store::simulated::SimStore,
};

/// The name of the simulated cluster.
pub const CLUSTER: &str = "sim";

/// The most that a clock is wrong.
pub const SKEW_MAX: Duration = Duration::from_secs(3);

/// Everything that a node is started with.
pub struct Env {
    /// True time, and what lies outside.
    pub world: Arc<World>,
    /// The store that all nodes share.
    pub store: SimStore,
    /// The bus between them.
    pub bus: SimBus,
    /// What happened.
    pub trace: Trace,
    /// How many shards there are.
    pub shards: u16,
    /// Whether the bus may deliver a message twice.
    pub doubles: bool,
    /// How long idempotency keys are remembered.
    pub keys_ttl: Duration,
    /// Bounds of hosting.
    pub limits: Limits,
    /// Who else is on the bus, by name: a node may be parted from them, too.
    pub outsiders: &'static [&'static str],
}

/// Bounds of hosting that differ from one simulation to the next.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Entities in memory of one node.
    pub entities_live: usize,
    /// Inputs that one step takes.
    pub step_inputs: usize,
    /// Steps that are committed together.
    pub group_steps: usize,
    /// Commits of a node that are under way at once.
    pub groups_in_flight: usize,
}

impl Limits {
    fn draw(dice: &Dice) -> Self {
        Self {
            // Few enough that entities have to leave for others, more than have effects at a time.
            entities_live: *dice.pick(&[8, 1_000, 1_000, 1_000]),
            step_inputs: *dice.pick(&[1, 4, 16, 16]),
            group_steps: *dice.pick(&[1, 4, 32, 32]),
            groups_in_flight: *dice.pick(&[1, 2, 4]),
        }
    }
}

impl Env {
    /// How often a shard looks for keys to forget.
    pub(super) const SWEEP_EVERY: Duration = Duration::from_secs(1);
    /// Longer than anybody in a simulation sleeps.
    const SOON: Duration = Duration::from_secs(24 * 3600);

    /// Surroundings with a store and a bus of their own, drawn.
    pub fn draw(dice: &Dice, shards: u16) -> Self {
        let world = World::new(dice.fork());
        let trace = Trace::new();
        let (store, bus) = (SimStore::new(dice.fork()), SimBus::new(dice.fork()));
        bus.set_death_notice(Duration::from_millis(dice.between(0..=500)));
        if dice.chance(0.2) {
            // A slow listener misses what comes too fast.
            bus.set_queue_capacity(16);
        }
        let keys_ttl = Duration::from_secs(if dice.chance(0.25) { 8 } else { 25 * 3600 });
        let doubles = dice.chance(0.5);
        let limits = Limits::draw(dice);
        Self { world, store, bus, trace, shards, doubles, keys_ttl, limits, outsiders: &[] }
    }

    /// Whether keys are forgotten within the simulation.
    pub(super) fn forgets(&self) -> bool {
        self.keys_ttl < Duration::from_secs(3600)
    }

    /// When every key that was used until now is forgotten, whatever the clocks say.
    pub(super) fn forgotten_by(&self) -> Instant {
        Instant::now() + self.keys_ttl + 2 * SKEW_MAX + 3 * Self::SWEEP_EVERY
    }

    /// How a node of that name hosts.
    pub fn config(&self, node: &str) -> HostConfig {
        HostConfig {
            shards: self.shards,
            takeover: Takeover::AfterWatching,
            inputs_waiting_max: 24,
            inputs_per_entity_max: 8,
            entities_live_max: self.limits.entities_live,
            step_inputs_max: self.limits.step_inputs,
            group_steps_max: self.limits.group_steps,
            groups_in_flight_max: self.limits.groups_in_flight,
            sweep_every: Self::SWEEP_EVERY,
            idempotency_ttl: self.keys_ttl,
            ..HostConfig::new(CLUSTER, node)
        }
    }

    /// What is left to do soon: keys of inboxes, timers and pending effects. Whatever is kept for weeks goes by a timer,
    /// too, and nobody waits for that.
    pub fn leftovers(&self) -> Vec<String> {
        let soon = self.world.now().after(Self::SOON);
        let mut left = Vec::new();
        for shard in (0..self.shards).map(ShardId) {
            let timers = keys::timers_due(shard, soon);
            for range in [keys::inboxes(shard), timers, keys::awakes(shard)] {
                left.extend(self.store.scan(&range).iter().map(|pair| pair.key.escape_ascii().to_string()));
            }
        }
        left
    }

    /// Waits until nothing is left to do; what is left at the deadline.
    pub async fn come_to_rest(&self, deadline: Instant) -> Vec<String> {
        loop {
            let left = self.leftovers();
            if left.is_empty() || Instant::now() >= deadline {
                return left;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
