//! A data folder that is put back from a copy, as after the loss of a disk.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;

use cadre_cluster::{
    clock::Timestamp,
    feed::Cursor,
    placement::begin_feed_epoch,
    store::embedded::{Embedded, EmbeddedConfig},
};
use common::{
    World,
    probe::{Entry, add, probe},
    world::tell,
};

/// Opens `folder`, has a node append so many events, and says where a reader of all of them stands.
async fn live(folder: &Path, events: u32, restored: Option<Timestamp>) -> (Embedded, World, Cursor) {
    let config = EmbeddedConfig { reserve_bytes: 1 << 20, ..EmbeddedConfig::new(folder) };
    let embedded = Embedded::open(config).unwrap();
    let world = World::on(embedded.store());
    if let Some(now) = restored {
        begin_feed_epoch(&world.store, now).await.unwrap();
    }
    let node = world.node("a").await;
    for n in 0..events {
        tell(&node.client(), probe("one"), add(&n.to_string(), 1)).await;
    }
    node.drain().await;
    let last = world.ledger().await.last().map_or(Cursor::START, |entry| entry.cursor);
    (embedded, world, last)
}

/// A life of the folder that ends.
async fn lived(folder: &Path, events: u32, restored: Option<Timestamp>) -> Cursor {
    let (embedded, _world, last) = live(folder, events, restored).await;
    embedded.close().await;
    last
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// What a reader at `cursor` sees, by sequence.
async fn seen_after(world: &World, cursor: Cursor) -> Vec<u64> {
    let page = world.feed().read(cursor, 1_000).await.unwrap();
    page.events.iter().map(|event| Entry::read(event).sequence).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p4_readers_that_were_ahead_of_a_backup_see_every_event_after_its_restore_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    lived(&at("data"), 10, None).await;
    copy(&at("data"), &at("restored"));
    copy(&at("data"), &at("forgotten"));
    let ahead = lived(&at("data"), 40, None).await;
    let (_open, world, _) = live(&at("forgotten"), 5, None).await;
    assert_eq!(seen_after(&world, ahead).await, [0; 0], "this is what the epoch is for");
    let (_open, world, _) = live(&at("restored"), 5, Some(Timestamp(9_000))).await;
    assert_eq!(seen_after(&world, ahead).await, [11, 12, 13, 14, 15]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p4_a_backup_that_is_restored_twice_hides_nothing_from_readers_of_the_first_time() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    lived(&at("data"), 10, None).await;
    copy(&at("data"), &at("once"));
    copy(&at("data"), &at("twice"));
    let ahead = lived(&at("once"), 40, Some(Timestamp(9_000))).await;
    let (_open, world, _) = live(&at("twice"), 5, Some(Timestamp(60_000))).await;
    assert_eq!(seen_after(&world, ahead).await, [11, 12, 13, 14, 15]);
}
