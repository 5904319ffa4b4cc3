//! The runtime as its users see it: a node that hosts the entities, and the control plane in front of it. The control
//! plane alone, which a gateway without a worker has, reaches the nodes of its cluster over the bus.

mod benchmarks;
mod caller;
pub mod channels;
mod execute;
mod exports;
mod failure;
mod feed;
mod governance;
mod history;
mod jobs;
mod key;
mod load;
mod outside;
pub mod reader;
mod repair;
mod request;
mod runs;
mod sessions;
mod snapshots;
mod span;
mod subagents;
mod sweep;
mod tasks;
mod turns;
mod wait;

use std::{sync::Arc, time::Duration};

use cadre_cluster::{
    bus::Bus,
    clock::{Clock, Timestamp},
    host::{Client, HostConfig, Kinds, Node, StartError},
    store::Store,
};
use rand::{SeedableRng, rngs::StdRng};

pub use self::{
    caller::{Caller, Credential},
    feed::{EventFilter, EventPage, Follow},
    sweep::Swept,
};
use self::{
    request::Request,
    sweep::{Sweeper, Sweeping},
};
pub use crate::control::result::Answer;
use crate::{
    blob::{Blobs, Retention},
    entity::{Host, Job, JobItem, Session, Subagent, Task},
    exec::Engine,
    fact::{Id, IdSource, Publisher},
    signing::Signer,
    tenant::Directory,
};

/// How a runtime is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How its node hosts entities.
    pub host: HostConfig,
    /// What its events say about where they come from.
    pub publisher: Publisher,
    /// How long a command may take when its caller does not say.
    pub deadline: Duration,
    /// How long blobs are kept.
    pub retention: Retention,
}

/// The most entities in memory on one machine. A live one takes 10 to 30 KiB with its mailbox and state, so a tree that
/// fans out faster than it ends stays below a gigabyte; the rest waits in the store.
pub const ENTITIES_LIVE_MAX: usize = 20_000;

/// A running runtime. Cheap to clone; [`Runtime::stop`] ends it for all.
#[derive(Clone)]
pub struct Runtime {
    node: Arc<tokio::sync::Mutex<Option<Node>>>,
    /// Whether there was a node from the beginning.
    hosts: bool,
    client: Client,
    store: Store,
    bus: Bus,
    clock: Arc<dyn Clock>,
    engine: Arc<Engine>,
    blobs: Blobs,
    tenants: Directory,
    settings: Arc<Settings>,
    feed_epoch: u32,
    signer: Signer,
    readers: reader::Readers,
    sweeping: Sweeping,
    /// How many exports may still begin.
    exports: Arc<tokio::sync::Semaphore>,
    /// Where the ids of what nobody has named come from.
    entropy: Arc<std::sync::Mutex<StdRng>>,
}

impl Runtime {
    /// Joins the cluster and serves.
    pub async fn start(
        settings: Settings,
        store: Store,
        bus: Bus,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Self, StartError> {
        Self::start_with(settings, |_| {}, store, bus, clock, seed).await
    }

    /// The same with more for runs to reach: providers, tools, hooks, bounds. All nodes of a cluster are given the same.
    pub async fn start_with(
        settings: Settings,
        extend: impl FnOnce(&mut Engine),
        store: Store,
        bus: Bus,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Self, StartError> {
        let (engine, blobs) = equip(&settings, extend, &store, &clock);
        let host = Host::new(engine.clone());
        let kinds = Kinds::new()
            .with(Session(host.clone()))
            .with(Subagent(host.clone()))
            .with(Task::new(host.clone(), store.clone()))
            .with(Job::new(host.clone(), store.clone()))
            .with(JobItem(host));
        let node = Node::start(settings.host.clone(), store.clone(), bus.clone(), clock.clone(), kinds, seed)
            .await?;
        let sweeper =
            Sweeper::new((store.clone(), clock.clone()), node.client(), blobs.clone(), settings.retention);
        Ok(Self {
            client: node.client(),
            sweeping: sweeper.start(seed),
            feed_epoch: node.feed_epoch(),
            node: Arc::new(tokio::sync::Mutex::new(Some(node))),
            signer: Signer::new(store.clone(), clock.clone()),
            readers: reader::Readers::default(),
            hosts: true,
            tenants: Directory::new(store.clone(), clock.clone()),
            store,
            bus,
            clock,
            engine,
            blobs,
            settings: Arc::new(settings),
            exports: Arc::new(tokio::sync::Semaphore::new(exports::AT_ONCE_MAX)),
            entropy: Arc::new(std::sync::Mutex::new(StdRng::seed_from_u64(seed ^ 0x5eed))),
        })
    }

    /// Hands everything over and leaves the cluster. The store can be closed after it.
    pub async fn stop(&self) {
        self.sweeping.stop().await;
        if let Some(node) = self.node.lock().await.take() {
            node.drain().await;
        }
    }

    /// Stops as a crash would: nothing is handed over.
    pub async fn kill(&self) {
        self.sweeping.stop().await;
        drop(self.node.lock().await.take());
    }

    /// Whether the node owns its shards and has caught up; without a node, whether store and bus answer.
    pub async fn ready(&self, patience: Duration) -> Result<(), String> {
        if !self.hosts {
            return self.reaches_the_cluster().await;
        }
        let node = self.node.lock().await;
        let Some(node) = node.as_ref() else { return Err("the node has stopped".into()) };
        let Some(status) = node.status().await else { return Err("the node has stopped".into()) };
        let expected = usize::from(self.settings.host.shards);
        if status.shards.len() < expected && status.shards.is_empty() {
            return Err("the node owns no shards yet".into());
        }
        status.check(patience).map_err(|error| format!("{error:?}"))
    }

    /// Looks once for what has expired, and removes it; the node does so by itself from time to time.
    pub async fn sweep(&self) -> Swept {
        self.sweeping.sweep().await
    }

    /// Where large things are.
    pub fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Who signs what clients bring back.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// The time, as this node has it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A new id, for something that has none yet.
    pub fn new_id<I: Id>(&self) -> I {
        IdSource::new(self.clock.now(), self.draw()).next()
    }

    /// Who may use the cluster.
    pub fn tenants(&self) -> &Directory {
        &self.tenants
    }

    /// What events say about where they come from.
    pub fn publisher(&self) -> &Publisher {
        &self.settings.publisher
    }

    /// What runs may reach.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Who follows feeds here.
    pub fn readers(&self) -> &reader::Readers {
        &self.readers
    }

    /// What connects the nodes of the cluster, and how the cluster is called.
    pub fn bus(&self) -> (&Bus, &str) {
        (&self.bus, &self.settings.host.cluster)
    }

    /// How long a command may take by default.
    pub fn deadline(&self) -> Duration {
        self.settings.deadline
    }
}

/// What runs may reach, and where large things are.
fn equip(
    settings: &Settings,
    extend: impl FnOnce(&mut Engine),
    store: &Store,
    clock: &Arc<dyn Clock>,
) -> (Arc<Engine>, Blobs) {
    let blobs = Blobs::new(store.clone(), clock.clone(), settings.retention.blobs());
    let mut engine = Engine::scripted(Some(blobs.clone()));
    engine.limits.output_bytes = settings.retention.output_bytes();
    extend(&mut engine);
    (Arc::new(engine), blobs)
}
