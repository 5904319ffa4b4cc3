//! Waiting for something to have happened, without asking all the time.

use std::time::Duration;

use cadre_cluster::feed::Cursor;
use tokio::time::Instant;

use super::{EventFilter, Request, Runtime};
use crate::{
    control::Error,
    fact::{Event, Fact, id::SessionId},
    sabotage::{Sabotage, is_on},
};

/// A lost doorbell costs at most this much, and a busy feed makes nobody look more often than this.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(3);

/// A tree that somebody has told to close.
pub(super) struct Closing<'a> {
    /// In which session.
    pub session: &'a SessionId,
    /// Whose end is waited for.
    pub root: Root<'a>,
    /// Where the feed ended before the order was given.
    pub since: Cursor,
    /// The last fact that was written with the order itself.
    pub told: Option<Cursor>,
}

/// What is at the root of a tree.
pub(super) struct Root<'a> {
    /// The stream of its facts, as they name it.
    pub stream: String,
    /// Whether a fact of that stream is its end.
    pub ended: &'a (dyn Fn(&Fact) -> bool + Sync),
}

impl<'a> Root<'a> {
    pub(super) fn new(kind: &str, id: &str, ended: &'a (dyn Fn(&Fact) -> bool + Sync)) -> Self {
        Self { stream: format!("{kind}:{id}"), ended }
    }
}

impl Runtime {
    /// Looks until there is something, or the time is over: at once, and whenever the session's feed moves.
    pub(super) async fn wait_for<T, F>(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        until: Instant,
        look: impl Fn() -> F,
    ) -> Result<Option<T>, Error>
    where
        F: Future<Output = Result<Option<T>, Error>>,
    {
        if let Some(found) = look().await? {
            return Ok(Some(found));
        }
        let here = self.end_of_feed(request, session).await?;
        let mut feed = self.follow(request.caller, session, here, EventFilter::default());
        loop {
            // First for what happened before the feed was followed.
            let begun = Instant::now();
            if let Some(found) = look().await? {
                return Ok(Some(found));
            }
            // Who waits for very many looks at most half of the time.
            let pause = LOOK_PAUSE_MIN.max(begun.elapsed());
            if Instant::now() >= until {
                return Ok(None);
            }
            let moved = tokio::time::timeout_at(until.min(Instant::now() + LOOK_EVERY), feed.next()).await;
            if let Ok(moved) = moved {
                moved?;
                tokio::time::sleep_until(until.min(Instant::now() + pause)).await;
            }
        }
    }

    /// Waits until a tree is closed: how whatever is at its root has ended, and where that is told (P11); or, when the root
    /// had ended before, where the last of what followed is. The place is always that of a fact, and there is none when
    /// nothing was left to be done. `None` when the caller's time was over before that.
    pub(super) async fn wait_closed<S, F>(
        &self,
        request: &Request<'_>,
        closing: Closing<'_>,
        closed: impl Fn() -> F,
        early: S,
    ) -> Result<Option<(S, Option<Cursor>)>, Error>
    where
        F: Future<Output = Result<Option<S>, Error>>,
    {
        let Closing { session, root, since, told } = closing;
        if is_on(Sabotage::CancelAnsweredEarly) {
            let last = self.events_lately(request, session, since).await?.pop().map(|event| event.cursor);
            return Ok(Some((early, last.or(told))));
        }
        let (status, at_once) = match closed().await? {
            Some(status) => (Some(status), true),
            None => (self.wait_for(request, session, request.until, closed).await?, false),
        };
        let Some(status) = status else { return Ok(None) };
        let lately = self.events_lately(request, session, since).await?;
        let is_end = |event: &&Event| event.stream == root.stream && (root.ended)(&event.fact);
        let end = lately.iter().rev().find(is_end).map(|event| event.cursor);
        let last = lately.last().map(|event| event.cursor).filter(|_| !at_once);
        Ok(Some((status, end.or(last).or(told))))
    }

    /// Where the feed first says something of what passes, the same however often it is asked for (P3); where it ends when
    /// it does not say so yet, or no longer. For what a child was told by its parent and the caller by neither.
    pub(super) async fn first_told(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        filter: EventFilter,
    ) -> Result<Cursor, Error> {
        // What begins with it has it among its first facts.
        let page = self.events(request.caller, session, Cursor::START, 64, &filter).await?;
        match page.events.first() {
            Some(event) => Ok(event.cursor),
            None => self.end_of_feed(request, session).await,
        }
    }

    /// Where a session's feed ends right now.
    pub(super) async fn end_of_feed(
        &self,
        request: &Request<'_>,
        session: &SessionId,
    ) -> Result<Cursor, Error> {
        let feed = self.feed(request.caller, session);
        feed.snapshot_cursor(&self.store.begin()).await.map_err(super::failure::unreadable)
    }
}
