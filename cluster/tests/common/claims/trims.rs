//! Trimming feeds while others read and append (P4, P9).

use std::time::Duration;

use cadre_cluster::{
    feed::{Cursor, trim},
    keys,
    store::Version,
};

use super::feeds::{append, bare, fill};
use crate::common::{World, eventually, probe::TENANT};

pub async fn a_reader_that_has_seen_all_that_was_trimmed_is_told_of_no_gap(world: World) {
    let _node = fill(&world, 2, 10).await;
    let (feed, ledger) = (world.feed(), world.ledger().await);
    let end = feed.snapshot_cursor(&world.store.begin()).await.unwrap();
    let last = ledger[19].cursor;
    assert!(last < end);
    assert_eq!(trim(&feed, end).await.unwrap().events, 20);
    let page = feed.read(last, 10).await.unwrap();
    assert!(page.gap.is_none() && page.events.is_empty(), "{page:?}");
    assert_eq!(feed.read(ledger[18].cursor, 10).await.unwrap().gap.unwrap().to, last);
    let never = bare(&world, "never");
    trim(&never, end).await.unwrap();
    assert!(never.read(Cursor::START, 10).await.unwrap().gap.is_none(), "nothing was there to be missed");
}

pub async fn a_trim_removes_nothing_that_is_appended_while_it_runs(world: World) {
    append(&world, "busy", &vec![Vec::new(); 5_000], b"").await;
    let feed = bare(&world, "busy");
    let before = world.faults.commits();
    world.faults.delay_commits(Duration::from_millis(100));
    let trimming = tokio::spawn({
        let feed = feed.clone();
        async move { trim(&feed, Cursor::end_of(1, Version(u64::MAX / 2))).await.unwrap() }
    });
    eventually("it has begun", async || world.faults.commits() > before).await;
    append(&world, "busy", &[Vec::new()], b"").await;
    assert_eq!(trimming.await.unwrap().events, 5_000);
    assert_eq!(feed.read(Cursor::START, 10).await.unwrap().events.len(), 1);
}

pub async fn of_two_trims_at_once_the_longer_counts(world: World) {
    let events = append(&world, "twice", &vec![Vec::new(); 100], b"").await;
    let feed = bare(&world, "twice");
    world.faults.delay_commits(Duration::from_millis(50));
    let (short, long) = tokio::join!(trim(&feed, events[10]), trim(&feed, events[60]));
    short.unwrap();
    long.unwrap();
    let page = feed.read(Cursor::START, 1_000).await.unwrap();
    assert_eq!((page.gap.unwrap().to, page.events.len()), (events[60], 39));
}

pub async fn p9_large_events_and_events_with_many_terms_are_trimmed_in_bounded_transactions(world: World) {
    let end = Cursor::end_of(1, Version(u64::MAX / 2));
    append(&world, "large", &vec![Vec::new(); 50], &[7; 90_000]).await;
    assert_eq!(trim(&bare(&world, "large"), end).await.unwrap().events, 50);
    // Short terms make small events; the keys of their index entries carry the name of the feed.
    let id = "m".repeat(200);
    let terms: Vec<String> = (0..10).map(|n| n.to_string()).collect();
    for _ in 0..4 {
        append(&world, &id, &vec![terms.clone(); 250], b"").await;
    }
    assert_eq!(trim(&bare(&world, &id), end).await.unwrap().events, 1_000);
    assert!(world.all(keys::indexes(TENANT, &id)).await.is_empty());
}
