//! A disk that is really full: a small file system of its own.

use std::{path::PathBuf, process::Command, time::Duration};

use super::*;

/// A file system of a few megabytes, gone when dropped.
struct SmallDisk {
    path: PathBuf,
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// `None`, with a notice, where file systems cannot be mounted.
    fn mount(megabytes: usize) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::create_dir(&path).unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self { path, folder });
        }
        eprintln!("skipped: mounting a small file system needs root");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.path).status().ok();
    }
}

fn config(disk: &SmallDisk, reserve_bytes: u64) -> EmbeddedConfig {
    EmbeddedConfig {
        checkpoint_bytes: 256 << 10,
        segment_bytes: 256 << 10,
        reserve_bytes,
        ..small(&disk.path.join("data"))
    }
}

fn value(n: usize) -> String {
    format!("{n}/{}", "x".repeat(2000))
}

/// Commits until the disk is full and stays so, and says how many were confirmed.
async fn fill(store: &Store, from: usize) -> usize {
    let mut refused = 0;
    let mut n = from;
    while refused < 5 {
        match put(store, &format!("key{n:06}"), &value(n)).await {
            Ok(_) => (n, refused) = (n + 1, 0),
            Err(CommitError::Full { .. }) => {
                // A checkpoint may be about to make room.
                refused += 1;
                tokio::time::sleep(Duration::from_millis(60)).await;
            }
            Err(error) => panic!("commit {n}: {error}"),
        }
        assert!(n < 100_000, "the disk does not fill up");
    }
    n
}

async fn check(store: &Store, confirmed: usize) {
    let found = dump(store, 100).await;
    let found: Vec<_> = found.into_iter().filter(|(key, _)| key.starts_with(b"key")).collect();
    assert_eq!(found.len(), confirmed);
    for (n, (_, stored)) in found.iter().enumerate() {
        assert_eq!(*stored, value(n));
    }
}

/// Commits again and again until there is room.
async fn commit_once_there_is_room(store: &Store, key: &str) {
    for _ in 0..500 {
        match put(store, key, "value").await {
            Ok(_) => return,
            Err(CommitError::Full { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("commits stay refused although there is room");
}

#[test]
fn a_full_disk_refuses_commits_and_answers_reads_until_there_is_room() {
    for reserve in [0, 512 << 10] {
        let Some(disk) = SmallDisk::mount(10) else { return };
        let ballast = disk.path.join("ballast");
        fs::write(&ballast, vec![0; 3 << 20]).unwrap();
        let embedded = Embedded::open(config(&disk, reserve)).unwrap();
        let store = embedded.store();
        let confirmed = run(async {
            let confirmed = fill(&store, 0).await;
            check(&store, confirmed).await;
            fs::remove_file(&ballast).unwrap();
            commit_once_there_is_room(&store, "after").await;
            let more = fill(&store, confirmed).await;
            assert!(more > confirmed + 100, "{confirmed} before, {more} after");
            check(&store, more).await;
            more
        });
        // Crashed while full, or closed and opened again while full: everything is still there.
        let copy = tempfile::tempdir().unwrap();
        wait_until_quiet(&embedded);
        copy_as_after_a_crash(&disk.path.join("data"), copy.path());
        run(check(&Embedded::open(small(copy.path())).unwrap().store(), confirmed));
        drop((store, embedded));
        let again = Embedded::open(config(&disk, reserve)).unwrap();
        run(check(&again.store(), confirmed));
    }
}

#[test]
fn a_store_is_not_made_on_a_full_disk_and_the_error_says_why() {
    let Some(disk) = SmallDisk::mount(4) else { return };
    let ballast = disk.path.join("ballast");
    fs::write(&ballast, vec![0; 8 << 20]).unwrap_err();
    let error = Embedded::open(config(&disk, 0)).unwrap_err();
    assert!(matches!(&error, crate::store::OpenError::Io { .. }), "{error:?}");
    fs::remove_file(&ballast).unwrap();
    run(put(&Embedded::open(config(&disk, 0)).unwrap().store(), "key", "value")).unwrap();
}

#[test]
fn a_full_disk_can_be_freed_by_clearing() {
    let Some(disk) = SmallDisk::mount(10) else { return };
    let embedded = Embedded::open(config(&disk, 1 << 20)).unwrap();
    let store = embedded.store();
    run(async {
        let confirmed = fill(&store, 0).await;
        for _ in 0..500 {
            let mut tx = store.begin();
            tx.clear_range(KeyRange::prefix("key"));
            // As trimming does: a short note about what was cleared.
            tx.set("trimmed", "all");
            match tx.commit().await {
                Ok(_) => break,
                Err(CommitError::Full { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => panic!("{error}"),
            }
        }
        check(&store, 0).await;
        commit_once_there_is_room(&store, "after").await;
        let again = fill(&store, 0).await;
        assert!(again > confirmed / 5, "{confirmed} before, {again} after clearing everything");
    });
}

#[test]
fn a_store_that_was_opened_on_a_full_disk_and_closed_opens_again() {
    for _ in 0..5 {
        let Some(disk) = SmallDisk::mount(6) else { return };
        let (live, data) = (disk.folder.path().join("live"), disk.path.join("data"));
        let embedded = Embedded::open(small(&live)).unwrap();
        run(put(&embedded.store(), "key", "value")).unwrap();
        copy_as_after_a_crash(&live, &data);
        let ballast = disk.path.join("ballast");
        fs::write(&ballast, vec![0; 8 << 20]).unwrap_err();
        // No room for a segment; and then room for the last checkpoint.
        let embedded = Embedded::open(small(&data)).unwrap();
        fs::remove_file(&ballast).unwrap();
        drop(embedded);
        assert_eq!(run(get(&Embedded::open(small(&data)).unwrap().store(), "key")).unwrap(), "value");
    }
}
