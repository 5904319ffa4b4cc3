//! Durable steps of entities: one command, one fact, one answer.

use std::{path::Path, sync::Arc, time::Duration};

use cadre_cluster::{
    address::Address,
    bus::{Bus, LocalBus},
    clock::SystemClock,
    host::{Client, Entity, HostConfig, Kinds, Node},
    placement::Takeover,
    store::{
        Store,
        embedded::{Embedded, EmbeddedConfig},
    },
};
use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::{
    Bench,
    counter::{Bump, Counter},
    process::cpu_time,
    raw::append_and_sync,
    report::Row,
};

/// About what one step writes: record, event, keys.
const STEP_BYTES: usize = 700;

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for entities in [1, 64, 1_024] {
        for keyed in [false, true] {
            steps(bench, entities, keyed).await?;
        }
    }
    activations(bench).await?;
    short_lived(bench).await
}

async fn steps(bench: &mut Bench, entities: usize, keyed: bool) -> anyhow::Result<()> {
    let host = Hosted::start(&bench.dir.path().join("steps"), Duration::from_secs(600)).await?;
    let client = host.node.client();
    // Everybody awake before it counts.
    call_for(&client, entities, keyed, bench.duration / 4, 0).await?;
    let (before, cpu_before) = (host.embedded.stats(), cpu_time()?);
    let (seconds, latencies) = call_for(&client, entities, keyed, bench.duration, 1).await?;
    let (after, cpu) = (host.embedded.stats(), cpu_time()? - cpu_before);
    host.end().await?;
    let rate = latencies.len() as f64 / seconds;
    let fsyncs = (after.syncs - before.syncs) as f64 / seconds;
    let batch = (rate / fsyncs).round().max(1.0) as usize;
    let raw = append_and_sync(bench.dir.path(), batch, STEP_BYTES, bench.duration / 2)?;
    let keyed = if keyed { ", with idempotency key" } else { "" };
    let what = format!("steps, {entities} entities{keyed}");
    let cpu_us = cpu.as_secs_f64() * 1e6 / latencies.len() as f64;
    let note = format!("{cpu_us:.1} µs of CPU each, {fsyncs:.0} fsyncs/s, raw fsync {:.0} µs", raw.sync_us);
    let mut row = Row::new(what, rate, "/s")
        .against(format!("raw append+fsync, batches of {batch}"), raw.records)
        .latency(&latencies)
        .note(note);
    if entities == 1 {
        let times = latencies.value_at_quantile(0.5) as f64 / 1e3 / raw.sync_us;
        row = row.target(format!("latency ≤ 2.5 × one raw fsync (is {times:.2})"), times <= 2.5);
    }
    if entities == 1_024 {
        row = row.target("≥ 40,000/s", rate >= 40_000.0);
    }
    bench.report.add(row);
    Ok(())
}

/// Wakes entities that sleep, as many as there is time for.
async fn activations(bench: &mut Bench) -> anyhow::Result<()> {
    const SLEEPING: usize = 20_000;
    let path = bench.dir.path().join("steps");
    let host = Hosted::start(&path, Duration::from_secs(600)).await?;
    wake(&host.node.client(), SLEEPING).await?;
    let embedded = host.embedded.clone();
    host.node.drain().await;
    let node = start_node(embedded.store(), Duration::from_secs(600)).await?;
    let began = Instant::now();
    let latencies = wake(&node.client(), SLEEPING).await?;
    let rate = SLEEPING as f64 / began.elapsed().as_secs_f64();
    node.drain().await;
    embedded.close().await;
    std::fs::remove_dir_all(&path)?;
    bench.report.add(
        Row::new("activations, each with a step", rate, "/s")
            .latency(&latencies)
            .note("entities that sleep in the store, 256 callers"),
    );
    Ok(())
}

/// Entities that live for one step each: those that leave memory at once against those that stay.
async fn short_lived(bench: &mut Bench) -> anyhow::Result<()> {
    const ENTITIES: usize = 100_000;
    let mut rates = Vec::new();
    for is_fleeting in [false, true] {
        let path = bench.dir.path().join("steps");
        let embedded = Embedded::open(EmbeddedConfig::new(&path))?;
        let config = HostConfig { takeover: Takeover::AtOnce, ..HostConfig::new("bench", "node-0") };
        let counter = Counter { idle_max: Duration::from_secs(600), is_fleeting };
        let node = host(config, embedded.store(), counter).await?;
        let (began, cpu_before) = (Instant::now(), cpu_time()?);
        let client = node.client();
        let waking = wake(&client, ENTITIES);
        tokio::pin!(waking);
        let mut live_max = 0;
        let latencies = loop {
            tokio::select! {
                latencies = &mut waking => break latencies?,
                () = tokio::time::sleep(Duration::from_millis(10)) => {
                    let live = node.status().await.map_or(0, |status| status.entities_live);
                    live_max = live_max.max(live);
                }
            }
        };
        let rate = ENTITIES as f64 / began.elapsed().as_secs_f64();
        let cpu_us = (cpu_time()? - cpu_before).as_secs_f64() * 1e6 / ENTITIES as f64;
        node.drain().await;
        embedded.close().await;
        std::fs::remove_dir_all(&path)?;
        rates.push((rate, latencies, format!("at most {live_max} live, {cpu_us:.1} µs of CPU each")));
    }
    let [(staying, _, stayed), (rate, latencies, left)] = &rates[..] else {
        unreachable!("two were measured")
    };
    bench.report.add(
        Row::new("entities that live for one step", *rate, "/s")
            .against("those that stay in memory", *staying)
            .latency(latencies)
            .note(format!("{left}; of those that stay: {stayed}")),
    );
    Ok(())
}

async fn wake(client: &Client, entities: usize) -> anyhow::Result<Histogram<u64>> {
    const CALLERS: usize = 256;
    let tasks: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut latencies = Histogram::<u64>::new(3)?;
                for number in (caller..entities).step_by(CALLERS) {
                    let start = Instant::now();
                    bump(&client, number, None).await?;
                    latencies.record(start.elapsed().as_nanos() as u64)?;
                }
                anyhow::Ok(latencies)
            })
        })
        .collect();
    let mut latencies = Histogram::new(3)?;
    for task in tasks {
        latencies.add(task.await??)?;
    }
    Ok(latencies)
}

/// One caller per entity, each asking again as soon as it is answered.
pub async fn call_for(
    client: &Client,
    entities: usize,
    keyed: bool,
    duration: Duration,
    round: u32,
) -> anyhow::Result<(f64, Histogram<u64>)> {
    let began = Instant::now();
    let end = began + duration;
    let tasks: Vec<_> = (0..entities)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut latencies = Histogram::<u64>::new(3)?;
                while Instant::now() < end {
                    let key = keyed.then(|| format!("{round}-{number}-{}", latencies.len()));
                    let start = Instant::now();
                    bump(&client, number, key.as_deref()).await?;
                    latencies.record(start.elapsed().as_nanos() as u64)?;
                }
                anyhow::Ok(latencies)
            })
        })
        .collect();
    let mut latencies = Histogram::new(3)?;
    for task in tasks {
        latencies.add(task.await??)?;
    }
    Ok((began.elapsed().as_secs_f64(), latencies))
}

/// One step of one entity.
pub async fn bump(client: &Client, number: usize, key: Option<&str>) -> anyhow::Result<u64> {
    let address = Address::new("bench", Counter::KIND, &format!("counter-{number:08}"))?;
    let command = Bump { note: "n".repeat(180) };
    let called = client.call::<Counter>(&address, &command, key, Duration::from_secs(30)).await;
    Ok(called.map_err(|error| anyhow::anyhow!("{error}"))?.reply)
}

/// A node on an embedded store of its own.
pub struct Hosted {
    /// The store.
    pub embedded: Embedded,
    /// The node.
    pub node: Node,
    path: std::path::PathBuf,
}

impl Hosted {
    /// Starts it in a folder.
    pub async fn start(path: &Path, idle_max: Duration) -> anyhow::Result<Self> {
        Self::start_with(EmbeddedConfig::new(path), idle_max).await
    }

    /// Starts it on a store with settings of its own.
    pub async fn start_with(config: EmbeddedConfig, idle_max: Duration) -> anyhow::Result<Self> {
        let path = config.path.clone();
        let embedded = Embedded::open(config)?;
        let node = start_node(embedded.store(), idle_max).await?;
        Ok(Self { embedded, node, path })
    }

    /// Ends it, and removes its folder.
    pub async fn end(self) -> anyhow::Result<()> {
        self.node.drain().await;
        self.embedded.close().await;
        Ok(std::fs::remove_dir_all(&self.path)?)
    }
}

async fn start_node(store: Store, idle_max: Duration) -> anyhow::Result<Node> {
    let config = HostConfig { takeover: Takeover::AtOnce, ..HostConfig::new("bench", "node-0") };
    start_node_with(config, store, idle_max).await
}

/// A node that hosts counters.
pub async fn start_node_with(config: HostConfig, store: Store, idle_max: Duration) -> anyhow::Result<Node> {
    host(config, store, Counter { idle_max, is_fleeting: false }).await
}

async fn host(config: HostConfig, store: Store, counter: Counter) -> anyhow::Result<Node> {
    let kinds = Kinds::new().with(counter);
    let bus: Bus = Arc::new(LocalBus::new());
    Ok(Node::start(config, store, bus, Arc::new(SystemClock), kinds, 1).await?)
}
