//! Readers of feeds: they follow, disconnect at drawn moments, come back with their cursor, and keep a log that
//! has to equal the feed in the end.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Dice, Lifeline,
    nodes::{CLUSTER, Env},
    workload::TENANT,
};
use crate::{
    feed::{Cursor, Event, Feed, Filter, Tail, TailConfig},
    keys,
    store::{KeyValue, RangeRead},
};

/// What a reader saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub feed: &'static str,
    /// What it follows of it, if not everything.
    pub filter: Option<Filter>,
    /// Where it began: after a snapshot of the entities, or at the start.
    pub snapshot: Option<Snapshot>,
    pub events: Vec<Event>,
    /// Gaps it was told of; the simulation trims nothing.
    pub gaps: usize,
}

/// The stored entities of a kind at one version, and the cursor that goes with them.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub cursor: Cursor,
    pub entities: Vec<KeyValue>,
}

/// Where a reader begins, and what it lets through.
pub(super) enum Reading {
    /// At the start, with everything.
    Everything,
    /// After a snapshot of the entities of a kind.
    AfterSnapshot(&'static str),
    /// At the start, with only what passes.
    Only(Filter),
}

/// Follows a feed until told to stop.
pub(super) async fn follow(
    env: Arc<Env>,
    name: String,
    feed: &'static str,
    reading: Reading,
    dice: Dice,
    stop_at: tokio::sync::watch::Receiver<Option<Instant>>,
) -> Seen {
    let store = env.store.connect(Lifeline::new(&name));
    let bus = Arc::new(env.bus.connect(Lifeline::new(&name)));
    let handle = Feed::new(store.clone(), TENANT, feed, 1);
    let mut seen = Seen { feed, ..Seen::default() };
    let mut cursor = Cursor::START;
    match reading {
        Reading::Everything => {}
        Reading::AfterSnapshot(kind) => {
            let snapshot = loop {
                match snapshot(&handle, &store, kind).await {
                    Ok(snapshot) => break snapshot,
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            };
            cursor = snapshot.cursor;
            seen.snapshot = Some(snapshot);
        }
        Reading::Only(filter) => seen.filter = Some(filter),
    }
    loop {
        let config = TailConfig { page_events: dice.between(1..=40) as usize, ..TailConfig::default() };
        let mut tail = Tail::new(handle.clone(), CLUSTER, bus.clone(), cursor, config);
        if let Some(filter) = &seen.filter {
            tail = tail.filtered(filter.clone());
        }
        let reconnect = Instant::now() + Duration::from_millis(dice.between(100..=8_000));
        loop {
            let stop = stop_at.borrow().is_some_and(|at| Instant::now() >= at);
            if stop {
                return seen;
            }
            let until = reconnect.min(Instant::now() + Duration::from_millis(500));
            match tokio::time::timeout_at(until, tail.next()).await {
                Ok(Ok(page)) => {
                    seen.gaps += usize::from(page.gap.is_some());
                    seen.events.extend(page.events);
                }
                Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
                Err(_) if Instant::now() >= reconnect => break,
                Err(_) => {}
            }
        }
        cursor = tail.position();
    }
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
