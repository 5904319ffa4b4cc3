//! One transaction, one version; and never one from before what was confirmed.

use super::*;
use crate::store::Stamp;

/// Whatever others commit between its reads: values, inserts, removals, in gets and ranges.
pub async fn a_transaction_reads_at_one_version_throughout(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |name: &str| key(prefix, name);
    commit(store, |tx| ["a", "b", "c"].map(|n| tx.set(name(n), "old")).into_iter().collect()).await?;
    let tx = store.begin();
    let version = tx.read_version().await?;
    assert_eq!(tx.get(&name("a")).await?.unwrap(), "old");
    for round in 0..3 {
        commit(store, |tx| {
            tx.clear(name("b"));
            tx.set(name("c"), "new");
            tx.set(name(&format!("d{round}")), "new");
            tx.add(name("e"), 1);
        })
        .await?;
        assert_eq!(tx.snapshot_get(&name("b")).await?.unwrap(), "old");
        assert_eq!(tx.get(&name("c")).await?.unwrap(), "old");
        assert_eq!(tx.get(&name("e")).await?, None);
        for reverse in [false, true] {
            let read = RangeRead { reverse, ..RangeRead::new(all_of(prefix)) };
            let pairs = read_through(&tx, read).await?;
            assert_eq!(pairs.len(), 3);
            assert!(pairs.iter().all(|pair| pair.value == "old"));
        }
        assert_eq!(tx.read_version().await?, version);
    }
    tx.commit().await.map(drop)
}

/// Two keys that always change together are read at once while they change.
pub async fn first_reads_made_at_once_see_one_version(store: &Store, prefix: &[u8]) -> Outcome {
    let (a, b) = (key(prefix, "a"), key(prefix, "b"));
    for round in 0..50_u8 {
        let tx = store.begin();
        let write = commit(store, |tx| [&a, &b].into_iter().for_each(|k| tx.set(k.clone(), vec![round])));
        let (left, written, right) = tokio::join!(tx.get(&a), write, tx.get(&b));
        written?;
        assert_eq!(left?, right?, "in round {round}");
    }
    Ok(())
}

/// By its version and by its data, for the one that committed and for everybody else.
pub async fn what_begins_after_a_confirmed_commit_sees_it(store: &Store, prefix: &[u8]) -> Outcome {
    let mut tasks = JoinSet::new();
    for task in 0..8_u8 {
        let (store, prefix) = (store.clone(), prefix.to_vec());
        tasks.spawn(async move {
            for round in 0..20_u8 {
                let k = key(&prefix, [task, round]);
                let write = || {
                    let mut tx = store.begin();
                    tx.set(k.clone(), "");
                    tx.commit()
                };
                let Some(committed) = persist(write).await? else { continue };
                assert_eq!(read_all(&store, KeyRange::single(k)).await?.len(), 1);
                let Ok(version) = store.begin().read_version().await else { continue };
                assert!(version >= committed.version(), "{version:?} after {}", committed.stamp);
            }
            Ok(())
        });
    }
    joined(tasks).await.map(drop)
}

/// Readers watch ten keys that are always written together, by two writers at once.
pub async fn a_commit_is_seen_whole_or_not_at_all(store: &Store, prefix: &[u8]) -> Outcome {
    let mut tasks = JoinSet::new();
    for writer in 0..2_u8 {
        let (store, prefix) = (store.clone(), prefix.to_vec());
        tasks.spawn(async move {
            for round in 0..30_u8 {
                let write = || {
                    let mut tx = store.begin();
                    (0..10_u8).for_each(|n| tx.set(key(&prefix, [n]), vec![writer, round]));
                    tx.commit()
                };
                persist(write).await?;
            }
            Ok(())
        });
    }
    for _ in 0..4 {
        let (store, prefix) = (store.clone(), prefix.to_vec());
        tasks.spawn(async move {
            for _ in 0..30 {
                let pairs = read_all(&store, all_of(&prefix)).await?;
                assert!(pairs.is_empty() || pairs.len() == 10, "a part of a commit: {pairs:?}");
                assert!(pairs.windows(2).all(|two| two[0].value == two[1].value), "a mixture: {pairs:?}");
                tokio::task::yield_now().await;
            }
            Ok(())
        });
    }
    joined(tasks).await.map(drop)
}

/// It wrote nothing that could have a stamp of its own.
pub async fn a_read_only_commit_is_at_its_read_version(store: &Store, prefix: &[u8]) -> Outcome {
    let before = set(store, &key(prefix, "k"), "").await?;
    let tx = store.begin();
    let version = tx.read_version().await?;
    set(store, &key(prefix, "k"), "").await?;
    let committed = tx.commit().await?;
    assert_eq!(committed.stamp, Stamp::last_of(version));
    assert!(committed.stamp > before.stamp);
    Ok(())
}
