//! P4 and P9 of pages: whoever goes from page to page has every event once, and what is kept is bounded.

use std::sync::{Arc, atomic::AtomicUsize};

use cadre_cluster::{
    clock::Timestamp,
    feed::{Event as Raw, Page as RawPage},
    store::{Stamp, Version},
};
use proptest::prelude::*;
use tokio::time::Instant;

use super::{page::Page, pages::Pages};
use crate::fact::{Cursor, Fact, StoredEvent, id::SessionId, payload::SnapshotRepaired, scope::SessionScope};

fn cursor(number: u64) -> Cursor {
    Cursor::new(1, Stamp::new(Version(number), 0), 0)
}

/// The events after one number and up to another, each of which has one.
fn page(from: u64, to: u64, padding: usize) -> Arc<Page> {
    let event = |number| {
        let reason = "x".repeat(padding);
        let repaired = SnapshotRepaired { reason, from: None, to: None, snapshot: None };
        let fact = Fact::new(Timestamp(number), SessionScope {}, repaired);
        let body = StoredEvent { stream: "session:s".into(), sequence: number, trace: None, fact }.encode();
        Raw { cursor: cursor(number), body }
    };
    let events: Vec<Raw> = (from + 1..=to).map(event).collect();
    let raw = RawPage { gap: None, events, cursor: cursor(to), more: false };
    Arc::new(Page::read(cursor(from), raw, &SessionId::parse("s").unwrap()).unwrap())
}

fn pages() -> (Pages, Arc<AtomicUsize>) {
    let held = Arc::<AtomicUsize>::default();
    (Pages::new(held.clone()), held)
}

proptest! {
    #[test]
    fn p4_whatever_pages_are_kept_a_follower_finds_every_event_once_and_in_order(
        kept in prop::collection::vec((0_u64..60, 1_u64..20), 0..20),
        at_most in 1_usize..8,
    ) {
        let (mut pages, _) = pages();
        let now = Instant::now();
        for (from, len) in kept {
            pages.keep(page(from, from + len, 0), now);
        }
        let (mut position, mut seen) = (0, Vec::new());
        while position < 80 {
            // What is not kept is read from the store.
            let found = pages.find(cursor(position), now).unwrap_or_else(|| page(position, position + 7, 0));
            let events: Vec<u64> =
                found.after(cursor(position)).iter().take(at_most).map(|event| event.event.sequence).collect();
            prop_assert!(!events.is_empty());
            position = *events.last().unwrap();
            seen.extend(events);
        }
        let expected: Vec<u64> = (1..=position).collect();
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn p9_the_pages_of_a_feed_are_bounded_and_what_was_asked_for_last_stays() {
    let (mut pages, held) = pages();
    let begun = Instant::now();
    let later = |ms| begun + std::time::Duration::from_millis(ms);
    for number in 0..100 {
        pages.keep(page(number * 10, number * 10 + 10, 10_000), later(number));
        assert!(held.load(std::sync::atomic::Ordering::Relaxed) <= 2 * 1024 * 1024);
    }
    assert!(pages.find(cursor(995), later(100)).is_some());
    assert!(pages.find(cursor(5), later(100)).is_none(), "the oldest had to go");
    pages.forget(later(100));
    assert!(pages.find(cursor(985), later(101)).is_none(), "nobody has asked for it");
    assert!(pages.find(cursor(995), later(101)).is_some());
    drop(pages);
    assert_eq!(held.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn a_page_with_a_gap_or_nothing_in_it_is_not_kept() {
    let (mut pages, held) = pages();
    pages.keep(page(3, 3, 0), Instant::now());
    let raw = RawPage {
        gap: Some(cadre_cluster::feed::Gap { from: cursor(0), to: cursor(5) }),
        events: Vec::new(),
        cursor: cursor(5),
        more: false,
    };
    let gap = Page::read(cursor(0), raw, &SessionId::parse("s").unwrap()).unwrap();
    pages.keep(Arc::new(gap), Instant::now());
    assert_eq!(held.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert!(pages.find(cursor(1), Instant::now()).is_none());
}
