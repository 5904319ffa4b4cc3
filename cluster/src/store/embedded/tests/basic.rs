//! Opening, committing, closing and finding everything again.

use super::*;

#[test]
fn what_was_committed_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..4 {
        run(async {
            let embedded = Embedded::open(EmbeddedConfig::new(folder.path())).unwrap();
            let store = embedded.store();
            for before in 0..round {
                assert_eq!(get(&store, &format!("key{before}")).await.unwrap(), format!("value{before}"));
            }
            put(&store, &format!("key{round}"), &format!("value{round}")).await.unwrap();
            if round % 2 == 0 {
                embedded.close().await;
            }
        });
    }
}

#[test]
fn stamps_grow_across_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = None;
    for _ in 0..5 {
        let embedded = Embedded::open(small(folder.path())).unwrap();
        for _ in 0..10 {
            let stamp = run(put(&embedded.store(), "key", "value")).unwrap().stamp;
            assert!(last < Some(stamp));
            last = Some(stamp);
        }
    }
}

#[test]
fn many_callers_share_a_sync() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(EmbeddedConfig::new(folder.path())).unwrap();
    let store = embedded.store();
    run(async {
        let puts = (0..500).map(|n| {
            let store = store.clone();
            async move { put(&store, &format!("key{n}"), "value").await.unwrap() }
        });
        let mut stamps: Vec<_> =
            futures::future::join_all(puts).await.into_iter().map(|committed| committed.stamp).collect();
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(stamps.len(), 500);
    });
    let stats = embedded.stats();
    assert_eq!(stats.commits, 500);
    assert!(stats.syncs < 100, "{stats:?}");
}

#[test]
fn a_second_opener_is_told_that_the_folder_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let first = Embedded::open(small(folder.path())).unwrap();
    let second = Embedded::open(small(folder.path()));
    assert!(matches!(second, Err(crate::store::OpenError::Locked { .. })), "{second:?}");
    drop(first);
    Embedded::open(small(folder.path())).unwrap();
}

#[test]
fn a_closed_store_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(small(folder.path())).unwrap();
    let store = embedded.store();
    run(async {
        put(&store, "key", "value").await.unwrap();
        let open = store.begin();
        open.get(b"key").await.unwrap();
        embedded.close().await;
        assert!(matches!(put(&store, "key", "late").await, Err(CommitError::Unavailable { .. })));
        assert!(matches!(open.get(b"key").await, Err(crate::store::ReadError::Unavailable { .. })));
        let again = Embedded::open(small(folder.path())).unwrap();
        assert_eq!(get(&again.store(), "key").await.unwrap(), "value");
    });
}
