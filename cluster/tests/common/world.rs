//! Nodes on one store and one bus.

use std::{
    any::Any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use cadre_cluster::{
    address::Address,
    bus::{
        Bus, LocalBus,
        nats::{NatsBus, NatsConfig, testing::NatsServer},
    },
    clock::{Clock, SystemClock, Timestamp},
    codec,
    feed::{Cursor, Feed},
    host::{CallError, Called, Client, DeadLetter, HostConfig, Kinds, Node, StartError, read_entity},
    keys,
    store::{
        KeyRange, KeyValue, RangeRead, Store,
        embedded::{Embedded, EmbeddedConfig},
    },
};
use futures::TryStreamExt;

use super::{
    PATIENCE, eventually,
    faulty::{Faults, faulty},
    probe::{Command, Deeds, Entry, LEDGER, Probe, ProbeState, Refusal, Shown, TENANT},
};

pub const SHARDS: u16 = 8;
pub const CLUSTER: &str = "test";
/// Long enough for a busy machine, short enough to wait for.
pub const LEASE_TTL: Duration = Duration::from_millis(800);

/// What a call of a probe comes to.
pub type Answer = Result<Called<Shown>, CallError<Refusal>>;

pub struct World {
    /// With faults.
    pub store: Store,
    /// Without.
    pub sound: Store,
    pub faults: Faults,
    pub clock: Arc<TestClock>,
    pub deeds: Deeds,
    pub idle_max: Duration,
    buses: Buses,
    seed: AtomicU64,
    _kept: Option<Box<dyn Any + Send + Sync>>,
}

enum Buses {
    Local(LocalBus),
    Nats(Box<Mutex<NatsServer>>),
}

/// The system's clock, put forward or back.
#[derive(Debug, Default)]
pub struct TestClock(AtomicI64);

impl TestClock {
    pub fn shift_ms(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0.saturating_add_signed(self.0.load(Ordering::SeqCst)))
    }
}

/// An embedded store and a local bus.
pub async fn embedded_local(_: &str) -> World {
    let (store, kept) = embedded();
    World::new(store, Buses::Local(LocalBus::new()), Some(kept))
}

/// An embedded store shared by all nodes, each with its own connection to a NATS server.
pub async fn embedded_nats(_: &str) -> World {
    let (store, kept) = embedded();
    World::new(store, Buses::Nats(Box::new(Mutex::new(NatsServer::start()))), Some(kept))
}

fn embedded() -> (Store, Box<dyn Any + Send + Sync>) {
    let folder = tempfile::Builder::new().prefix("cadre-hosting-").tempdir().unwrap();
    let config = EmbeddedConfig {
        reserve_bytes: 1 << 20,
        segment_bytes: 4 << 20,
        cache_bytes: 8 << 20,
        ..EmbeddedConfig::new(folder.path())
    };
    let store = Embedded::open(config).unwrap().store();
    (store, Box::new(folder))
}

impl World {
    /// A world on somebody else's store.
    pub fn on(store: Store) -> Self {
        Self::new(store, Buses::Local(LocalBus::new()), None)
    }

    fn new(sound: Store, buses: Buses, kept: Option<Box<dyn Any + Send + Sync>>) -> Self {
        let faults = Faults::default();
        Self {
            store: faulty(sound.clone(), faults.clone()),
            sound,
            faults,
            clock: Arc::default(),
            deeds: Deeds::default(),
            idle_max: Duration::from_secs(60),
            buses,
            seed: AtomicU64::new(1),
            _kept: kept,
        }
    }

    pub fn config(&self, name: &str) -> HostConfig {
        HostConfig {
            shards: SHARDS,
            lease_ttl: LEASE_TTL,
            heartbeat_every: Duration::from_millis(100),
            look_every: Duration::from_millis(200),
            sweep_every: Duration::from_millis(100),
            crash_backoff: Duration::from_millis(20),
            ..HostConfig::new(CLUSTER, name)
        }
    }

    /// A connection to the bus.
    pub async fn bus(&self) -> Bus {
        let config = match &self.buses {
            Buses::Local(bus) => return Arc::new(bus.clone()),
            Buses::Nats(server) => {
                NatsConfig { reconnect_delay_ms_max: 200, ..server.lock().unwrap().config() }
            }
        };
        Arc::new(NatsBus::connect(&config).await.unwrap())
    }

    /// Does something to the NATS server; whether there is one.
    pub fn nats(&self, change: impl FnOnce(&mut NatsServer)) -> bool {
        match &self.buses {
            Buses::Local(_) => false,
            Buses::Nats(server) => {
                change(&mut server.lock().unwrap());
                true
            }
        }
    }

    /// Starts a node.
    pub async fn node(&self, name: &str) -> Node {
        self.try_node(self.config(name)).await.unwrap()
    }

    pub async fn try_node(&self, config: HostConfig) -> Result<Node, StartError> {
        self.try_node_on(self.store.clone(), config).await
    }

    /// A node that reaches the store in its own way.
    pub async fn try_node_on(&self, store: Store, config: HostConfig) -> Result<Node, StartError> {
        let probe = Probe { deeds: self.deeds.clone(), idle_max: self.idle_max };
        let kinds = Kinds::new().with(probe);
        let seed = self.seed.fetch_add(1, Ordering::SeqCst);
        Node::start(config, store, self.bus().await, self.clock.clone(), kinds, seed).await
    }

    /// A client without a node.
    pub async fn client(&self) -> Client {
        Client::remote(CLUSTER, SHARDS, self.bus().await)
    }

    /// Waits until these nodes serve everything, none of it nothing.
    pub async fn settled(&self, nodes: &[&Node]) {
        eventually("every shard is served", async || {
            let mut served = 0;
            for node in nodes {
                let shards = node.status().await.map_or(0, |status| status.shards.len());
                if shards == 0 {
                    return false;
                }
                served += shards;
            }
            served == usize::from(SHARDS)
        })
        .await;
    }

    /// The feed of all probes.
    pub fn feed(&self) -> Feed {
        Feed::new(self.store.clone(), TENANT, LEDGER, 1)
    }

    /// All that is in it.
    pub async fn ledger(&self) -> Vec<Entry> {
        let (feed, mut entries, mut cursor) = (self.feed(), Vec::new(), Cursor::START);
        loop {
            let page = feed.read(cursor, 1_000).await.unwrap();
            entries.extend(page.events.iter().map(Entry::read));
            cursor = page.cursor;
            if !page.more {
                return entries;
            }
        }
    }

    /// Writes past all nodes.
    pub async fn write(&self, key: Bytes, value: &[u8]) {
        let mut tx = self.sound.begin();
        tx.set(key, value.to_vec());
        tx.commit().await.unwrap();
    }

    pub async fn all(&self, range: KeyRange) -> Vec<KeyValue> {
        let tx = self.sound.begin();
        tx.snapshot_stream(RangeRead::new(range)).try_collect().await.unwrap()
    }

    pub async fn dead_letters(&self) -> Vec<DeadLetter> {
        let letters = self.all(keys::dead_letters(TENANT)).await;
        letters.iter().map(|pair| codec::decode(&pair.value).unwrap()).collect()
    }

    /// What is stored of a probe.
    pub async fn stored(&self, address: &Address) -> ProbeState {
        let stored = self.sound.begin().snapshot_get(&keys::state(address)).await.unwrap();
        stored.map(|stored| read_entity::<Probe>(&stored).unwrap().1).unwrap_or_default()
    }

    /// Every probe that is stored.
    pub async fn probes(&self) -> Vec<(Address, u64, ProbeState)> {
        use cadre_cluster::host::Entity;
        let stored = self.all(keys::states(TENANT, Probe::KIND)).await;
        let read = |pair: &KeyValue| {
            let (sequence, state) = read_entity::<Probe>(&pair.value).unwrap();
            (keys::parse_state(&pair.key).unwrap(), sequence, state)
        };
        stored.iter().map(read).collect()
    }
}

/// Asks a probe, once.
pub async fn ask(client: &Client, who: Address, command: Command, key: Option<&str>) -> Answer {
    client.call::<Probe>(&who, &command, key, PATIENCE).await
}

/// Asks a probe that has no reason to refuse.
pub async fn tell(client: &Client, who: Address, command: Command) -> Called<Shown> {
    ask(client, who, command, None).await.unwrap()
}

/// What a probe is now.
pub async fn look(client: &Client, who: Address) -> ProbeState {
    tell(client, who, Command::Look).await.reply.0
}
