//! The bounds and intervals of hosting (P9: everything that could grow has one).

use std::{sync::Arc, time::Duration};

use super::fair::{EqualWeights, Weights};
use crate::placement::Takeover;

/// How a node hosts entities.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name, unique in the cluster.
    pub node: String,
    /// How many shards the cluster has; fixed when it is created.
    pub shards: u16,
    /// What to do about a former life of this name.
    pub takeover: Takeover,
    /// How long a member may be silent before its shards are taken.
    pub lease_ttl: Duration,
    /// How often to beat and to compare the plan with the facts.
    pub heartbeat_every: Duration,
    /// How often a shard looks for work whose doorbell was lost.
    pub look_every: Duration,
    /// How much of the node each tenant gets while several have steps waiting.
    pub weights: Arc<dyn Weights>,
    /// The most inputs that may wait on this node. One tenant alone gets eight ninths of this and of the next and of
    /// [`Self::entities_live_max`]: the rest is for whoever comes late.
    pub inputs_waiting_max: usize,
    /// The most bytes that inputs may hold while they wait on this node.
    pub inputs_waiting_bytes_max: usize,
    /// The most commands that may wait for one entity.
    pub inputs_per_entity_max: u32,
    /// The most entities in memory.
    pub entities_live_max: usize,
    /// The most inputs that one step takes.
    pub step_inputs_max: usize,
    /// A step takes no further input past this many bytes of writes.
    pub step_bytes_soft_max: usize,
    /// The most that one input may cause to be written.
    pub input_bytes_max: usize,
    /// The largest record of an entity.
    pub record_bytes_max: usize,
    /// The most timers, and the most pending effects, of one entity.
    pub pending_max: usize,
    /// The most steps in one group commit.
    pub group_steps_max: usize,
    /// The most bytes in one group commit, but for a single step that is larger.
    pub group_bytes_max: usize,
    /// How many group commits may be on their way at once.
    pub groups_in_flight_max: usize,
    /// How long an idempotency key is remembered.
    pub idempotency_ttl: Duration,
    /// How often idle entities are asked to leave memory, and what has expired is removed.
    pub sweep_every: Duration,
    /// How long a shard that should move waits for effects that must not be repeated. It serves meanwhile.
    pub effects_grace: Duration,
    /// How long messages may wait for a node that hosts their kind before they become dead letters.
    pub unhosted_after: Duration,
    /// How long a dead letter is kept.
    pub dead_letter_ttl: Duration,
    /// The first pause after an entity's actor crashed; it doubles up to [`Self::crash_backoff_max`].
    pub crash_backoff: Duration,
    /// The longest such pause.
    pub crash_backoff_max: Duration,
}

impl HostConfig {
    /// The defaults for a node.
    pub fn new(cluster: &str, node: &str) -> Self {
        Self {
            cluster: cluster.into(),
            node: node.into(),
            shards: 256,
            takeover: Takeover::AfterWatching,
            lease_ttl: Duration::from_secs(2),
            heartbeat_every: Duration::from_millis(400),
            look_every: Duration::from_secs(1),
            weights: Arc::new(EqualWeights),
            inputs_waiting_max: 100_000,
            inputs_waiting_bytes_max: 256 * 1024 * 1024,
            inputs_per_entity_max: 1_024,
            entities_live_max: 200_000,
            step_inputs_max: 512,
            step_bytes_soft_max: 512 * 1024,
            input_bytes_max: 6 * 1024 * 1024,
            record_bytes_max: 96 * 1024,
            pending_max: 1_024,
            group_steps_max: 2_048,
            group_bytes_max: 2 * 1024 * 1024,
            groups_in_flight_max: 2,
            idempotency_ttl: Duration::from_secs(25 * 3600),
            sweep_every: Duration::from_secs(5),
            // A third of the time that Kubernetes gives a pod to end.
            effects_grace: Duration::from_secs(10),
            // A rolling upgrade that brings the kind is over by then.
            unhosted_after: Duration::from_secs(3600),
            dead_letter_ttl: Duration::from_secs(30 * 24 * 3600),
            crash_backoff: Duration::from_millis(100),
            crash_backoff_max: Duration::from_secs(30),
        }
    }
}
