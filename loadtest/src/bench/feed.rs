//! Feeds: whether appending, reading and following cost the same at a thousand and at ten million events.

use std::time::Duration;

use cadre_cluster::{
    codec,
    feed::{Cursor, Event, EventRecord, Feed},
    keys,
    sim::Dice,
    store::{
        CommitError, Stamp, Store,
        embedded::{Embedded, EmbeddedConfig},
    },
};
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

use super::{
    Bench,
    report::Row,
    tail::{BATCHES_AHEAD, Grown, RECENT},
};

pub const BATCH: u64 = 500;
pub const PAGE: usize = 256;
pub const EPOCH: u32 = 1;
pub const TENANT: &str = "bench";

/// How many tails follow an appender.
const TAILS: [usize; 2] = [1, 20];

pub async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let path = bench.dir.path().join("feed");
    let embedded = Embedded::open(EmbeddedConfig::new(&path))?;
    let store = embedded.store();
    let (mut reading, mut catching_up, mut following) =
        (Flat::default(), Flat::default(), TAILS.map(|_| Flat::default()));
    let mut sizes = [1_000, 100_000, 10_000_000].map(|size: u64| size.min(bench.feed_events)).to_vec();
    sizes.dedup();
    for size in sizes {
        let id = format!("feed-{size}");
        let (rate, places) = grow(&store, &id, size).await?;
        bench.report.add(
            Row::new(format!("feed append, up to {size} events"), rate, "events/s")
                .note(format!("{BATCH} events per transaction, fsync on")),
        );
        let mut grown = Grown { store: &store, id: &id, size, places: &places };
        let latencies = read_anywhere(&grown.feed(), &places, bench.duration).await?;
        let micros = latencies.value_at_quantile(0.5) as f64 / 1e3;
        let row =
            Row::new(format!("feed read anywhere, {size} events"), PAGE as f64 * 1e6 / micros, "events/s")
                .latency(&latencies)
                .note(format!("pages of {PAGE}"));
        bench.report.add(reading.row(row));
        let raw = grown.catch_up_raw(bench.duration / 2).await?;
        let rate = grown.catch_up(bench.duration).await?;
        let row = Row::new(format!("feed tail catches up, {size} events"), rate, "events/s")
            .against(format!("raw ranges of {PAGE}"), raw)
            .note(format!("from within the last {RECENT}; every event checked: once, in order"));
        bench.report.add(catching_up.row(row));
        let alone = grown.live(0, bench.duration / 2).await?.appended;
        for (tails, flat) in TAILS.into_iter().zip(&mut following) {
            let live = grown.live(tails, bench.duration).await?;
            let row =
                Row::new(format!("feed tails live, {tails} after {size} events"), live.delivered, "events/s")
                    .against("append, nobody follows", alone)
                    .latency(&live.delays)
                    .note(format!("appender at most {BATCHES_AHEAD} batches ahead; every event checked"));
            bench.report.add(flat.row(row));
        }
    }
    embedded.close().await;
    std::fs::remove_dir_all(&path)?;
    Ok(())
}

/// Whether a figure stays what it was at the first size.
#[derive(Default)]
struct Flat(Option<f64>);

impl Flat {
    fn row(&mut self, row: Row) -> Row {
        let Some(first) = self.0 else {
            self.0 = Some(row.value);
            return row;
        };
        let times = first / row.value;
        row.target(format!("flat: ≤ 3 × that of 1,000 (is {times:.2})"), times <= 3.0)
    }
}

/// A new feed; how fast it grew, and some positions all over it.
async fn grow(store: &Store, id: &str, events: u64) -> anyhow::Result<(f64, Vec<Cursor>)> {
    let style = ProgressStyle::with_template("  {bar:40} {pos}/{len} events {per_sec}")?;
    let progress = ProgressBar::new(events).with_style(style);
    let began = Instant::now();
    let mut places = vec![Cursor::START];
    let mut done = 0;
    while done < events {
        let batch = BATCH.min(events - done);
        let stamp = append(store, id, done, batch).await?;
        if (done / BATCH).is_multiple_of((events / BATCH / 512).max(1)) {
            places.push(Cursor::new(EPOCH, stamp, 0));
        }
        done += batch;
        progress.inc(batch);
    }
    progress.finish_and_clear();
    Ok((events as f64 / began.elapsed().as_secs_f64(), places))
}

/// Appends events in one transaction, numbered from `first`.
pub async fn append(store: &Store, id: &str, first: u64, events: u64) -> Result<Stamp, CommitError> {
    let mut tx = store.begin();
    let record = codec::encode(&EventRecord { terms: Vec::new(), body: vec![3; 240] });
    for position in 0..events {
        let (key, offset) = keys::feed_event(TENANT, id, EPOCH).at(position as u16);
        // A record ends with its body, and the body with the number.
        let mut value = record.to_vec();
        let number = value.len() - 8;
        value[number..].copy_from_slice(&(first + position).to_be_bytes());
        tx.set_stamped_key(key, offset, value);
    }
    tx.commit().await.map(|committed| committed.stamp)
}

/// The number that [`append`] gave an event.
pub fn number(event: &Event) -> u64 {
    event.body.last_chunk().map_or(u64::MAX, |number| u64::from_be_bytes(*number))
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
