//! What all actors of one node share.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, atomic::AtomicBool},
    time::Duration,
};

use ractor::ActorRef;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::time::Instant;

use super::{
    committer::Committer, config::HostConfig, fence::Fence, kind::Kinds, room::Room, shard::ShardMessage,
};
use crate::{
    address::ShardId,
    bus::Bus,
    clock::{Clock, Timestamp},
    store::Store,
};

/// One per node, behind an `Arc`.
pub(super) struct Shared {
    pub config: HostConfig,
    pub store: Store,
    pub bus: Bus,
    pub clock: Arc<dyn Clock>,
    pub kinds: Kinds,
    pub fence: Arc<Fence>,
    pub committer: Committer,
    pub feed_epoch: u32,
    /// How much waits and lives here, and whose it is.
    pub room: Room,
    pub routes: Arc<Routes>,
    pub draining: AtomicBool,
    /// Whether the node is about to compare plan and facts.
    pub tick_waits: AtomicBool,
    /// When it last could.
    looked: Mutex<Option<Instant>>,
    beats: Mutex<Beats>,
    /// Entities make ids of it that nobody may guess: whoever has seen some of its numbers cannot tell the next.
    entropy: Mutex<StdRng>,
}

impl Shared {
    #[allow(clippy::too_many_arguments, reason = "called once, with every part that a node is made of")]
    pub fn new(
        config: HostConfig,
        store: Store,
        bus: Bus,
        clock: Arc<dyn Clock>,
        kinds: Kinds,
        fence: Arc<Fence>,
        committer: Committer,
        routes: Arc<Routes>,
        feed_epoch: u32,
        joining: Instant,
        seed: u64,
    ) -> Self {
        Self {
            room: Room::new(&config),
            config,
            store,
            bus,
            clock,
            kinds,
            fence,
            committer,
            feed_epoch,
            routes,
            draining: AtomicBool::new(false),
            tick_waits: AtomicBool::new(false),
            looked: Mutex::default(),
            beats: Mutex::new(Beats::new(joining)),
            entropy: Mutex::new(StdRng::seed_from_u64(seed)),
        }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn seed(&self) -> u64 {
        self.entropy.lock().unwrap_or_else(PoisonError::into_inner).random()
    }

    /// A heartbeat that was begun at `begun` was accepted.
    pub fn beat_accepted(&self, begun: Instant) {
        self.beats().accepted(begun, Instant::now(), self.config.lease_ttl);
    }

    /// What the store says about our leases was followed, as of `looked` or later.
    pub fn leases_followed(&self, looked: Instant) {
        self.beats().followed(looked);
        *self.looked.lock().unwrap_or_else(PoisonError::into_inner) = Some(looked);
    }

    /// How long ago members and leases were last read; `None` if never.
    pub fn placement_seen(&self) -> Option<Duration> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).map(|looked| looked.elapsed())
    }

    /// Whether nobody can have taken our shards without our knowing.
    pub fn is_lease_sure(&self) -> bool {
        self.beats().is_sure(Instant::now(), self.config.lease_ttl)
    }

    /// How long ago the last accepted heartbeat was begun.
    pub fn beaten(&self) -> Duration {
        self.beats().begun.elapsed()
    }

    fn beats(&self) -> MutexGuard<'_, Beats> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What our heartbeats say about our leases. Others wait for a lease time after the last heartbeat they saw; past
/// that they may have taken our shards, and a heartbeat that is accepted afterwards does not bring those back.
#[derive(Debug)]
struct Beats {
    /// When the last one that was accepted had been begun.
    begun: Instant,
    /// When it was.
    accepted: Instant,
    /// Whether there was a pause of a lease time since we last knew our leases.
    lapsed: bool,
}

impl Beats {
    fn new(joining: Instant) -> Self {
        Self { begun: joining, accepted: joining, lapsed: false }
    }

    fn accepted(&mut self, begun: Instant, now: Instant, ttl: Duration) {
        let lapsed = self.lapsed || now.duration_since(self.begun) >= ttl;
        *self = Self { begun, accepted: now, lapsed };
    }

    /// Whoever took something before the last heartbeat shows in a look that was begun after it.
    fn followed(&mut self, looked: Instant) {
        self.lapsed &= looked < self.accepted;
    }

    fn is_sure(&self, now: Instant, ttl: Duration) -> bool {
        !self.lapsed && now.duration_since(self.begun) < ttl
    }
}

/// The shard actors of this node.
#[derive(Debug, Default)]
pub(super) struct Routes(RwLock<Vec<Option<ActorRef<ShardMessage>>>>);

impl Routes {
    pub fn get(&self, shard: ShardId) -> Option<ActorRef<ShardMessage>> {
        let routes = self.0.read().unwrap_or_else(PoisonError::into_inner);
        routes.get(usize::from(shard.0)).cloned().flatten()
    }

    pub fn set(&self, shard: ShardId, actor: Option<ActorRef<ShardMessage>>) {
        let mut routes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let index = usize::from(shard.0);
        if routes.len() <= index {
            routes.resize(index + 1, None);
        }
        routes[index] = actor;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(2);

    #[test]
    fn a_heartbeat_after_a_lapse_does_not_make_leases_sure_that_may_be_taken() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut beats = Beats::new(start);
        assert!(beats.is_sure(after(1_999), TTL));
        beats.accepted(after(400), after(410), TTL);
        assert!(beats.is_sure(after(2_399), TTL) && !beats.is_sure(after(2_400), TTL));
        beats.accepted(after(2_300), after(2_400), TTL);
        assert!(!beats.is_sure(after(2_401), TTL), "others may have taken them before they saw it");
        beats.followed(after(2_350));
        assert!(!beats.is_sure(after(2_401), TTL), "a look from before tells nothing");
        beats.followed(after(2_400));
        assert!(beats.is_sure(after(2_401), TTL));
    }
}
