//! Room on a node: how much waits there and lives there, and whose it is.
//!
//! Past a limit there is no room for anybody. Before that, a tenant may take up to [`TENANT_SHARE`] times what is still
//! free, alone eight ninths of all (dynamic thresholds: Choudhury and Hahne, 1998). So whoever comes late finds room,
//! however much another asks for. And once half of all is taken, nobody gets more than its part, which is those eight
//! ninths divided by how many have something here: whoever has more from before gets nothing until others caught up.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::config::HostConfig;
use crate::sabotage::{Sabotage, is_on};

/// Large, because most nodes serve few tenants at a time, and small enough to leave thousands of places free.
const TENANT_SHARE: usize = 8;

/// The room of one node. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<State>);

#[derive(Debug)]
struct State {
    inputs_max: usize,
    bytes_max: usize,
    entities_max: usize,
    all: Taken,
    /// How many tenants have inputs here, and entities.
    with_inputs: AtomicUsize,
    with_entities: AtomicUsize,
    /// When an entity last found no room, and for how long that counts: until every shard has looked for idle ones.
    refused: Mutex<Option<Instant>>,
    refused_for: Duration,
    tenants: RwLock<Tenants>,
}

/// How much is taken.
#[derive(Debug, Default)]
struct Taken {
    inputs: AtomicUsize,
    bytes: AtomicUsize,
    entities: AtomicUsize,
}

#[derive(Debug)]
struct Tenants {
    taken: HashMap<Box<str>, Arc<Taken>, Xxh3DefaultBuilder>,
    /// With so many it is time to forget those that have nothing here.
    tidy_at: usize,
}

impl Tenants {
    const TIDY_AT_LEAST: usize = 256;
}

/// Whether one more fits, for one of so many tenants.
fn fits(own: usize, all: usize, max: usize, tenants: usize) -> bool {
    let ninths = max.saturating_mul(TENANT_SHARE) / (TENANT_SHARE + 1);
    let part = (ninths / tenants.max(1)).max(1);
    all < max && own < (max - all).saturating_mul(TENANT_SHARE) && (all < max / 2 || own < part)
}

/// Takes a place, and says how much the tenant had before and how many tenants there are now.
fn take(own: &AtomicUsize, tenants: &AtomicUsize) -> (usize, usize) {
    let before = own.fetch_add(1, Ordering::Relaxed);
    match before {
        0 => (before, tenants.fetch_add(1, Ordering::Relaxed) + 1),
        _ => (before, tenants.load(Ordering::Relaxed)),
    }
}

fn give_back(own: &AtomicUsize, tenants: &AtomicUsize) {
    if own.fetch_sub(1, Ordering::Relaxed) == 1 {
        tenants.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Room {
    pub fn new(config: &HostConfig) -> Self {
        Self(Arc::new(State {
            inputs_max: config.inputs_waiting_max,
            bytes_max: config.inputs_waiting_bytes_max,
            entities_max: config.entities_live_max,
            all: Taken::default(),
            with_inputs: AtomicUsize::new(0),
            with_entities: AtomicUsize::new(0),
            refused: Mutex::default(),
            refused_for: config.sweep_every * 2,
            tenants: RwLock::new(Tenants { taken: HashMap::default(), tidy_at: Tenants::TIDY_AT_LEAST }),
        }))
    }

    /// A place among the inputs that may wait on this node, for one of `bytes`; `None` when there is none.
    pub fn admit(&self, tenant: &str, bytes: usize) -> Option<Admission> {
        let tenant = self.tenant(tenant);
        let State { all, inputs_max, bytes_max, with_inputs, .. } = &*self.0;
        let (inputs, tenants) = take(&tenant.inputs, with_inputs);
        let inputs_all = all.inputs.fetch_add(1, Ordering::Relaxed);
        let held = tenant.bytes.fetch_add(bytes, Ordering::Relaxed);
        let held_all = all.bytes.fetch_add(bytes, Ordering::Relaxed);
        let admission = Admission { room: self.clone(), tenant, bytes, entity: None };
        let node_has = inputs_all < *inputs_max && held_all < *bytes_max;
        let tenant_may = is_on(Sabotage::TenantsNotToldApart)
            || fits(inputs, inputs_all, *inputs_max, tenants) && fits(held, held_all, *bytes_max, tenants);
        if !node_has || !tenant_may {
            let by = if node_has { "tenant" } else { "node" };
            metrics::counter!("cadre_host_inputs_refused_total", "by" => by).increment(1);
        }
        (node_has && tenant_may || is_on(Sabotage::AdmissionOff)).then_some(admission)
    }

    /// A place among the entities in memory; `None` when there is none.
    pub fn live(&self, tenant: &str) -> Option<LivePlace> {
        let tenant = self.tenant(tenant);
        let (own, tenants) = take(&tenant.entities, &self.0.with_entities);
        let all = self.0.all.entities.fetch_add(1, Ordering::Relaxed);
        let place = LivePlace { room: self.clone(), tenant };
        let max = self.0.entities_max;
        let told_apart = !is_on(Sabotage::TenantsNotToldApart);
        let has_room = if told_apart { fits(own, all, max, tenants) } else { all < max };
        if !has_room {
            *self.0.refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        has_room.then_some(place)
    }

    pub fn inputs_waiting(&self) -> usize {
        self.0.all.inputs.load(Ordering::Relaxed)
    }

    pub fn inputs_waiting_bytes(&self) -> usize {
        self.0.all.bytes.load(Ordering::Relaxed)
    }

    pub fn entities_live(&self) -> usize {
        self.0.all.entities.load(Ordering::Relaxed)
    }

    /// Whether entities should leave that are not needed now: there is little room, or somebody found none, perhaps
    /// because its part is full of what is idle.
    pub fn is_crowded(&self) -> bool {
        let refused = *self.0.refused.lock().unwrap_or_else(PoisonError::into_inner);
        self.entities_live() * 10 >= self.0.entities_max * 8
            || refused.is_some_and(|refused| refused.elapsed() < self.0.refused_for)
    }

    fn tenant(&self, tenant: &str) -> Arc<Taken> {
        let tenants = self.0.tenants.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = tenants.taken.get(tenant) {
            return taken.clone();
        }
        drop(tenants);
        let mut tenants = self.0.tenants.write().unwrap_or_else(PoisonError::into_inner);
        if tenants.taken.len() >= tenants.tidy_at {
            // Whoever has something here holds on to its count. Clones are made under the lock, so none is made now.
            tenants.taken.retain(|_, taken| Arc::strong_count(taken) > 1);
            tenants.tidy_at = (tenants.taken.len() * 2).max(Tenants::TIDY_AT_LEAST);
        }
        tenants.taken.entry(tenant.into()).or_default().clone()
    }
}

/// A place among the inputs that wait; dropping it makes room.
#[derive(Debug)]
pub(super) struct Admission {
    room: Room,
    tenant: Arc<Taken>,
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
        let State { all, with_inputs, .. } = &*self.room.0;
        give_back(&self.tenant.inputs, with_inputs);
        self.tenant.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        all.inputs.fetch_sub(1, Ordering::Relaxed);
        all.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(entity) = &self.entity {
            entity.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// An entity's place in memory; dropping it makes room.
#[derive(Debug)]
pub(super) struct LivePlace {
    room: Room,
    tenant: Arc<Taken>,
}

impl Drop for LivePlace {
    fn drop(&mut self) {
        give_back(&self.tenant.entities, &self.room.0.with_entities);
        self.room.0.all.entities.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn room(inputs_waiting_max: usize) -> Room {
        Room::new(&HostConfig { inputs_waiting_max, entities_live_max: 90, ..HostConfig::new("c", "n") })
    }

    #[test]
    fn p8_however_much_another_asks_for_there_is_room_for_one_more_tenant() {
        let room = room(1_000);
        let noisy: Vec<_> = std::iter::from_fn(|| room.admit("noisy", 1)).collect();
        assert!((885..=890).contains(&noisy.len()), "alone it has {}", noisy.len());
        assert!(room.admit("quiet", 1).is_some());
        drop(noisy);
        assert_eq!((room.inputs_waiting(), room.inputs_waiting_bytes()), (0, 0));
    }

    #[test]
    fn p8_whoever_was_first_does_not_keep_what_the_others_should_have() {
        const TENANTS: usize = 10;
        let room = room(1_000);
        let mut held: [VecDeque<Admission>; TENANTS] = Default::default();
        for round in 0..20 {
            // All of them ask for as much as they get, in the order in which they came.
            for (tenant, held) in held.iter_mut().enumerate() {
                held.extend(std::iter::from_fn(|| room.admit(&tenant.to_string(), 1)));
            }
            assert!(round < 3 || room.admit("quiet", 1).is_some(), "no room in round {round}");
            let most = held.iter().map(VecDeque::len).max().unwrap_or_default();
            let least = held.iter().map(VecDeque::len).min().unwrap_or_default();
            assert!(round < 4 || least * 2 > most, "{least} to {most} in round {round}");
            for held in &mut held {
                held.drain(..held.len() / 2);
            }
        }
        held.iter_mut().for_each(VecDeque::clear);
        assert_eq!((room.inputs_waiting(), room.0.with_inputs.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn p8_one_tenants_entities_leave_room_for_anothers() {
        let room = room(1);
        let noisy: Vec<_> = std::iter::from_fn(|| room.live("noisy")).collect();
        assert_eq!(noisy.len(), 80);
        assert!(room.is_crowded(), "and those that are idle are asked to leave");
        assert!(room.live("quiet").is_some());
        drop(noisy);
        assert_eq!(room.entities_live(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn p7_a_tenant_whose_part_is_full_has_its_idle_entities_asked_to_leave() {
        let room = room(1);
        let mut noisy: Vec<_> = std::iter::from_fn(|| room.live("noisy")).collect();
        let _others: Vec<_> = (0..8).map(|n| room.live(&n.to_string())).collect();
        noisy.truncate(60);
        tokio::time::advance(room.0.refused_for).await;
        assert!(!room.is_crowded(), "there is room");
        assert!(room.live("noisy").is_none(), "but not for this one");
        assert!(room.is_crowded());
    }

    #[test]
    fn p9_a_tenant_with_nothing_here_is_forgotten() {
        let room = room(10_000);
        let kept: Vec<_> = (0..10).map(|n| room.admit(&format!("kept {n}"), 1)).collect();
        for n in 0..10_000 {
            drop(room.admit(&n.to_string(), 1));
        }
        let tenants = room.0.tenants.read().unwrap();
        assert!(tenants.taken.len() <= Tenants::TIDY_AT_LEAST, "{} are remembered", tenants.taken.len());
        assert!((0..10).all(|n| tenants.taken.contains_key(&*format!("kept {n}"))));
        assert_eq!(kept.len(), 10);
    }
}
