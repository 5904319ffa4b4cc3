//! Writes and syncs that fail.

use std::io::ErrorKind;

use super::{super::disk::Step, *};

fn open() -> (tempfile::TempDir, Embedded) {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(small(&folder.path().join("live"))).unwrap();
    (folder, embedded)
}

/// What another process would find after a crash right now.
fn found_after_a_crash(folder: &tempfile::TempDir, embedded: &Embedded) -> Vec<(Bytes, Bytes)> {
    wait_until_quiet(embedded);
    let crashed = tempfile::tempdir().unwrap();
    copy_as_after_a_crash(&folder.path().join("live"), crashed.path());
    let embedded = Embedded::open(small(crashed.path())).unwrap();
    run(dump(&embedded.store(), 100))
}

#[test]
fn after_a_failed_sync_nothing_more_commits_and_the_failed_commit_is_unknown() {
    let (folder, embedded) = open();
    let store = embedded.store();
    run(async {
        put(&store, "before", "value").await.unwrap();
        embedded.inner.shared.disk.faults.plan(Step::Sync, ErrorKind::Other, 0);
        let failed = put(&store, "during", "value").await;
        assert!(matches!(failed, Err(CommitError::OutcomeUnknown)), "{failed:?}");
        // A later sync would succeed, and prove nothing.
        for _ in 0..3 {
            let later = put(&store, "after", "value").await;
            assert!(matches!(later, Err(CommitError::Failed(_))), "{later:?}");
        }
        assert_eq!(get(&store, "before").await.unwrap(), "value");
        assert_eq!(get(&store, "during").await, None);
        assert_eq!(get(&store, "after").await, None);
        embedded.close().await;
    });
    let found = found_after_a_crash(&folder, &embedded);
    assert!(found.iter().any(|(key, _)| key == "before"));
    assert!(!found.iter().any(|(key, _)| key == "after"));
}

#[test]
fn a_failed_write_is_unknown_too() {
    let (folder, embedded) = open();
    let store = embedded.store();
    run(async {
        put(&store, "before", "value").await.unwrap();
        embedded.inner.shared.disk.faults.plan(Step::Write, ErrorKind::Other, 20);
        assert!(matches!(put(&store, "during", "value").await, Err(CommitError::OutcomeUnknown)));
        assert!(matches!(put(&store, "after", "value").await, Err(CommitError::Failed(_))));
    });
    assert_eq!(found_after_a_crash(&folder, &embedded).len(), 1);
}

#[test]
fn a_full_disk_refuses_commits_leaves_nothing_of_them_and_lets_the_next_one_in() {
    // The write fails after some bytes, or all are written and the sync finds no room.
    for (step, kept) in [(Step::Write, 0), (Step::Write, 30), (Step::Write, 1 << 20), (Step::Sync, 0)] {
        let (folder, embedded) = open();
        let store = embedded.store();
        run(async {
            put(&store, "counter", "x").await.unwrap();
            for round in 0..3 {
                embedded.inner.shared.disk.faults.plan(step, ErrorKind::StorageFull, kept);
                let mut tx = store.begin();
                tx.clear_range(KeyRange::new("a", "z"));
                tx.set("refused", "value");
                tx.add("sum", 1);
                let full = tx.commit().await;
                assert!(matches!(full, Err(CommitError::Full { .. })), "{full:?}");
                assert_eq!(get(&store, "refused").await, None);
                assert_eq!(get(&store, "counter").await.unwrap(), "x");
                let mut tx = store.begin();
                tx.add("sum", 1);
                tx.commit().await.unwrap();
                let sum = get(&store, "sum").await.unwrap();
                assert_eq!(sum[..], (round + 1i64).to_le_bytes());
            }
        });
        let found = found_after_a_crash(&folder, &embedded);
        let keys: Vec<_> = found.iter().map(|(key, _)| key.clone()).collect();
        assert_eq!(keys, ["counter", "sum"]);
        assert_eq!(found[1].1[..], 3i64.to_le_bytes());
    }
}

#[test]
fn when_the_log_cannot_be_cut_back_the_outcome_is_unknown() {
    let (_folder, embedded) = open();
    let store = embedded.store();
    run(async {
        let faults = &embedded.inner.shared.disk.faults;
        faults.plan(Step::Sync, ErrorKind::StorageFull, 0);
        faults.plan(Step::Cut, ErrorKind::Other, 0);
        assert!(matches!(put(&store, "key", "value").await, Err(CommitError::OutcomeUnknown)));
        assert!(matches!(put(&store, "key", "value").await, Err(CommitError::Failed(_))));
    });
}

#[test]
fn after_a_failed_checkpoint_nothing_more_commits_and_nothing_is_lost() {
    let (folder, embedded) = open();
    let store = embedded.store();
    let confirmed = run(async {
        embedded.inner.shared.disk.faults.plan(Step::SyncEngine, ErrorKind::Other, 0);
        for n in 0..10_000 {
            match put(&store, &format!("key{n:05}"), &"x".repeat(1000)).await {
                Ok(_) => {}
                Err(CommitError::Failed(_)) => return n,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the checkpoint did not fail");
    });
    let found = found_after_a_crash(&folder, &embedded);
    assert_eq!(found.len(), confirmed);
}
