//! The bounds on keys, values and transactions, to the byte.

use super::*;
use crate::store::ReadError;

fn longest_key(store: &Store, prefix: &[u8]) -> Bytes {
    let mut longest = prefix.to_vec();
    longest.resize(store.limits().key_bytes_max, b'k');
    longest.into()
}

/// Set, stamped, added to, read, read in a range, and cleared.
pub async fn the_longest_key_and_value_are_held(store: &Store, prefix: &[u8]) -> Outcome {
    let longest = longest_key(store, prefix);
    let value = vec![7; store.limits().value_bytes_max];
    let stamped = longest.len() - crate::store::Stamp::LEN;
    commit(store, |tx| {
        tx.set_stamped_key(longest.clone(), stamped, "");
        tx.set_stamped_value(key(prefix, "stamped"), value.clone(), 0);
        tx.set(longest.clone(), value.clone());
    })
    .await?;
    assert_eq!(store.begin().get(&longest).await?.unwrap(), value);
    let pairs = read_all(store, all_of(prefix)).await?;
    assert_eq!(pairs.len(), 3);
    assert!(pairs.iter().any(|pair| pair.key == longest && pair.value == value));
    commit(store, |tx| tx.add(longest.clone(), 1)).await?;
    commit(store, |tx| tx.clear_range(KeyRange::single(longest.clone()))).await?;
    assert_eq!(store.begin().get(&longest).await?, None);
    Ok(())
}

/// In every kind of write; reading one is refused as well.
pub async fn a_key_too_long_is_refused_with_everything_beside_it(store: &Store, prefix: &[u8]) -> Outcome {
    let limit = store.limits().key_bytes_max;
    let long = key_after(&longest_key(store, prefix));
    let writes: [fn(&mut Transaction, Bytes); 6] = [
        |tx, k| tx.set(k, ""),
        |tx, k| tx.clear(k),
        |tx, k| tx.add(k, 1),
        |tx, k| tx.set_stamped_key(k, 0, ""),
        |tx, k| tx.set_stamped_value(k, vec![0; 10], 0),
        |tx, k| tx.clear_range(KeyRange::prefix(k)),
    ];
    for write in writes {
        refused(store, prefix, |tx| write(tx, long.clone()), "key", limit, limit + 1).await?;
    }
    match store.begin().get(&key_after(&long)).await {
        Err(ReadError::TooLarge { what: "key", .. }) => Ok(()),
        Err(trouble) => Err(trouble.into()),
        Ok(value) => panic!("a key of {} bytes was read: {value:?}", long.len() + 1),
    }
}

/// Set and stamped.
pub async fn a_value_too_long_is_refused_with_everything_beside_it(store: &Store, prefix: &[u8]) -> Outcome {
    let limit = store.limits().value_bytes_max;
    let long = || vec![0; limit + 1];
    let k = || key(prefix, "long");
    refused(store, prefix, |tx| tx.set(k(), long()), "value", limit, limit + 1).await?;
    refused(store, prefix, |tx| tx.set_stamped_value(k(), long(), 0), "value", limit, limit + 1).await?;
    let stamped_key = key(prefix, [0; 10]);
    let write = |tx: &mut Transaction| tx.set_stamped_key(stamped_key.clone(), prefix.len(), long());
    refused(store, prefix, write, "value", limit, limit + 1).await
}

/// By its writes, and by what it read; up to there it commits.
pub async fn a_transaction_too_large_is_refused_whole(store: &Store, prefix: &[u8]) -> Outcome {
    let limit = store.limits().transaction_bytes_max;
    let value = vec![0; store.limits().value_bytes_max];
    let mut tx = store.begin();
    let mut index = 0_u16;
    while tx.bytes() <= limit {
        tx.set(key(prefix, index.to_be_bytes()), value.clone());
        index += 1;
    }
    let size = tx.bytes();
    match tx.commit().await {
        Err(CommitError::TooLarge { what: "transaction", limit: said, actual }) => {
            assert_eq!((said, actual), (limit, size));
        }
        Err(trouble) => return Err(trouble),
        Ok(_) => panic!("a transaction of {size} bytes was committed"),
    }
    assert_eq!(read_all(store, all_of(prefix)).await?, []);
    commit(store, |tx| (1..index).for_each(|n| tx.set(key(prefix, n.to_be_bytes()), value.clone()))).await?;
    let read = RangeRead::new(all_of(prefix)).target_bytes(1);
    let stored: Vec<_> = store.begin().snapshot_stream(read).map_ok(|_| ()).try_collect().await?;
    assert_eq!(stored.len(), usize::from(index) - 1);
    Ok(())
}

async fn refused(
    store: &Store,
    prefix: &[u8],
    write: impl Fn(&mut Transaction),
    expected: &str,
    limit: usize,
    actual: usize,
) -> Outcome {
    let mut tx = store.begin();
    tx.set(key(prefix, "beside"), "");
    write(&mut tx);
    tx.add(key(prefix, "counter"), 1);
    match tx.commit().await {
        Err(CommitError::TooLarge { what, limit: said, actual: found }) => {
            // The end of a range may be one byte longer than a key, so that it can hold the longest.
            assert_eq!(what, expected);
            assert!((limit..=limit + 1).contains(&said) && (actual..=actual + 1).contains(&found));
            assert!(found > said, "{found} is not over {said}");
        }
        Err(trouble) => return Err(trouble),
        Ok(_) => panic!("a {expected} of {actual} bytes was committed"),
    }
    assert_eq!(read_all(store, all_of(prefix)).await?, [], "nothing was written");
    Ok(())
}
