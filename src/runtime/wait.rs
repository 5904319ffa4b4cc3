//! Waiting for something to have happened, without asking all the time.

use std::time::Duration;

use cadre_cluster::feed::Cursor;
use tokio::time::Instant;

use super::{EventFilter, Request, Runtime};
use crate::{
    control::Error,
    fact::id::SessionId,
    sabotage::{Sabotage, is_on},
};

/// A lost doorbell costs at most this much, and a busy feed makes nobody look more often than this.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(3);

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

    /// Waits until a tree is closed: how whatever is at its root has ended, and where the feed ends then (P11). `None` when
    /// the caller's time was over before that.
    pub(super) async fn wait_closed<S, F>(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        closed: impl Fn() -> F,
        early: S,
    ) -> Result<Option<(S, Cursor)>, Error>
    where
        F: Future<Output = Result<Option<S>, Error>>,
    {
        let status = match is_on(Sabotage::CancelAnsweredEarly) {
            true => Some(early),
            false => self.wait_for(request, session, request.until, closed).await?,
        };
        match status {
            Some(status) => Ok(Some((status, self.end_of_feed(request, session).await?))),
            None => Ok(None),
        }
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
