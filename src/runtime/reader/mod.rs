//! Readers of feeds that share what they read.
//!
//! A session may have thousands of followers, each at a place of its own. The obvious reader for each would read, decode
//! and write down every event a thousand times. So each session that anybody follows here has one *watcher*, which waits
//! for the doorbell and reads what is new, and what was read is kept for a moment as *pages*: a follower finds the page
//! that begins at or before its place, and only reads the store when there is none. Followers who come from somewhere
//! else soon meet at the ends of the same pages.
//!
//! A page holds everything between two cursors, so that following pages misses nothing (P4). A follower reads only when
//! it is asked, so one that is not asked costs what it has in hand. What is kept is bounded for each feed and for all of
//! them together (P9); past it, followers read for themselves.

mod page;
mod pages;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, atomic::AtomicUsize},
    time::Duration,
};

use cadre_cluster::feed::{Feed, Tail, TailConfig};
use tokio::{sync::Notify, task::AbortHandle, time::Instant};

pub use self::page::{Form, SharedEvent};
use self::{page::Page, pages::Pages};
use super::{Caller, Runtime};
use crate::{
    control::Error,
    fact::{Cursor, id::SessionId},
};

/// The largest page.
const PAGE_EVENTS: usize = 256;
/// How long a page is kept that nobody asks for: long enough for those who follow at about the same pace.
const KEPT: Duration = Duration::from_secs(2);
/// How long a watcher waits after a read that failed.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Rings for somebody who follows several sessions.
pub type Bell = Notify;

/// All feeds that somebody follows here. Cheap to clone.
#[derive(Clone, Default)]
pub struct Readers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    feeds: Mutex<HashMap<(String, SessionId), Weak<Watched>>>,
    /// How many bytes all pages hold.
    held: Arc<AtomicUsize>,
}

/// A feed that somebody follows.
struct Watched {
    session: SessionId,
    feed: Feed,
    /// Everything up to here is in the store: who stands before it may have something to read.
    edge: Mutex<Cursor>,
    pages: Mutex<Pages>,
    /// Held while somebody reads, so that others at the same place find what was read.
    reading: tokio::sync::Mutex<()>,
    bells: Mutex<Vec<Weak<Bell>>>,
    watcher: Mutex<Option<AbortHandle>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(watcher) = locked(&self.watcher).take() {
            watcher.abort();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One place in a feed that moves on.
pub struct Follower {
    watched: Arc<Watched>,
    position: Cursor,
}

/// What a follower finds at its place.
#[derive(Debug)]
pub enum Found {
    /// Events, in order. None when there is nothing right now.
    Events(Vec<Arc<SharedEvent>>),
    /// What came before the second cursor is no longer kept.
    Gap(Cursor, Cursor),
}

impl Follower {
    /// Everything up to here was found.
    pub fn position(&self) -> Cursor {
        self.position
    }

    /// Goes on somewhere else.
    pub fn go_to(&mut self, position: Cursor) {
        self.position = position;
    }

    /// Whether there may be something to find.
    pub fn is_behind(&self) -> bool {
        self.position < *locked(&self.watched.edge)
    }

    /// Has a bell rung whenever there may be something new, for as long as the bell is held by anybody.
    pub fn ring(&self, bell: &Arc<Bell>) {
        locked(&self.watched.bells).push(Arc::downgrade(bell));
    }

    /// Has it rung no more.
    pub fn silence(&self, bell: &Arc<Bell>) {
        let mut bells = locked(&self.watched.bells);
        if let Some(index) = bells.iter().position(|known| known.as_ptr() == Arc::as_ptr(bell)) {
            bells.swap_remove(index);
        }
    }

    /// What comes next, at most so many events.
    pub async fn find(&mut self, at_most: usize) -> Result<Found, Error> {
        let edge = *locked(&self.watched.edge);
        let page = self.watched.page(self.position).await?;
        if let Some((from, to)) = page.gap {
            self.position = to;
            return Ok(Found::Gap(from, to));
        }
        let events: Vec<_> = page.after(self.position).iter().take(at_most).cloned().collect();
        self.position = match events.last() {
            Some(last) => last.event.cursor,
            // The edge was there before the read, which found nothing: there is nothing up to it.
            None => self.position.max(edge),
        };
        Ok(Found::Events(events))
    }
}

impl Watched {
    async fn page(&self, after: Cursor) -> Result<Arc<Page>, Error> {
        let known = || locked(&self.pages).find(after, Instant::now());
        if let Some(page) = known() {
            return Ok(page);
        }
        let _reading = self.reading.lock().await;
        if let Some(page) = known() {
            return Ok(page);
        }
        let page = self.feed.read(after, PAGE_EVENTS).await;
        let page = page.map_err(|error| Error::unavailable(error.to_string()))?;
        let page = Arc::new(Page::read(after, page, &self.session)?);
        locked(&self.pages).keep(page.clone(), Instant::now());
        Ok(page)
    }

    fn moved(&self, to: Cursor) {
        {
            let mut edge = locked(&self.edge);
            *edge = to.max(*edge);
        }
        locked(&self.bells).retain(|bell| match bell.upgrade() {
            Some(bell) => {
                bell.notify_one();
                true
            }
            None => false,
        });
    }
}

/// Reads on whenever there is something new, for as long as anybody follows.
async fn watch(watched: Weak<Watched>, mut tail: Tail) {
    loop {
        let from = tail.position();
        let page = tail.next().await;
        let Some(watched) = watched.upgrade() else { return };
        match page.map_err(|error| error.to_string()) {
            Ok(page) => {
                let to = page.cursor;
                match Page::read(from, page, &watched.session) {
                    Ok(page) => locked(&watched.pages).keep(Arc::new(page), Instant::now()),
                    // Whoever stands here reads for itself, and is told.
                    Err(error) => tracing::debug!(%error, "a page was not kept"),
                }
                watched.moved(to);
            }
            Err(error) => {
                tracing::debug!(error, "a feed cannot be read now");
                drop(watched);
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }
}

impl Runtime {
    /// A reader of a session's feed, from a position on, that shares what it reads with all others here.
    pub async fn follower(
        &self,
        caller: &Caller,
        session: &SessionId,
        after: Cursor,
    ) -> Result<Follower, Error> {
        let key = (caller.tenant.clone(), session.clone());
        if let Some(watched) = locked(&self.readers.0.feeds).get(&key).and_then(Weak::upgrade) {
            return Ok(Follower { watched, position: after });
        }
        let feed = self.feed(caller, session);
        let edge = feed.snapshot_cursor(&self.store.begin()).await;
        let edge = edge.map_err(|error| Error::unavailable(error.to_string()))?;
        let mut feeds = locked(&self.readers.0.feeds);
        // Somebody else may have come first.
        if let Some(watched) = feeds.get(&key).and_then(Weak::upgrade) {
            return Ok(Follower { watched, position: after });
        }
        let config = TailConfig { page_events: PAGE_EVENTS, ..TailConfig::default() };
        let tail = Tail::new(feed.clone(), &self.settings.host.cluster, self.bus.clone(), edge, config);
        let watched = Arc::new(Watched {
            session: session.clone(),
            feed,
            edge: Mutex::new(edge),
            pages: Mutex::new(Pages::new(self.readers.0.held.clone())),
            reading: tokio::sync::Mutex::default(),
            bells: Mutex::default(),
            watcher: Mutex::default(),
        });
        let watcher = tokio::spawn(watch(Arc::downgrade(&watched), tail));
        *locked(&watched.watcher) = Some(watcher.abort_handle());
        feeds.insert(key, Arc::downgrade(&watched));
        Ok(Follower { watched, position: after })
    }
}

impl Readers {
    /// Forgets feeds that nobody follows, and pages that nobody has asked for lately.
    pub fn tidy(&self) {
        let now = Instant::now();
        let watched: Vec<Arc<Watched>> = {
            let mut feeds = locked(&self.0.feeds);
            feeds.retain(|_, watched| watched.strong_count() > 0);
            feeds.values().filter_map(Weak::upgrade).collect()
        };
        for watched in watched {
            locked(&watched.pages).forget(now - KEPT);
        }
    }

    /// How many feeds are followed here, and how many bytes of them are held.
    pub fn size(&self) -> (usize, usize) {
        let feeds = locked(&self.0.feeds).values().filter(|watched| watched.strong_count() > 0).count();
        (feeds, self.0.held.load(std::sync::atomic::Ordering::Relaxed))
    }
}
