//! Feeds: whether appending and reading cost the same at a thousand and at ten million events.

use std::time::Duration;

use bytes::Bytes;
use cadre_cluster::{
    codec,
    feed::{Cursor, EventRecord, Feed},
    keys,
    sim::Dice,
    store::{
        CommitError, Store,
        embedded::{Embedded, EmbeddedConfig},
    },
};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

use super::{Bench, report::Row};

const BATCH: u64 = 500;
const PAGE: usize = 256;
const EPOCH: u32 = 1;

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let path = bench.dir.path().join("feed");
    let embedded = Embedded::open(EmbeddedConfig::new(&path))?;
    let store = embedded.store();
    let feed = Feed::new(store.clone(), "bench", "feed", EPOCH);
    let mut size = 0;
    // Some positions all over the feed, to read at.
    let mut places = vec![Cursor::START];
    let mut first: Option<f64> = None;
    let sizes = [1_000, 100_000, 10_000_000].map(|size: u64| size.min(bench.feed_events));
    for target in sizes {
        let grown = target - size;
        let rate = grow(&store, grown, size, &mut places).await?;
        size = target;
        bench.report.add(
            Row::new(format!("feed append, up to {size} events"), rate, "events/s")
                .note(format!("{BATCH} events per transaction, fsync on")),
        );
        let latencies = read_anywhere(&feed, &places, bench.duration).await?;
        let micros = latencies.value_at_quantile(0.5) as f64 / 1e3;
        let mut row =
            Row::new(format!("feed read anywhere, {size} events"), PAGE as f64 * 1e6 / micros, "events/s")
                .latency(&latencies)
                .note(format!("pages of {PAGE}"));
        if let Some(first) = first {
            let times = micros / first;
            row = row.target(format!("flat: ≤ 3 × that of 1,000 (is {times:.2})"), times <= 3.0);
        } else {
            first = Some(micros);
        }
        bench.report.add(row);
    }
    embedded.close().await;
    std::fs::remove_dir_all(&path)?;
    Ok(())
}

async fn grow(store: &Store, events: u64, before: u64, places: &mut Vec<Cursor>) -> anyhow::Result<f64> {
    let style = ProgressStyle::with_template("  {bar:40} {pos}/{len} events {per_sec}")?;
    let progress = ProgressBar::new(events).with_style(style);
    let began = Instant::now();
    let mut done = 0;
    while done < events {
        let batch = BATCH.min(events - done);
        let stamp = append(store, batch).await?;
        if ((before + done) / BATCH).is_multiple_of(((before + events) / BATCH / 512).max(1)) {
            places.push(Cursor::new(EPOCH, stamp, 0));
        }
        done += batch;
        progress.inc(batch);
    }
    progress.finish_and_clear();
    Ok(events as f64 / began.elapsed().as_secs_f64())
}

async fn append(store: &Store, events: u64) -> Result<cadre_cluster::store::Stamp, CommitError> {
    let mut tx = store.begin();
    let record = codec::encode(&EventRecord { terms: Vec::new(), body: vec![3; 240] });
    for position in 0..events {
        let key = keys::feed_event("bench", "feed", EPOCH);
        let (key, offset) = key.at(position as u16);
        tx.set_stamped_key(key, offset, Bytes::clone(&record));
    }
    tx.commit().await.map(|committed| committed.stamp)
}

async fn read_anywhere(feed: &Feed, places: &[Cursor], duration: Duration) -> anyhow::Result<Histogram<u64>> {
    let dice = Dice::new(1);
    let mut latencies = Histogram::<u64>::new(3)?;
    let end = Instant::now() + duration;
    while Instant::now() < end {
        let place = *dice.pick(places);
        let start = Instant::now();
        feed.read(place, PAGE).await?;
        latencies.record(start.elapsed().as_nanos() as u64)?;
    }
    Ok(latencies)
}
