//! Tails of a feed: how fast one that is behind catches up, and how soon those that follow get what is appended.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use cadre_cluster::{
    bus::{Bus, Headers, LocalBus},
    feed::{Cursor, Event, Feed, Page, Tail, TailConfig, doorbell_subject},
    keys,
    sim::Dice,
    store::{KeyRange, RangeRead, Store, key_after},
};
use hdrhistogram::Histogram;
use tokio::{sync::Notify, time::Instant};

use super::feed::{BATCH, EPOCH, PAGE, TENANT, append, number};

const CLUSTER: &str = "bench";
/// A reader that catches up was away for a while, not since the beginning: it starts within so many events of the
/// end. What a read costs that is not in memory any more, the reads anywhere show.
pub const RECENT: u64 = 1_000_000;
/// How much it reads: enough for its start not to count.
const PAGES_BEHIND: usize = 16;
/// The appender waits when the slowest tail is so many batches behind: else the delay would only tell how long
/// it was measured.
pub const BATCHES_AHEAD: u64 = 8;

/// A feed that holds the events `0..size`.
pub struct Grown<'a> {
    pub store: &'a Store,
    pub id: &'a str,
    pub size: u64,
    /// Positions all over it.
    pub places: &'a [Cursor],
}

impl Grown<'_> {
    pub fn feed(&self) -> Feed {
        Feed::new(self.store.clone(), TENANT, self.id, EPOCH)
    }

    /// The places not far from the end.
    fn recent(&self) -> &[Cursor] {
        let recent = self.places.len() as u64 * RECENT / self.size;
        &self.places[self.places.len().saturating_sub(recent as usize)..]
    }

    /// Events per second that tails read which begin at recent places.
    pub async fn catch_up(&self, duration: Duration) -> anyhow::Result<f64> {
        let (dice, bus): (_, Bus) = (Dice::new(2), Arc::new(LocalBus::new()));
        let began = Instant::now();
        let mut events = 0;
        while began.elapsed() < duration {
            let mut tail = tail(self.feed(), &bus, *dice.pick(self.recent()));
            let mut next = None;
            for _ in 0..PAGES_BEHIND {
                let page = tail.next().await?;
                let end = in_order(&page, next)?;
                next = Some(end);
                events += page.events.len();
                if end == self.size {
                    break;
                }
            }
        }
        Ok(events as f64 / began.elapsed().as_secs_f64())
    }

    /// The same pages as ranges of the store, not looked into.
    pub async fn catch_up_raw(&self, duration: Duration) -> anyhow::Result<f64> {
        let dice = Dice::new(2);
        let range = KeyRange::prefix(keys::feed(TENANT, self.id));
        let began = Instant::now();
        let mut events = 0;
        while began.elapsed() < duration {
            let place = dice.pick(self.recent());
            let prefix = keys::feed_epoch(TENANT, self.id, EPOCH);
            let mut begin = keys::with_stamp(&prefix, place.stamp(), place.position());
            for _ in 0..PAGES_BEHIND {
                let rest = KeyRange::new(key_after(&begin), range.end.clone());
                let page = self.store.begin().snapshot_range(&RangeRead::new(rest).limit(PAGE)).await?;
                let Some(last) = page.pairs.last() else { break };
                begin = last.key.clone();
                events += page.pairs.len();
            }
        }
        Ok(events as f64 / began.elapsed().as_secs_f64())
    }

    /// Appends at full speed for `duration` while `tails` follow, if any.
    pub async fn live(&mut self, tails: usize, duration: Duration) -> anyhow::Result<Live> {
        let bus: Bus = Arc::new(LocalBus::new());
        let race = Arc::new(Race {
            first: self.size,
            end: AtomicU64::new(u64::MAX),
            commits: Mutex::default(),
            seen: (0..tails).map(|_| AtomicU64::new(self.size)).collect(),
            moved: Notify::new(),
        });
        let start = self.feed().snapshot_cursor(&self.store.begin()).await?;
        let following: Vec<_> = (0..tails)
            .map(|index| tokio::spawn(race.clone().follow(tail(self.feed(), &bus, start), index)))
            .collect();
        let began = Instant::now();
        while began.elapsed() < duration {
            race.wait_for_the_slowest(self.size).await;
            self.append(&bus, &race).await?;
        }
        race.end.store(self.size + BATCH, Ordering::Relaxed);
        self.append(&bus, &race).await?;
        let mut delays = Histogram::new(3)?;
        for task in following {
            delays.add(task.await??)?;
        }
        let seconds = began.elapsed().as_secs_f64();
        let appended = (self.size - race.first) as f64 / seconds;
        Ok(Live { appended, delivered: delays.len() as f64 / seconds, delays })
    }

    /// Appends as a node would: commit, then ring.
    async fn append(&mut self, bus: &Bus, race: &Race) -> anyhow::Result<()> {
        let stamp = append(self.store, self.id, self.size, BATCH).await?;
        race.commits.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        let last = Cursor::new(EPOCH, stamp, (BATCH - 1) as u16);
        let subject = doorbell_subject(CLUSTER, TENANT, self.id);
        bus.publish(&subject, Headers::default(), last.to_string().into()).await?;
        self.size += BATCH;
        Ok(())
    }
}

/// What followed an appender.
pub struct Live {
    /// Events per second that were appended.
    pub appended: f64,
    /// Events per second that all tails got together.
    pub delivered: f64,
    /// From the commit's answer to the delivery, of every event.
    pub delays: Histogram<u64>,
}

/// An appender and the tails after it.
struct Race {
    /// The number of the first event.
    first: u64,
    /// The number after the last event, once it is known.
    end: AtomicU64,
    /// When each batch was committed.
    commits: Mutex<Vec<Instant>>,
    /// The next event of each tail.
    seen: Vec<AtomicU64>,
    moved: Notify,
}

impl Race {
    async fn wait_for_the_slowest(&self, next: u64) {
        let slowest = || self.seen.iter().map(|seen| seen.load(Ordering::Relaxed)).min();
        while slowest().is_some_and(|slowest| slowest.saturating_add(BATCHES_AHEAD * BATCH) < next) {
            self.moved.notified().await;
        }
    }

    /// From a commit until now.
    fn delay(&self, batch: usize, now: Instant) -> Duration {
        let commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is seen before the appender has its answer has no delay.
        commits.get(batch).map_or(Duration::ZERO, |commit| now.saturating_duration_since(*commit))
    }

    async fn follow(self: Arc<Self>, tail: Tail, index: usize) -> anyhow::Result<Histogram<u64>> {
        let delays = self.read_on(tail, index).await;
        // Also one that failed holds nobody up.
        self.moved_to(index, u64::MAX);
        delays
    }

    /// Reads until the appender stops, and checks that nothing is missing, doubled or out of order.
    async fn read_on(&self, mut tail: Tail, index: usize) -> anyhow::Result<Histogram<u64>> {
        let mut delays = Histogram::new(3)?;
        let mut next = self.first;
        while next < self.end.load(Ordering::Relaxed) {
            let page = tail.next().await?;
            let now = Instant::now();
            next = in_order(&page, Some(next))?;
            for events in page.events.chunk_by(|one, other| self.batch(one) == self.batch(other)) {
                let delay = self.delay(self.batch(&events[0]), now);
                delays.record_n(delay.as_nanos() as u64, events.len() as u64)?;
            }
            self.moved_to(index, next);
        }
        Ok(delays)
    }

    fn moved_to(&self, index: usize, next: u64) {
        self.seen[index].store(next, Ordering::Relaxed);
        self.moved.notify_one();
    }

    /// Which commit an event is from.
    fn batch(&self, event: &Event) -> usize {
        ((number(event) - self.first) / BATCH) as usize
    }
}

fn tail(feed: Feed, bus: &Bus, after: Cursor) -> Tail {
    let config = TailConfig { page_events: PAGE, ..TailConfig::default() };
    Tail::new(feed, CLUSTER, bus.clone(), after, config)
}

/// Checks that a page goes on with the event `next`, if that is known; the number of the one after it.
fn in_order(page: &Page, mut next: Option<u64>) -> anyhow::Result<u64> {
    ensure!(page.gap.is_none(), "a gap in a feed that nobody trims: {:?}", page.gap);
    for event in &page.events {
        let number = number(event);
        ensure!(next.is_none_or(|next| number == next), "event {number} where {next:?} was to come");
        next = Some(number + 1);
    }
    next.context("a tail returns no empty page")
}
