//! Steps on FoundationDB: many per transaction, next to one per transaction in the same run.

use std::time::Duration;

use anyhow::Context;
use cadre_cluster::{
    host::HostConfig,
    placement::Takeover,
    store::fdb::{Config, open},
};

use super::{
    Bench,
    report::Row,
    steps::{call_for, start_node_with},
};

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let file = std::env::var_os("FDB_CLUSTER_FILE").context("FDB_CLUSTER_FILE names no cluster")?;
    let cluster = format!("bench-{}", std::process::id());
    let settings = Config { cluster_file: Some(file.into()), ..Config::new(cluster) };
    let store = open(settings).await?;
    for entities in [64, 1_024] {
        let mut rates = Vec::new();
        // As many single-step transactions on their way at once as there are callers: nothing held back.
        for (steps, in_flight) in [(1, entities), (2_048, 2)] {
            let config = HostConfig {
                takeover: Takeover::AtOnce,
                group_steps_max: steps,
                groups_in_flight_max: in_flight,
                ..HostConfig::new("bench", "node-0")
            };
            let node = start_node_with(config, store.clone(), Duration::from_secs(600)).await?;
            let client = node.client();
            call_for(&client, entities, false, bench.duration / 2, 0).await?;
            let (seconds, latencies) = call_for(&client, entities, false, bench.duration, 1).await?;
            node.drain().await;
            rates.push((latencies.len() as f64 / seconds, latencies));
        }
        let [(single, _), (grouped, latencies)] = &rates[..] else { unreachable!("two were measured") };
        bench.report.add(
            Row::new(format!("steps on FoundationDB, {entities} entities"), *grouped, "/s")
                .against("one transaction per step", *single)
                .latency(latencies)
                .target("≥ 2 × one transaction per step", grouped / single >= 2.0),
        );
    }
    Ok(())
}
