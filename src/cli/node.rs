//! `cadre node`: one node, alone or of a cluster.
//!
//! What can be wrong without touching anything is said first: the configuration, then a port that is taken, then a data
//! folder that another process has. It answers `/readyz` from then on, and says `ready` on standard output once it is.

use std::{future::Future, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context;
use cadre::{
    config::{Bus, Config, Role, Store},
    fact::Publisher,
    http,
    runtime::{Runtime, Settings},
};
use cadre_cluster::{
    bus::{self, LocalBus, nats::NatsBus},
    clock::SystemClock,
    host::HostConfig,
    placement::Takeover,
    store::{
        self,
        embedded::{Embedded, EmbeddedConfig},
    },
};
use clap::Args as ClapArgs;
use rand::TryRngCore;
use tokio::{net::TcpListener, sync::watch};

use super::{access, config::Sources, dev::default_data, stopped::stopped};
use crate::log;

/// How long something may wait before the node counts as not ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// Run one node, alone or of a cluster
///
/// A cluster needs FoundationDB and NATS (`store.driver`, `bus.driver`); without them this is one process on its own.
/// SIGTERM drains it: shards are handed over, those who follow a feed are told to come back elsewhere.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre node --config /etc/cadre.toml
  cadre node --config /etc/cadre.toml --roles gateway --listen 0.0.0.0:7600 --insecure
  cadre node --set node.cluster=prod --set bus.driver=nats --set bus.servers=nats://nats:4222
Keys: cadre config show --effective")]
pub struct Args {
    #[command(flatten)]
    sources: Sources,
    /// What the process does: gateway, worker, or both [node.roles]
    #[arg(long)]
    roles: Option<String>,
    /// The node's name, unique in the cluster and the same after a restart [node.name]
    #[arg(long)]
    name: Option<String>,
    /// Where the API is served [gateway.listen]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// The folder of the embedded store [store.data]
    #[arg(long)]
    data: Option<PathBuf>,
    #[command(flatten)]
    access: access::Args,
}

/// Runs until stopped.
pub fn run(args: Args, json: bool) -> anyhow::Result<()> {
    let Args { sources, roles, name, listen, data, mut access } = args;
    let flags = [
        ("--roles", "node.roles", roles),
        ("--name", "node.name", name),
        ("--listen", "gateway.listen", listen.map(|address| address.to_string())),
        ("--data", "store.data", data.map(|path| path.to_string_lossy().into_owned())),
        ("--insecure", "gateway.insecure", access.insecure.then(|| "true".to_owned())),
    ];
    let flags = flags.into_iter().filter_map(|(flag, key, text)| Some((flag, key, text?))).collect();
    let (mut config, layers) = sources.load(flags)?.context("the configuration cannot be used")?;
    let is_gateway = config.node.is(Role::Gateway);
    if is_gateway {
        access.insecure |= config.gateway.insecure;
        let served = access.check(config.gateway.listen)?;
        (config.gateway.http.access, config.gateway.http.tls) = (served.access, served.tls);
    }
    http::install_metrics();
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    tokio.block_on(async {
        let _log = log::install(&config, &layers)?;
        let address = if is_gateway { config.gateway.listen } else { config.node.health_listen };
        // First, so that a port in use is said before a folder is touched.
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot listen on {address}"))?;
        let stopped = stopped()?;
        let truth = Truth::open(&config).await?;
        let bus = connect(&config).await?;
        let started = start(&config, &truth, bus).await;
        let ended = match &started {
            Ok(runtime) => serve(runtime, &config, listener, stopped, json).await,
            Err(_) => Ok(()),
        };
        truth.close().await;
        started.and(ended)
    })
}

/// The store, and what has to be closed in the end.
struct Truth {
    store: store::Store,
    embedded: Option<Embedded>,
}

impl Truth {
    async fn open(config: &Config) -> anyhow::Result<Self> {
        match &config.store {
            Store::Embedded { data } => {
                let data = data.clone().map_or_else(default_data, Ok)?;
                let embedded = Embedded::open(EmbeddedConfig::new(&data))
                    .with_context(|| format!("cannot use the data folder {}", data.display()))?;
                tracing::info!(data = %data.display(), "an embedded store: this process is the whole cluster");
                Ok(Self { store: embedded.store(), embedded: Some(embedded) })
            }
            Store::FoundationDb { cluster_file, tls } => {
                let store = foundationdb(&config.node.cluster, cluster_file.clone(), tls.clone()).await?;
                Ok(Self { store, embedded: None })
            }
        }
    }

    async fn close(self) {
        if let Some(embedded) = self.embedded {
            embedded.close().await;
        }
    }
}

#[cfg(feature = "fdb")]
async fn foundationdb(
    cluster: &str,
    cluster_file: Option<PathBuf>,
    tls: cadre::config::FdbTls,
) -> anyhow::Result<store::Store> {
    let cadre::config::FdbTls { cert, key, ca, verify_peers, password } = tls;
    let tls = store::fdb::Tls { cert, key, ca, verify_peers, password };
    let tls = (tls != store::fdb::Tls::default()).then_some(tls);
    let config = store::fdb::Config { cluster_file, tls, ..store::fdb::Config::new(cluster) };
    store::fdb::open(config).await.context("cannot reach FoundationDB")
}

#[cfg(not(feature = "fdb"))]
async fn foundationdb(_: &str, _: Option<PathBuf>, _: cadre::config::FdbTls) -> anyhow::Result<store::Store> {
    // The configuration was refused before.
    anyhow::bail!("this binary was built without FoundationDB (cargo feature fdb)")
}

async fn connect(config: &Config) -> anyhow::Result<bus::Bus> {
    match &config.bus {
        Bus::Local => Ok(Arc::new(LocalBus::new())),
        Bus::Nats(nats) => Ok(Arc::new(NatsBus::connect(nats).await.context("cannot reach NATS")?)),
    }
}

async fn start(config: &Config, truth: &Truth, bus: bus::Bus) -> anyhow::Result<Runtime> {
    let Config { node, limits, .. } = config;
    let host = HostConfig {
        shards: node.shards,
        lease_ttl: node.lease_ttl,
        heartbeat_every: node.lease_ttl / 5,
        // A folder is locked: a former life of this node cannot be running. Of a cluster's node it may.
        takeover: if truth.embedded.is_some() { Takeover::AtOnce } else { Takeover::AfterWatching },
        entities_live_max: limits.entities_live,
        inputs_waiting_max: limits.inputs_waiting,
        inputs_waiting_bytes_max: limits.inputs_waiting_bytes,
        idempotency_ttl: config.idempotency_keys,
        ..HostConfig::new(&node.cluster, &node.name)
    };
    let settings = Settings {
        host,
        publisher: Publisher::default(),
        deadline: config.gateway.command_deadline,
        retention: config.retention,
    };
    let (store, seed) = (truth.store.clone(), rand::rngs::OsRng.try_next_u64()?);
    let clock = Arc::new(SystemClock);
    let started = if node.is(Role::Worker) {
        Runtime::start(settings, store, bus, clock, seed).await
    } else {
        Runtime::connect(settings, store, bus, clock, seed).await
    };
    started.with_context(|| format!("node {} cannot join cluster {}", node.name, node.cluster))
}

async fn serve(
    runtime: &Runtime,
    config: &Config,
    listener: TcpListener,
    stopped: watch::Receiver<bool>,
    json: bool,
) -> anyhow::Result<()> {
    let address = listener.local_addr()?;
    let stop = |mut stopped: watch::Receiver<bool>| async move {
        // An error means that nobody can stop it any more, which does not happen: the task that waits for signals ends last.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let said = announce(runtime, config, address, stopped.clone(), json);
    let served = async {
        if config.node.is(Role::Gateway) {
            let http = config.gateway.http.clone();
            http::serve_with(http, runtime.clone(), listener, stop(stopped)).await
        } else {
            http::serve_health(runtime.clone(), listener, stop(stopped)).await
        }
    };
    let served = with(served, said).await.context("cannot serve");
    if tokio::time::timeout(config.node.drain_max, runtime.stop()).await.is_err() {
        let seconds = config.node.drain_max.as_secs();
        tracing::warn!(seconds, "handing over takes too long; others take the rest over");
        runtime.kill().await;
    }
    served
}

/// Both, until the first has ended.
async fn with<T>(first: impl Future<Output = T>, second: impl Future<Output = ()>) -> T {
    let second = async {
        second.await;
        std::future::pending().await
    };
    tokio::select! {
        biased;
        first = first => first,
        never = second => never,
    }
}

/// Says once that it is ready, and then that it stops.
async fn announce(
    runtime: &Runtime,
    config: &Config,
    address: SocketAddr,
    mut stopped: watch::Receiver<bool>,
    json: bool,
) {
    while runtime.ready(PATIENCE).await.is_err() {
        if *stopped.borrow() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (name, cluster) = (&config.node.name, &config.node.cluster);
    if json {
        let url = format!("http://{address}");
        println!("{}", serde_json::json!({ "event": "ready", "url": url, "node": name, "cluster": cluster }));
    } else {
        println!("ready http://{address}");
    }
    eprintln!("cadre: node {name} of cluster {cluster}; stop with Ctrl-C");
    let _ = stopped.wait_for(|stopped| *stopped).await;
    eprintln!("cadre: stopping; once more to stop at once");
}
