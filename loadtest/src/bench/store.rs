//! Commits of the embedded store, at one, a few and many callers at once.

use std::time::Duration;

use cadre_cluster::store::{
    CommitError, Store,
    embedded::{Embedded, EmbeddedConfig},
};
use hdrhistogram::Histogram;
use tokio::time::Instant;

use super::{Bench, raw::append_and_sync, report::Row};

const STATE_BYTES: usize = 400;
const EVENT_BYTES: usize = 250;

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for callers in [1, 64, 1_024] {
        let path = bench.dir.path().join(format!("store-{callers}"));
        let embedded = Embedded::open(EmbeddedConfig::new(&path))?;
        let before = embedded.stats();
        let (commits, seconds, latencies) = commit_for(&embedded.store(), callers, bench.duration).await?;
        let stats = embedded.stats();
        let (rate, fsyncs) = (commits as f64 / seconds, (stats.syncs - before.syncs) as f64 / seconds);
        embedded.close().await;
        std::fs::remove_dir_all(&path)?;
        let batch = (rate / fsyncs).round().max(1.0) as usize;
        let raw =
            append_and_sync(bench.dir.path(), batch, STATE_BYTES + EVENT_BYTES + 120, bench.duration / 2)?;
        let ratio = rate / raw.records;
        let mut row = Row::new(format!("store commits, {callers} callers"), rate, "/s")
            .against(format!("raw append+fsync, batches of {batch}"), raw.records)
            .latency(&latencies)
            .note(format!("{fsyncs:.0} fsyncs/s, raw fsync {:.0} µs", raw.sync_us));
        if callers > 1 {
            row = row.target("≥ 0.25 of raw", ratio >= 0.25);
        }
        bench.report.add(row);
    }
    Ok(())
}

/// Has `callers` commit one after another: a state overwritten and an event appended each time.
async fn commit_for(
    store: &Store,
    callers: usize,
    duration: Duration,
) -> anyhow::Result<(u64, f64, Histogram<u64>)> {
    let began = Instant::now();
    let end = began + duration;
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut latencies = Histogram::<u64>::new(3)?;
                while Instant::now() < end {
                    let start = Instant::now();
                    commit(&store, caller).await?;
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
    Ok((latencies.len(), began.elapsed().as_secs_f64(), latencies))
}

async fn commit(store: &Store, caller: usize) -> Result<(), CommitError> {
    let mut tx = store.begin();
    tx.set(format!("state/entity-{caller:08}/record"), vec![1; STATE_BYTES]);
    let mut key = format!("feed/session-{caller:08}/").into_bytes();
    let offset = key.len();
    key.extend_from_slice(&[0; 12]);
    tx.set_stamped_key(key, offset, vec![2; EVENT_BYTES]);
    tx.commit().await.map(drop)
}
