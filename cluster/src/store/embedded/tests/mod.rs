//! What the embedded store promises, and what it does when its folder, its disk or its process fails it.

mod basic;
mod damage;
mod failures;
mod folder;
mod full;
mod isolation;
mod kill;
mod model;
mod overlay;
mod power;
mod segments;
mod steps;

use std::{fs, path::Path};

use bytes::Bytes;

use super::{Embedded, EmbeddedConfig, SyncMode};
use crate::store::{CommitError, Committed, KeyRange, RangeRead, Store};

/// Small files and quick checkpoints.
fn small(path: &Path) -> EmbeddedConfig {
    EmbeddedConfig {
        checkpoint_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        reserve_bytes: 0,
        cache_bytes: 4 << 20,
        sync: SyncMode::Relaxed,
        ..EmbeddedConfig::new(path)
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn put(store: &Store, key: &str, value: &str) -> Result<Committed, CommitError> {
    let mut tx = store.begin();
    tx.set(key.to_owned(), value.to_owned());
    tx.commit().await
}

async fn get(store: &Store, key: &str) -> Option<Bytes> {
    store.begin().get(key.as_bytes()).await.unwrap()
}

/// Everything in the store, through pages of `limit`.
async fn dump(store: &Store, limit: usize) -> Vec<(Bytes, Bytes)> {
    let tx = store.begin();
    let mut rest = KeyRange::new("", "\u{ff}");
    let mut pairs = Vec::new();
    loop {
        let page = tx.range(&RangeRead::new(rest.clone()).limit(limit)).await.unwrap();
        let last = page.pairs.last().map(|pair| crate::store::key_after(&pair.key));
        pairs.extend(page.pairs.into_iter().map(|pair| (pair.key, pair.value)));
        match last.filter(|_| page.more) {
            Some(next) => rest.begin = next,
            None => return pairs,
        }
    }
}

/// Waits until no checkpoint writes: files that change while they are copied show no moment at all.
fn wait_until_quiet(embedded: &Embedded) {
    let shared = &embedded.inner.shared;
    while shared.checkpoints.is_busy() && !shared.room.is_wanted() && shared.failure().is_none() {
        std::thread::yield_now();
    }
}

/// What `from` would look like after a crash right now: a copy of files that nobody closed.
fn copy_as_after_a_crash(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_as_after_a_crash(&entry.path(), &target);
        } else {
            // The next segment gets its name while this runs.
            let copied = fs::copy(entry.path(), target);
            assert!(
                copied.as_ref().map_or_else(|e| e.kind() == std::io::ErrorKind::NotFound, |_| true),
                "{copied:?}"
            );
        }
    }
}
