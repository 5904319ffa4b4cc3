//! Versionstamps: the order of commits, written where readers find it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::*;
use crate::store::Stamp;

fn stamp_at(bytes: &[u8], offset: usize) -> Stamp {
    Stamp::from(<[u8; Stamp::LEN]>::try_from(&bytes[offset..offset + Stamp::LEN]).unwrap())
}

/// One after another, blind or not, stamped writes or none.
pub async fn stamps_increase_in_commit_order(store: &Store, prefix: &[u8]) -> Outcome {
    let mut last = Stamp::default();
    for round in 0..30 {
        let mut tx = store.begin();
        if round % 3 == 0 {
            tx.get(prefix).await?;
        }
        tx.set(key(prefix, "k"), "");
        let committed = tx.commit().await?;
        assert!(committed.stamp > last, "{} after {last}", committed.stamp);
        last = committed.stamp;
    }
    Ok(())
}

/// Several of both in one transaction, at the beginning, in the middle and at the end.
pub async fn stamps_land_in_keys_and_values_where_asked(store: &Store, prefix: &[u8]) -> Outcome {
    let room = [0xaa; Stamp::LEN];
    let first = key(prefix, [&b"k"[..], &room, b"/first"].concat());
    let second = key(prefix, [&b"k"[..], &room, b"/second"].concat());
    let bare = key(prefix, room);
    let committed = commit(store, |tx| {
        tx.set_stamped_key(first.clone(), prefix.len() + 1, "1");
        tx.set_stamped_key(second.clone(), prefix.len() + 1, "2");
        tx.set_stamped_key(bare.clone(), prefix.len(), "");
        tx.set_stamped_value(key(prefix, "v/begin"), [&room[..], b" after"].concat(), 0);
        tx.set_stamped_value(key(prefix, "v/end"), [b"before ", &room[..]].concat(), 7);
        tx.set_stamped_value(key(prefix, "v/only"), room.to_vec(), 0);
    })
    .await?;
    let stamp = committed.stamp;
    let bytes = stamp.as_bytes();
    let get = async |name: &[u8]| Ok::<_, CommitError>(store.begin().get(&key(prefix, name)).await?.unwrap());
    assert_eq!(get(&[b"k", &bytes[..], b"/first"].concat()).await?, "1");
    assert_eq!(get(&[b"k", &bytes[..], b"/second"].concat()).await?, "2");
    assert_eq!(get(bytes).await?, "");
    assert_eq!(get(b"v/begin").await?, [&bytes[..], b" after"].concat());
    assert_eq!(get(b"v/end").await?, [b"before ", &bytes[..]].concat());
    assert_eq!(get(b"v/only").await?, bytes[..]);
    assert_eq!(read_all(store, all_of(prefix)).await?.len(), 6, "and nowhere else");
    Ok(())
}

/// What a reader sees is stamped up to its version, and what it does not see, above.
pub async fn a_read_version_bounds_the_stamps_in_sight(store: &Store, prefix: &[u8]) -> Outcome {
    let append = |tx: &mut Transaction| tx.set_stamped_key(key(prefix, [0; Stamp::LEN]), prefix.len(), "");
    for round in 0..20 {
        let before = commit(store, append).await?;
        let tx = store.begin();
        let seen_up_to = Stamp::last_of(tx.read_version().await?);
        let after = commit(store, append).await?;
        assert!(before.stamp <= seen_up_to && seen_up_to < after.stamp);
        let pairs: Vec<_> = tx.snapshot_stream(RangeRead::new(all_of(prefix))).try_collect().await?;
        assert_eq!(pairs.len(), 2 * round + 1);
        assert!(pairs.iter().all(|pair| stamp_at(&pair.key, prefix.len()) <= seen_up_to));
    }
    Ok(())
}

/// A reader that sees a stamp sees every smaller one that will ever exist: what any reader saw while writers
/// appended is the beginning of what is there in the end.
pub async fn stamps_become_visible_in_their_order(store: &Store, prefix: &[u8]) -> Outcome {
    const WRITERS: usize = 6;
    let writing = Arc::new(AtomicUsize::new(WRITERS));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS as u8 {
        let (store, prefix, writing) = (store.clone(), prefix.to_vec(), writing.clone());
        writers.spawn(async move {
            let template = key(&prefix, [&[0; Stamp::LEN][..], &[writer]].concat());
            let append = || {
                let mut tx = store.begin();
                tx.set_stamped_key(template.clone(), prefix.len(), "");
                tx.commit()
            };
            let mut certain = 0;
            for _ in 0..25 {
                certain += usize::from(persist(append).await?.is_some());
            }
            writing.fetch_sub(1, Ordering::Relaxed);
            Ok(certain)
        });
    }
    let mut readers = JoinSet::new();
    for _ in 0..3 {
        let (store, prefix, writing) = (store.clone(), prefix.to_vec(), writing.clone());
        readers.spawn(async move {
            let mut views = Vec::new();
            while writing.load(Ordering::Relaxed) > 0 {
                views.push(read_all(&store, all_of(&prefix)).await?);
                tokio::task::yield_now().await;
            }
            Ok(views)
        });
    }
    let certain: usize = joined(writers).await?.into_iter().sum();
    let views = joined(readers).await?;
    let end = read_all(store, all_of(prefix)).await?;
    assert!((certain..=25 * WRITERS).contains(&end.len()));
    for view in views.iter().flatten() {
        assert!(end.starts_with(view), "something appeared among stamps that were visible already");
    }
    Ok(())
}
