//! Serializable: what was read must not have changed; nothing else is in the way.

use super::*;
use crate::store::Stamp;

/// Two read a counter, both would write it.
pub async fn a_lost_update_is_refused(store: &Store, prefix: &[u8]) -> Outcome {
    let k = key(prefix, "counter");
    for stored in [false, true] {
        if stored {
            set(store, &k, "0").await?;
        }
        let (mut one, mut two) = (store.begin(), store.begin());
        one.get(&k).await?;
        two.get(&k).await?;
        one.set(k.clone(), "one");
        two.set(k.clone(), "two");
        one.commit().await?;
        assert_conflict(two.commit().await, "a lost update")?;
        assert_eq!(store.begin().get(&k).await?.unwrap(), "one");
        commit(store, |tx| tx.clear(k.clone())).await?;
    }
    Ok(())
}

/// Two read both keys, each writes another one.
pub async fn write_skew_is_refused(store: &Store, prefix: &[u8]) -> Outcome {
    let (a, b) = (key(prefix, "a"), key(prefix, "b"));
    commit(store, |tx| [&a, &b].into_iter().for_each(|k| tx.set(k.clone(), "on duty"))).await?;
    let (mut one, mut two) = (store.begin(), store.begin());
    for tx in [&one, &two] {
        tx.get(&a).await?;
        tx.get(&b).await?;
    }
    one.clear(a.clone());
    two.clear(b.clone());
    one.commit().await?;
    assert_conflict(two.commit().await, "write skew")?;
    assert_eq!(names(prefix, &read_all(store, all_of(prefix)).await?), [b"b"]);
    Ok(())
}

/// A phantom: into the middle, before the first, after the last, and into an empty range, read either way.
pub async fn an_insert_into_a_range_that_was_read_is_refused(store: &Store, prefix: &[u8]) -> Outcome {
    for (round, name) in ["e", "a", "y", "e"].into_iter().enumerate() {
        for reverse in [false, true] {
            let area = key(prefix, format!("{round}{reverse}/"));
            if round < 3 {
                commit(store, |tx| ["b", "h", "x"].map(|n| tx.set(key(&area, n), "")).into_iter().collect())
                    .await?;
            }
            let mut tx = store.begin();
            let read = RangeRead { reverse, ..RangeRead::new(all_of(&area)) };
            read_through(&tx, read).await?;
            tx.set(key(prefix, "mine"), "");
            set(store, &key(&area, name), "").await?;
            assert_conflict(tx.commit().await, "a phantom")?;
        }
    }
    assert_eq!(store.begin().get(&key(prefix, "mine")).await?, None);
    Ok(())
}

/// For a point and for a range, over a key and over none.
pub async fn a_cleared_range_over_what_was_read_is_refused(store: &Store, prefix: &[u8]) -> Outcome {
    for stored in [true, false] {
        let area = key(prefix, format!("{stored}/"));
        let k = key(&area, "k");
        let (mut point, mut range) = (store.begin(), store.begin());
        if stored {
            set(store, &k, "v").await?;
        }
        point.get(&k).await?;
        range.range(&RangeRead::new(all_of(&area))).await?;
        point.set(key(prefix, "point"), "");
        range.set(key(prefix, "range"), "");
        commit(store, |tx| tx.clear_range(all_of(prefix))).await?;
        assert_conflict(point.commit().await, "a read of a key that was cleared")?;
        assert_conflict(range.commit().await, "a read of a range that was cleared")?;
    }
    Ok(())
}

/// They need no read to commit, but those who read need them.
pub async fn adds_and_stamps_into_what_was_read_are_refused(store: &Store, prefix: &[u8]) -> Outcome {
    let counter = key(prefix, "counter");
    let area = key(prefix, "log/");
    let (mut one, mut two) = (store.begin(), store.begin());
    one.get(&counter).await?;
    one.set(key(prefix, "one"), "");
    two.range(&RangeRead::new(all_of(&area))).await?;
    two.set(key(prefix, "two"), "");
    commit(store, |tx| {
        tx.add(counter.clone(), 0);
        tx.set_stamped_key(key(&area, [0; Stamp::LEN]), area.len(), "");
    })
    .await?;
    assert_conflict(one.commit().await, "a read of a key that was added to")?;
    assert_conflict(two.commit().await, "a read of a range that was appended to")
}

/// None of its sets, clears and adds.
pub async fn a_transaction_that_conflicts_writes_nothing(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |name: &str| key(prefix, name);
    set(store, &name("kept"), "v").await?;
    let mut tx = store.begin();
    tx.get(&name("fence")).await?;
    tx.clear(name("kept"));
    tx.set(name("new"), "");
    tx.add(name("counter"), 1);
    set(store, &name("fence"), "").await?;
    assert_conflict(tx.commit().await, "a fenced transaction")?;
    assert_eq!(names(prefix, &read_all(store, all_of(prefix)).await?), [&b"fence"[..], b"kept"]);
    Ok(())
}

/// Without a read of the range, and for exactly that range.
pub async fn an_added_read_conflict_is_minded(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |name: &str| key(prefix, name);
    for (written, conflicts) in [("b", true), ("c\0", true), ("d", false), ("a", false)] {
        let mut tx = store.begin();
        tx.read_version().await?;
        tx.add_read_conflict(KeyRange::new(name("b"), name("d")));
        tx.set(name("mine"), "");
        set(store, &name(written), "").await?;
        let answer = tx.commit().await;
        if conflicts { assert_conflict(answer, written)? } else { answer.map(drop)? }
    }
    Ok(())
}

/// A page of the first two minds an insert between them, not a change of the third.
pub async fn a_page_minds_what_it_covers_and_no_more(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |name: &str| key(prefix, name);
    commit(store, |tx| ["b", "d", "f", "h"].map(|n| tx.set(name(n), "")).into_iter().collect()).await?;
    for (reverse, written, conflicts) in [
        (false, "c", true),
        (false, "a", true),
        (false, "f", false),
        (true, "g", true),
        (true, "i", true),
        (true, "d", false),
    ] {
        let mut tx = store.begin();
        let read = RangeRead { reverse, ..RangeRead::new(KeyRange::new(name("a"), name("z"))).limit(2) };
        if tx.range(&read).await?.pairs.len() < 2 {
            // A page may be short; this one then shows nothing.
            continue;
        }
        tx.set(name("~"), "");
        set(store, &name(written), "").await?;
        let answer = tx.commit().await;
        if conflicts {
            assert_conflict(answer, written)?
        } else {
            answer.map(drop)?
        }
        if conflicts {
            commit(store, |tx| tx.clear(name(written))).await?;
        }
    }
    Ok(())
}

/// Of keys and of ranges, changed in between.
pub async fn snapshot_reads_do_not_conflict(store: &Store, prefix: &[u8]) -> Outcome {
    let k = key(prefix, "k");
    let mut tx = store.begin();
    tx.snapshot_get(&k).await?;
    tx.snapshot_range(&RangeRead::new(all_of(prefix))).await?;
    tx.set(key(prefix, "mine"), "");
    set(store, &k, "changed").await?;
    tx.commit().await.map(drop)
}

/// Two that never looked may both write a key; the later commit is what stays.
pub async fn blind_writes_do_not_conflict(store: &Store, prefix: &[u8]) -> Outcome {
    let k = key(prefix, "k");
    let (mut one, mut two) = (store.begin(), store.begin());
    one.read_version().await?;
    two.read_version().await?;
    one.set(k.clone(), "one");
    two.clear_range(all_of(prefix));
    two.set(k.clone(), "two");
    two.commit().await?;
    one.commit().await?;
    assert_eq!(store.begin().get(&k).await?.unwrap(), "one");
    Ok(())
}

/// What was set or cleared here does not depend on what is stored.
pub async fn reads_of_own_writes_do_not_conflict(store: &Store, prefix: &[u8]) -> Outcome {
    let (a, b, c) = (key(prefix, "a"), key(prefix, "b"), key(prefix, "c/1"));
    let mut tx = store.begin();
    tx.read_version().await?;
    tx.set(a.clone(), "mine");
    tx.clear(b.clone());
    tx.clear_range(KeyRange::prefix(key(prefix, "c/")));
    for k in [&a, &b, &c] {
        tx.get(k).await?;
    }
    commit(store, |tx| [&a, &b, &c].into_iter().for_each(|k| tx.set(k.clone(), "theirs"))).await?;
    tx.commit().await?;
    assert_eq!(names(prefix, &read_all(store, all_of(prefix)).await?), [b"a"]);
    Ok(())
}

/// All they read was true at once, at their version.
pub async fn read_only_transactions_do_not_conflict(store: &Store, prefix: &[u8]) -> Outcome {
    let k = key(prefix, "k");
    set(store, &k, "1").await?;
    let tx = store.begin();
    assert_eq!(tx.get(&k).await?.unwrap(), "1");
    set(store, &k, "2").await?;
    assert_eq!(tx.get(&k).await?.unwrap(), "1");
    tx.commit().await.map(drop)
}

/// With each other; they sum up whatever the order.
pub async fn adds_do_not_conflict(store: &Store, prefix: &[u8]) -> Outcome {
    let counter = key(prefix, "counter");
    let mut together = [store.begin(), store.begin(), store.begin()];
    for (tx, delta) in together.iter_mut().zip([1, 10, 100]) {
        tx.read_version().await?;
        tx.add(counter.clone(), delta);
    }
    for tx in together.into_iter().rev() {
        tx.commit().await?;
    }
    assert_eq!(store.begin().get(&counter).await?.unwrap(), 111_i64.to_le_bytes()[..]);
    Ok(())
}
