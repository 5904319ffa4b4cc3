//! Readers of feeds: they follow, disconnect at drawn moments, dawdle, come back with their cursor, and keep a log
//! that has to equal the feed in the end.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

use super::{
    Dice, Lifeline,
    env::{CLUSTER, Env},
    workload::TENANT,
};
use crate::{
    feed::{Cursor, Event, Feed, Filter, Gap, Page, Tail, TailConfig},
    keys,
    store::{KeyValue, RangeRead},
};

/// What a reader reads, and how.
#[derive(Debug, Clone, Default)]
pub(super) struct Reading {
    pub feed: &'static str,
    /// Begins with a snapshot of the entities of this kind.
    pub snapshot_of: Option<&'static str>,
    /// Reads only these.
    pub filter: Option<Filter>,
    /// Sometimes sleeps over what happens.
    pub dawdles: bool,
}

/// What a reader saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub reading: Reading,
    /// Where it began: after a snapshot of the entities, or at the start.
    pub snapshot: Option<Snapshot>,
    pub events: Vec<Event>,
    /// The gaps it was told of, each with where it stood.
    pub gaps: Vec<(Cursor, Gap)>,
    cursor: Cursor,
}

/// The stored entities of a kind at one version, and the cursor that goes with them.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub cursor: Cursor,
    pub entities: Vec<KeyValue>,
}

impl Seen {
    fn take(&mut self, page: Page) {
        self.gaps.extend(page.gap.map(|gap| (self.cursor, gap)));
        self.cursor = page.cursor;
        self.events.extend(page.events);
    }
}

/// Follows a feed until told to stop.
pub(super) async fn follow(
    env: Arc<Env>,
    name: String,
    reading: Reading,
    dice: Dice,
    stop_at: watch::Receiver<Option<Instant>>,
) -> Seen {
    let store = env.store.connect(Lifeline::new(&name));
    let feed = Feed::new(store.clone(), TENANT, reading.feed, 1);
    let mut seen = Seen { reading, ..Seen::default() };
    if let Some(kind) = seen.reading.snapshot_of {
        let snapshot = loop {
            match snapshot(&feed, &store, kind).await {
                Ok(snapshot) => break snapshot,
                Err(_) => pause(50).await,
            }
        };
        seen.cursor = snapshot.cursor;
        seen.snapshot = Some(snapshot);
    }
    let reader = Reader { env, name, feed, dice, stop_at };
    match seen.reading.filter.clone() {
        Some(filter) if seen.reading.dawdles => reader.poll(&filter, &mut seen).await,
        filter => reader.tail(filter, &mut seen).await,
    }
    seen
}

struct Reader {
    env: Arc<Env>,
    name: String,
    feed: Feed,
    dice: Dice,
    stop_at: watch::Receiver<Option<Instant>>,
}

impl Reader {
    async fn tail(&self, filter: Option<Filter>, seen: &mut Seen) {
        let bus = Arc::new(self.env.bus.connect(Lifeline::new(&self.name)));
        loop {
            let config =
                TailConfig { page_events: self.dice.between(1..=40) as usize, ..TailConfig::default() };
            let mut tail = Tail::new(self.feed.clone(), CLUSTER, bus.clone(), seen.cursor, config);
            if let Some(filter) = &filter {
                tail = tail.filtered(filter.clone());
            }
            let reconnect = Instant::now() + Duration::from_millis(self.dice.between(100..=8_000));
            loop {
                if self.is_over() {
                    return;
                }
                let until = reconnect.min(Instant::now() + Duration::from_millis(500));
                match tokio::time::timeout_at(until, tail.next()).await {
                    Ok(Ok(page)) => seen.take(page),
                    Ok(Err(_)) => pause(50).await,
                    Err(_) if Instant::now() >= reconnect => break,
                    Err(_) => {}
                }
                self.dawdle(seen).await;
            }
            seen.cursor = tail.position();
        }
    }

    async fn poll(&self, filter: &Filter, seen: &mut Seen) {
        while !self.is_over() {
            let limit = self.dice.between(1..=40) as usize;
            match self.feed.read_filtered(filter, seen.cursor, limit).await {
                Ok(page) => {
                    let more = page.more;
                    seen.take(page);
                    if !more {
                        pause(self.dice.between(10..=800)).await;
                    }
                }
                Err(_) => pause(50).await,
            }
            self.dawdle(seen).await;
        }
    }

    async fn dawdle(&self, seen: &Seen) {
        let is_ending = self.stop_at.borrow().is_some();
        if seen.reading.dawdles && !is_ending && self.dice.chance(0.3) {
            // Less than what a reader is given in the end.
            pause(self.dice.between(0..=2_000)).await;
        }
    }

    fn is_over(&self) -> bool {
        self.stop_at.borrow().is_some_and(|at| Instant::now() >= at)
    }
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

async fn snapshot(
    feed: &Feed,
    store: &crate::store::Store,
    kind: &str,
) -> Result<Snapshot, crate::store::ReadError> {
    use futures::TryStreamExt;
    let tx = store.begin();
    let read = RangeRead::new(keys::states(TENANT, kind)).limit(usize::MAX);
    let entities = tx.snapshot_stream(read).try_collect().await?;
    let cursor = feed.snapshot_cursor(&tx).await?;
    Ok(Snapshot { cursor, entities })
}
