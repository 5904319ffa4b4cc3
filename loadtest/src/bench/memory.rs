//! What an entity costs in memory, awake and asleep.

use std::time::Duration;

use anyhow::Context;
use cadre_cluster::store::embedded::EmbeddedConfig;

use super::{
    Bench,
    process::resident,
    report::Row,
    steps::{Hosted, bump},
};

/// So many entities make the rest of the process small in comparison.
const ENTITIES: usize = 50_000;

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    // A small overlay and cache: their size is a setting, not a cost per entity.
    let config = EmbeddedConfig {
        checkpoint_bytes: 1 << 20,
        cache_bytes: 8 << 20,
        ..EmbeddedConfig::new(bench.dir.path().join("memory"))
    };
    let host = Hosted::start_with(config, Duration::from_secs(4)).await?;
    let client = host.node.client();
    for number in 0..1_000 {
        bump(&client, number, None).await?;
    }
    asleep(&host).await?;
    let empty = resident()?;
    wake_all(&host, 1_000).await?;
    let awake = resident()?;
    let live = host.node.status().await.context("the node runs")?.entities_live;
    asleep(&host).await?;
    // The caches of store and allocator fill up once; growth after that is what sleepers still cost.
    wake_all(&host, 1_000 + ENTITIES).await?;
    let second = resident()?;
    asleep(&host).await?;
    wake_all(&host, 1_000 + 2 * ENTITIES).await?;
    let third = resident()?;
    let per_live = awake.saturating_sub(empty) as f64 / live as f64 / 1024.0;
    let per_sleeping = third.saturating_sub(second) as f64 / ENTITIES as f64 / 1024.0;
    host.end().await?;
    bench.report.add(
        Row::new("memory per live idle entity", per_live, "KiB")
            .note(format!("{live} entities awake"))
            .target("≤ 12 KiB", per_live <= 12.0),
    );
    bench.report.add(
        Row::new("memory per sleeping entity", per_sleeping, "KiB")
            .note(format!("growth when {ENTITIES} wake while {} sleep rather than {ENTITIES}", 2 * ENTITIES))
            .target("none (below 0.1)", per_sleeping < 0.1),
    );
    Ok(())
}

async fn wake_all(host: &Hosted, from: usize) -> anyhow::Result<()> {
    let tasks: Vec<_> = (0..64)
        .map(|caller| {
            let client = host.node.client();
            tokio::spawn(async move {
                for number in (from + caller..from + ENTITIES).step_by(64) {
                    bump(&client, number, None).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Waits until nobody is awake.
async fn asleep(host: &Hosted) -> anyhow::Result<()> {
    while host.node.status().await.context("the node runs")?.entities_live > 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
