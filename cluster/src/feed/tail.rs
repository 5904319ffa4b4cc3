//! Following a feed: read on when the doorbell rings, and every now and then without it.

use std::{str, time::Duration};

use bytes::Bytes;

use super::{Cursor, Feed, Filter, Page, read::Error as FeedError};
use crate::{
    bus::{Bus, Subject, SubscribeError, Subscription, escape_token},
    sabotage::{Sabotage, is_on},
};

/// Where the doorbell of a feed rings.
pub fn doorbell_subject(cluster: &str, tenant: &str, feed: &str) -> Subject {
    Subject::from_tokens([
        "cadre",
        &escape_token(cluster),
        "feed",
        &escape_token(tenant),
        &escape_token(feed),
    ])
}

/// How a tail waits.
#[derive(Debug, Clone, Copy)]
pub struct TailConfig {
    /// A lost doorbell costs at most this much delay.
    pub look_every: Duration,
    /// The largest page it returns.
    pub page_events: usize,
}

impl Default for TailConfig {
    fn default() -> Self {
        Self { look_every: Duration::from_secs(1), page_events: 256 }
    }
}

/// A reader that follows one feed.
pub struct Tail {
    feed: Feed,
    filter: Option<Filter>,
    position: Cursor,
    bell: Option<Box<dyn Subscription>>,
    bus: Bus,
    subject: Subject,
    config: TailConfig,
}

impl Tail {
    /// Follows `feed` from `after`. Works without a bus, only more slowly.
    pub fn new(feed: Feed, cluster: &str, bus: Bus, after: Cursor, config: TailConfig) -> Self {
        let subject = doorbell_subject(cluster, &feed.tenant, &feed.id);
        Self { feed, filter: None, position: after, bell: None, bus, subject, config }
    }

    /// Follows only what `filter` lets through. The doorbell rings for the whole feed, so its price is a short
    /// read whenever anything is appended.
    pub fn filtered(self, filter: Filter) -> Self {
        Self { filter: Some(filter), ..self }
    }

    /// Where it stands: everything up to here was returned, or does not pass its filter. With a filter it moves
    /// on while [`Self::next`] waits: worth keeping even when there was no page.
    pub fn position(&self) -> Cursor {
        self.position
    }

    /// The next page that has events or a gap. Safe to drop while waiting.
    pub async fn next(&mut self) -> Result<Page, FeedError> {
        if self.bell.is_none() {
            self.listen().await;
        }
        loop {
            let (after, limit) = (self.position, self.config.page_events);
            let page = match &self.filter {
                Some(filter) => self.feed.read_filtered(filter, after, limit).await?,
                None => self.feed.read(after, limit).await?,
            };
            self.position = page.cursor;
            if page.gap.is_some() || !page.events.is_empty() {
                return Ok(page);
            }
            self.wait().await;
        }
    }

    async fn listen(&mut self) {
        match self.bus.subscribe(&self.subject).await {
            Ok(bell) => self.bell = Some(bell),
            Err(SubscribeError::Unavailable { reason }) => {
                tracing::debug!(subject = %self.subject, reason, "no doorbell, looking periodically");
            }
        }
    }

    /// Until there may be something new.
    async fn wait(&mut self) {
        let look = tokio::time::sleep(self.config.look_every);
        tokio::pin!(look);
        loop {
            let Some(bell) = &mut self.bell else {
                look.await;
                self.listen().await;
                return;
            };
            tokio::select! {
                biased;
                rung = bell.next() => match rung {
                    Some(delivery) => {
                        let hint = parse_hint(&delivery.payload);
                        if is_on(Sabotage::DoorbellIsTruth) && let Some(hint) = hint {
                            self.position = self.position.max(hint);
                        }
                        // A bell for what was read already is late, not news.
                        if hint.is_none_or(|hint| hint > self.position) || is_on(Sabotage::DoorbellIsTruth) {
                            return;
                        }
                    }
                    None => self.bell = None,
                },
                () = &mut look => return,
            }
        }
    }
}

/// What a doorbell says: up to where the feed has moved.
pub(crate) fn hint(cursor: Cursor) -> Bytes {
    cursor.to_string().into()
}

fn parse_hint(payload: &[u8]) -> Option<Cursor> {
    str::from_utf8(payload).ok()?.parse().ok()
}
