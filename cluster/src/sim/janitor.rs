//! Janitors: trim a feed now and then, two at a time, and leave in the middle of it.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

use super::{Dice, Lifeline, env::Env, tree::FOREST, workload::TENANT};
use crate::{
    feed::{Cursor, Feed, trim},
    store::Version,
};

/// What a janitor did.
#[derive(Debug, Default)]
pub(super) struct Swept {
    /// Where it wanted to trim to, whatever came of it.
    pub asked: Vec<Cursor>,
    /// What it knows to be trimmed.
    pub done: Vec<Cursor>,
}

/// Trims the forest until told to stop.
pub(super) async fn sweep(
    env: Arc<Env>,
    name: String,
    dice: Dice,
    stop_at: watch::Receiver<Option<Instant>>,
) -> Swept {
    let feed = Feed::new(env.store.connect(Lifeline::new(&name)), TENANT, FOREST, 1);
    let mut swept = Swept::default();
    loop {
        tokio::time::sleep(Duration::from_millis(dice.between(300..=5_000))).await;
        if stop_at.borrow().is_some() {
            return swept;
        }
        let Some(to) = old_event(&feed, dice.between(0..=30) as usize).await else { continue };
        swept.asked.push(to);
        let patience = if dice.chance(0.3) { dice.between(0..=8) } else { 60_000 };
        match tokio::time::timeout(Duration::from_millis(patience), trim(&feed, to)).await {
            Ok(Ok(trimmed)) => {
                env.trace.note(format_args!("{name} trimmed {} events up to {to}", trimmed.events));
                swept.done.push(to);
            }
            Ok(Err(error)) => env.trace.note(format_args!("{name} cannot trim up to {to}: {error}")),
            Err(_) => env.trace.note(format_args!("{name} leaves while it trims up to {to}")),
        }
    }
}

/// Where an event stands that so many others follow, as far as one page shows.
async fn old_event(feed: &Feed, younger: usize) -> Option<Cursor> {
    let end = Cursor::end_of(1, Version(u64::MAX));
    let page = feed.read_before(end, younger + 1).await.ok()?;
    page.events.first().filter(|_| page.events.len() > younger).map(|event| event.cursor)
}
