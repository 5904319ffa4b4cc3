//! A transaction sees its own writes.

use super::*;

/// Over what is stored and over nothing.
pub async fn own_sets_and_clears_are_read_back(store: &Store, prefix: &[u8]) -> Outcome {
    let (stored, new) = (key(prefix, "stored"), key(prefix, "new"));
    set(store, &stored, "old").await?;
    let mut tx = store.begin();
    for k in [&stored, &new] {
        tx.set(k.clone(), "mine");
        assert_eq!(tx.get(k).await?.unwrap(), "mine");
        tx.clear(k.clone());
        assert_eq!(tx.get(k).await?, None);
        tx.set(k.clone(), "again");
        tx.clear_range(all_of(prefix));
        assert_eq!(tx.get(k).await?, None);
        tx.set(k.clone(), "last");
        assert_eq!(tx.snapshot_get(k).await?.unwrap(), "last");
    }
    assert_eq!(store.begin().get(&stored).await?.unwrap(), "old", "not committed");
    Ok(())
}

/// Over what is stored, set, cleared, and nothing at all.
pub async fn own_adds_are_read_back(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |name: &str| key(prefix, name);
    let number = |value: Option<Bytes>| i64::from_le_bytes(value.unwrap()[..].try_into().unwrap());
    commit(store, |tx| {
        tx.add(name("cleared"), 100);
        tx.add(name("stored"), 100);
    })
    .await?;
    let mut tx = store.begin();
    tx.clear(name("cleared"));
    tx.set(name("set"), 10_i64.to_le_bytes().to_vec());
    for round in 1..=2 {
        for (n, base) in [("stored", 100), ("cleared", 0), ("set", 10), ("nothing", 0)] {
            tx.add(name(n), 1);
            assert_eq!(number(tx.get(&name(n)).await?), base + round, "{n}");
        }
    }
    let page = tx.range(&RangeRead::new(all_of(prefix)).limit(1)).await?;
    assert_eq!(number(page.pairs.first().map(|pair| pair.value.clone())), 2);
    Ok(())
}

/// In both directions, with every limit, and in pages of a few bytes.
pub async fn ranges_show_own_writes_over_stored_ones(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |index: u8| key(prefix, [index]);
    commit(store, |tx| (0..20).step_by(2).for_each(|index| tx.set(name(index), vec![index]))).await?;
    let mut tx = store.begin();
    tx.set(name(5), "new");
    tx.set(name(6), "over");
    tx.clear(name(8));
    tx.clear_range(KeyRange::new(name(10), name(15)));
    tx.set(name(12), "back");
    tx.add(name(16), 1);
    tx.add(name(17), 1);
    tx.set(name(30), "beyond");
    let expected = [0, 2, 4, 5, 6, 12, 16, 17, 18, 30].map(|index| vec![index]);
    for limit in 1..=expected.len() + 1 {
        for target_bytes in [1, 60, usize::MAX] {
            let read = RangeRead::new(all_of(prefix)).limit(limit).target_bytes(target_bytes);
            let pairs: Vec<_> = tx.snapshot_stream(read.clone()).try_collect().await?;
            assert_eq!(names(prefix, &pairs), expected[..limit.min(expected.len())]);
            let mut pairs: Vec<_> = tx.snapshot_stream(read.reverse()).try_collect().await?;
            pairs.reverse();
            assert_eq!(names(prefix, &pairs), expected[expected.len().saturating_sub(limit)..]);
        }
    }
    let inner = KeyRange::new(name(3), name(17));
    let pairs: Vec<_> = tx.snapshot_stream(RangeRead::new(inner)).try_collect().await?;
    assert_eq!(names(prefix, &pairs), expected[2..7]);
    assert_eq!(pairs[1].value, "new");
    assert_eq!(pairs[2].value, "over");
    assert_eq!(pairs[3].value, "back");
    // The stored byte 16, plus one, in eight bytes.
    assert_eq!(pairs[4].value, 17_i64.to_le_bytes()[..]);
    Ok(())
}

/// A thousand cleared keys cost no thousand pages.
pub async fn what_was_cleared_here_is_skipped_not_paged_through(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |index: u16| key(prefix, index.to_be_bytes());
    commit(store, |tx| (0..1_000).for_each(|index| tx.set(name(index), ""))).await?;
    let mut tx = store.begin();
    tx.clear_range(KeyRange::new(name(0), name(500)));
    tx.clear_range(KeyRange::new(name(500), name(999)));
    tx.set(name(700), "");
    let read = RangeRead::new(all_of(prefix)).limit(1);
    assert_eq!(tx.range(&read).await?.pairs[0].key, name(700));
    assert_eq!(tx.range(&read.clone().reverse()).await?.pairs[0].key, name(999));
    tx.clear_range(all_of(prefix));
    for read in [read.clone(), read.reverse()] {
        let page = tx.range(&read).await?;
        assert_eq!((page.pairs.len(), page.more), (0, false));
    }
    Ok(())
}

/// The view of the transaction that commits is the view of the next.
pub async fn what_one_read_here_is_what_is_stored_afterwards(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |index: u8| key(prefix, [index]);
    commit(store, |tx| (0..40).step_by(2).for_each(|index| tx.add(name(index), 1))).await?;
    let mut tx = store.begin();
    for index in 0..40 {
        match index % 7 {
            0 => tx.set(name(index), vec![index]),
            1 => tx.clear(name(index)),
            2 => tx.add(name(index), 3),
            3 => tx.clear_range(KeyRange::new(name(index.saturating_sub(5)), name(index))),
            _ => {}
        }
    }
    let mine: Vec<_> = tx.snapshot_stream(RangeRead::new(all_of(prefix))).try_collect().await?;
    tx.commit().await?;
    assert_eq!(read_all(store, all_of(prefix)).await?, mine);
    Ok(())
}
