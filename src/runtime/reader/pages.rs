//! The pages of one feed that are kept for a moment.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::time::Instant;

use super::page::Page;
use crate::fact::Cursor;

/// What the pages of one feed may hold, in bytes as they are stored; decoded and written down they take several times
/// that.
const FEED_BYTES_MAX: usize = 2 * 1024 * 1024;
/// What all pages may hold together.
const ALL_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Pages by where they begin.
#[derive(Debug)]
pub(super) struct Pages {
    pages: BTreeMap<Cursor, Kept>,
    bytes: usize,
    /// What the pages of all feeds hold.
    held: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Kept {
    page: Arc<Page>,
    asked: Instant,
}

impl Pages {
    pub fn new(held: Arc<AtomicUsize>) -> Self {
        Self { pages: BTreeMap::new(), bytes: 0, held }
    }

    /// The page with what comes right after a cursor.
    pub fn find(&mut self, after: Cursor, now: Instant) -> Option<Arc<Page>> {
        let (_, kept) = self.pages.range_mut(..=after).next_back()?;
        if !kept.page.has(after) {
            return None;
        }
        kept.asked = now;
        Some(kept.page.clone())
    }

    /// Keeps a page, if there is room and something in it.
    pub fn keep(&mut self, page: Arc<Page>, now: Instant) {
        if page.gap.is_some() || page.to <= page.from || page.bytes > FEED_BYTES_MAX {
            return;
        }
        while self.bytes + page.bytes > FEED_BYTES_MAX {
            let Some(oldest) = self.pages.iter().min_by_key(|(_, kept)| kept.asked).map(|(from, _)| *from)
            else {
                break;
            };
            self.remove(oldest);
        }
        if self.held.load(Ordering::Relaxed) + page.bytes > ALL_BYTES_MAX {
            return;
        }
        self.remove(page.from);
        self.add(page.bytes as isize);
        self.pages.insert(page.from, Kept { page, asked: now });
    }

    /// Forgets what was not asked for since then.
    pub fn forget(&mut self, since: Instant) {
        let old: Vec<Cursor> =
            self.pages.iter().filter(|(_, kept)| kept.asked < since).map(|(from, _)| *from).collect();
        for from in old {
            self.remove(from);
        }
    }

    fn remove(&mut self, from: Cursor) {
        if let Some(kept) = self.pages.remove(&from) {
            self.add(-(kept.page.bytes as isize));
        }
    }

    fn add(&mut self, bytes: isize) {
        self.bytes = self.bytes.saturating_add_signed(bytes);
        // Wrapping is what adding a negative number is here.
        self.held.fetch_add(bytes as usize, Ordering::Relaxed);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
