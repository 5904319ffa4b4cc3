//! What all actors of one node share.

use std::sync::{
    Arc, Mutex, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};

use ractor::ActorRef;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use tokio::time::Instant;

use super::{committer::Committer, config::HostConfig, fence::Fence, kind::Kinds, shard::ShardMessage};
use crate::{
    address::ShardId,
    bus::Bus,
    clock::{Clock, Timestamp},
    sabotage::{Sabotage, is_on},
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
    pub entities_live: Arc<AtomicUsize>,
    pub routes: Arc<Routes>,
    pub draining: AtomicBool,
    admitted: Arc<Admitted>,
    /// When the last heartbeat that was accepted had been begun.
    beaten: Mutex<Instant>,
    entropy: Mutex<SmallRng>,
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
            config,
            store,
            bus,
            clock,
            kinds,
            fence,
            committer,
            feed_epoch,
            routes,
            entities_live: Arc::default(),
            draining: AtomicBool::new(false),
            admitted: Arc::default(),
            beaten: Mutex::new(joining),
            entropy: Mutex::new(SmallRng::seed_from_u64(seed)),
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
        *self.beaten.lock().unwrap_or_else(PoisonError::into_inner) = begun;
    }

    /// Whether nobody can have taken us for dead yet: others wait for a lease time after the last heartbeat they
    /// saw.
    pub fn is_lease_sure(&self) -> bool {
        let beaten = *self.beaten.lock().unwrap_or_else(PoisonError::into_inner);
        beaten.elapsed() < self.config.lease_ttl
    }

    /// A place among the inputs that may wait on this node, for one of `bytes`; `None` when it is full.
    pub fn admit(&self, bytes: usize) -> Option<Admission> {
        let inputs = self.admitted.inputs.fetch_add(1, Ordering::Relaxed);
        let held = self.admitted.bytes.fetch_add(bytes, Ordering::Relaxed);
        let admission = Admission { node: self.admitted.clone(), bytes, entity: None };
        let fits = inputs < self.config.inputs_waiting_max && held < self.config.inputs_waiting_bytes_max;
        (fits || is_on(Sabotage::AdmissionOff)).then_some(admission)
    }

    pub fn inputs_waiting(&self) -> usize {
        self.admitted.inputs.load(Ordering::Relaxed)
    }

    pub fn inputs_waiting_bytes(&self) -> usize {
        self.admitted.bytes.load(Ordering::Relaxed)
    }
}

/// How much waits on a node.
#[derive(Debug, Default)]
struct Admitted {
    inputs: AtomicUsize,
    bytes: AtomicUsize,
}

/// A place among the inputs that wait; dropping it makes room.
#[derive(Debug)]
pub(super) struct Admission {
    node: Arc<Admitted>,
    bytes: usize,
    entity: Option<Arc<AtomicU32>>,
}

impl Admission {
    /// Also a place among the inputs of one entity, which the caller has counted.
    pub fn also(&mut self, entity: Arc<AtomicU32>) {
        self.entity = Some(entity);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.node.inputs.fetch_sub(1, Ordering::Relaxed);
        self.node.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(entity) = &self.entity {
            entity.fetch_sub(1, Ordering::Relaxed);
        }
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
