//! Keys and values.

use super::*;

/// Visible to the next transaction and to one that another handle begins.
pub async fn a_key_holds_what_was_set(store: &Store, prefix: &[u8]) -> Outcome {
    let k = key(prefix, "k");
    set(store, &k, "v").await?;
    assert_eq!(store.begin().get(&k).await?.unwrap(), "v");
    assert_eq!(store.clone().begin().snapshot_get(&k).await?.unwrap(), "v");
    Ok(())
}

/// Neither do its neighbours make it appear.
pub async fn a_key_never_set_holds_nothing(store: &Store, prefix: &[u8]) -> Outcome {
    set(store, &key(prefix, "a"), "").await?;
    set(store, &key(prefix, "c"), "").await?;
    for name in ["b", "a\0", "", "cc"] {
        assert_eq!(store.begin().get(&key(prefix, name)).await?, None, "{name:?}");
    }
    Ok(())
}

/// Across transactions and within one.
pub async fn the_last_of_several_writes_wins(store: &Store, prefix: &[u8]) -> Outcome {
    let k = key(prefix, "k");
    set(store, &k, "a longer first value").await?;
    set(store, &k, "2").await?;
    assert_eq!(store.begin().get(&k).await?.unwrap(), "2");
    commit(store, |tx| {
        tx.set(k.clone(), "3");
        tx.set(k.clone(), "4");
    })
    .await?;
    assert_eq!(store.begin().get(&k).await?.unwrap(), "4");
    Ok(())
}

/// Also for ranges; clearing what is not there is no error.
pub async fn a_cleared_key_is_gone(store: &Store, prefix: &[u8]) -> Outcome {
    let k = key(prefix, "k");
    set(store, &k, "v").await?;
    for _ in 0..2 {
        commit(store, |tx| tx.clear(k.clone())).await?;
        assert_eq!(store.begin().get(&k).await?, None);
        assert_eq!(read_all(store, all_of(prefix)).await?, []);
    }
    set(store, &k, "again").await?;
    assert_eq!(store.begin().get(&k).await?.unwrap(), "again");
    Ok(())
}

/// Not the absence of one.
pub async fn an_empty_value_is_a_value(store: &Store, prefix: &[u8]) -> Outcome {
    let k = key(prefix, "k");
    set(store, &k, "").await?;
    assert_eq!(store.begin().get(&k).await?, Some(Bytes::new()));
    assert_eq!(read_all(store, all_of(prefix)).await?, [KeyValue { key: k, value: Bytes::new() }]);
    Ok(())
}

/// Zeros, the highest bytes, keys that are prefixes of others, and the prefix itself as a key.
pub async fn binary_keys_keep_their_bytes_and_order(store: &Store, prefix: &[u8]) -> Outcome {
    let sorted: [&[u8]; 12] = [
        b"",
        &[0x00],
        &[0x00, 0x00],
        &[0x00, 0x01],
        &[0x00, 0xff],
        &[0x01],
        &[0x7f],
        &[0x80],
        &[0xfe],
        &[0xfe, 0xfe],
        &[0xfe, 0xff],
        &[0xff, 0xff],
    ];
    commit(store, |tx| {
        // Not in order.
        for index in [7, 2, 11, 0, 9, 4, 1, 10, 3, 8, 6, 5] {
            tx.set(key(prefix, sorted[index]), sorted[index].to_vec());
        }
    })
    .await?;
    let pairs = read_all(store, all_of(prefix)).await?;
    assert_eq!(names(prefix, &pairs), sorted);
    for pair in &pairs {
        assert_eq!(pair.key[prefix.len()..], pair.value);
        assert_eq!(store.begin().get(&pair.key).await?.as_ref(), Some(&pair.value));
    }
    let read = RangeRead::new(all_of(prefix)).reverse();
    let backwards: Vec<_> = store.begin().snapshot_stream(read).try_collect().await?;
    assert!(backwards.iter().rev().eq(&pairs));
    Ok(())
}

/// Neither reading nor clearing a prefix touches what is right before and after it.
pub async fn neighbouring_prefixes_do_not_bleed(store: &Store, prefix: &[u8]) -> Outcome {
    let outside = [&b"a"[..], b"a\xff\xff", b"c", b"c\0"];
    let inside = [&b"b"[..], b"b\0", b"b\xff", b"b\xff\xff"];
    commit(store, |tx| {
        for name in outside.iter().chain(&inside) {
            tx.set(key(prefix, name), "");
        }
    })
    .await?;
    let middle = KeyRange::prefix(key(prefix, "b"));
    assert_eq!(names(prefix, &read_all(store, middle.clone()).await?), inside);
    commit(store, |tx| tx.clear_range(middle.clone())).await?;
    assert_eq!(names(prefix, &read_all(store, all_of(prefix)).await?), outside);
    Ok(())
}

/// Also when it had read.
pub async fn a_dropped_transaction_writes_nothing(store: &Store, prefix: &[u8]) -> Outcome {
    let (kept, new) = (key(prefix, "kept"), key(prefix, "new"));
    set(store, &kept, "v").await?;
    let mut tx = store.begin();
    tx.get(&kept).await?;
    tx.set(new.clone(), "");
    tx.clear_range(all_of(prefix));
    tx.add(new, 1);
    drop(tx);
    assert_eq!(names(prefix, &read_all(store, all_of(prefix)).await?), [b"kept"]);
    Ok(())
}

/// Sets, clears, cleared ranges and adds on the same keys.
pub async fn writes_of_one_transaction_apply_in_order(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |name: &str| key(prefix, name);
    commit(store, |tx| ["a", "b", "c", "d", "e"].map(|n| tx.set(name(n), "old")).into_iter().collect())
        .await?;
    commit(store, |tx| {
        tx.set(name("a"), "lost");
        tx.clear_range(KeyRange::new(name("a"), name("d")));
        tx.set(name("b"), "new");
        tx.clear(name("d"));
        tx.add(name("d"), 5);
        tx.set(name("e"), 7_i64.to_le_bytes().to_vec());
        tx.add(name("e"), -9);
        tx.add(name("f"), 1);
        tx.clear(name("f"));
    })
    .await?;
    let pairs = read_all(store, all_of(prefix)).await?;
    assert_eq!(names(prefix, &pairs), [b"b", b"d", b"e"]);
    let values: Vec<_> = pairs.iter().map(|pair| pair.value.clone()).collect();
    assert_eq!(values[0], "new");
    assert_eq!(values[1], 5_i64.to_le_bytes()[..]);
    assert_eq!(values[2], (-2_i64).to_le_bytes()[..]);
    Ok(())
}

/// Like the arithmetic of FoundationDB.
pub async fn adds_count_from_nothing_wrap_and_keep_eight_bytes(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |name: &str| key(prefix, name);
    commit(store, |tx| {
        tx.set(name("full"), i64::MAX.to_le_bytes().to_vec());
        tx.set(name("short"), vec![1]);
        tx.set(name("long"), [2_i64.to_le_bytes(), [9; 8]].concat());
    })
    .await?;
    commit(store, |tx| ["full", "long", "none", "short"].map(|n| tx.add(name(n), 1)).into_iter().collect())
        .await?;
    let pairs = read_all(store, all_of(prefix)).await?;
    let sums: Vec<_> = pairs.iter().map(|pair| pair.value.to_vec()).collect();
    assert_eq!(sums, [i64::MIN, 3, 1, 2].map(|sum| sum.to_le_bytes().to_vec()));
    Ok(())
}
