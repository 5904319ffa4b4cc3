//! Pages and streams.

use super::*;
use crate::store::Page;

/// Nothing, and no error.
pub async fn an_empty_or_inverted_range_or_no_limit_gives_nothing(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |name: &str| key(prefix, name);
    set(store, &name("b"), "").await?;
    let mut tx = store.begin();
    for local in [false, true] {
        if local {
            tx.set(name("bb"), "");
        }
        for read in [
            RangeRead::new(KeyRange::new(name("b"), name("b"))),
            RangeRead::new(KeyRange::new(name("c"), name("a"))),
            RangeRead::new(KeyRange::new(name("c"), name("d"))),
            RangeRead::new(all_of(prefix)).limit(0),
        ] {
            assert_eq!(tx.range(&read).await?, Page::default(), "{read:?}");
            assert_eq!(tx.snapshot_range(&read.clone().reverse()).await?, Page::default(), "{read:?}");
            let pairs: Vec<_> = tx.snapshot_stream(read).try_collect().await?;
            assert_eq!(pairs, []);
        }
    }
    // To clear nothing is nothing, and inverted it is nothing too.
    tx.clear_range(KeyRange::new(name("c"), name("a")));
    tx.clear_range(KeyRange::new(name("b"), name("b")));
    tx.commit().await?;
    assert_eq!(names(prefix, &read_all(store, all_of(prefix)).await?), [&b"b"[..], b"bb"]);
    Ok(())
}

/// The first ones forward, the last ones in reverse; the end is not in the range, the beginning is.
pub async fn limits_count_from_the_side_asked_for(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |index: u8| key(prefix, [index]);
    commit(store, |tx| (0..50).for_each(|index| tx.set(name(index), ""))).await?;
    let read = RangeRead::new(KeyRange::new(name(10), name(40)));
    for limit in [1, 2, 29, 30, 31] {
        let tx = store.begin();
        let forward: Vec<_> = tx.snapshot_stream(read.clone().limit(limit)).try_collect().await?;
        let end = 40.min(10 + limit as u8);
        assert_eq!(names(prefix, &forward), (10..end).map(|index| vec![index]).collect::<Vec<_>>());
        let page = tx.range(&read.clone().limit(limit)).await?;
        assert!(page.pairs.len() <= limit && forward.starts_with(&page.pairs));
        assert!(page.more || page.pairs.len() == forward.len());
        let reverse: Vec<_> = tx.snapshot_stream(read.clone().limit(limit).reverse()).try_collect().await?;
        let begin = 10.max(40 - limit as i32) as u8;
        assert_eq!(names(prefix, &reverse), (begin..40).rev().map(|index| vec![index]).collect::<Vec<_>>());
    }
    Ok(())
}

/// A page ends with the pair that reaches the bound, so it exceeds it by less than one pair.
pub async fn pages_are_bounded_by_bytes_and_never_empty(store: &Store, prefix: &[u8]) -> Outcome {
    const VALUE: usize = 5_000;
    commit(store, |tx| (0..30_u8).for_each(|index| tx.set(key(prefix, [index]), vec![index; VALUE]))).await?;
    let pair_bytes = prefix.len() + 1 + VALUE;
    for target_bytes in [1, VALUE, 3 * VALUE, 20 * VALUE, usize::MAX] {
        for reverse in [false, true] {
            let tx = store.begin();
            let mut read = RangeRead { reverse, ..RangeRead::new(all_of(prefix)).target_bytes(target_bytes) };
            let mut seen = 0;
            loop {
                let page = tx.snapshot_range(&read).await?;
                let bytes: usize = page.pairs.iter().map(|pair| pair.key.len() + pair.value.len()).sum();
                assert!(bytes < target_bytes.saturating_add(pair_bytes), "{bytes} for {target_bytes}");
                seen += page.pairs.len();
                assert!(seen <= 30, "a pair came twice");
                match page.pairs.last() {
                    Some(last) if page.more && reverse => read.range.end = last.key.clone(),
                    Some(last) if page.more => read.range.begin = key_after(&last.key),
                    Some(_) => break,
                    None => {
                        assert!(!page.more, "an empty page says that there is more");
                        break;
                    }
                }
            }
            assert_eq!(seen, 30, "in pages of {target_bytes}");
        }
    }
    Ok(())
}

/// A hundred thousand keys, each once and in order, and no page larger than it may be.
pub async fn a_big_range_streams_both_ways_in_bounded_pages(store: &Store, prefix: &[u8]) -> Outcome {
    const KEYS: u64 = 100_000;
    fill(store, prefix, KEYS).await?;
    for reverse in [false, true] {
        let tx = store.begin();
        let read = RangeRead { reverse, ..RangeRead::new(all_of(prefix)) };
        let mut stream = std::pin::pin!(tx.snapshot_stream(read.clone()));
        let (mut count, mut sum) = (0, 0);
        while let Some(pair) = stream.try_next().await? {
            let index = if reverse { KEYS - 1 - count } else { count };
            assert_eq!(pair.key[prefix.len()..], index.to_be_bytes());
            sum += u64::from_le_bytes(pair.value[..].try_into().unwrap());
            count += 1;
        }
        assert_eq!((count, sum), (KEYS, KEYS * (KEYS - 1) / 2));
        let page = store.begin().snapshot_range(&read.limit(usize::MAX).target_bytes(usize::MAX)).await?;
        assert!((1..=RangeRead::PAIRS_MAX).contains(&page.pairs.len()) && page.more);
    }
    Ok(())
}

/// The old ones stay gone, the new ones stay.
pub async fn many_keys_are_cleared_at_once_and_written_again(store: &Store, prefix: &[u8]) -> Outcome {
    let name = |index: u64| key(prefix, index.to_be_bytes());
    fill(store, prefix, 20_000).await?;
    let before = store.begin();
    before.read_version().await?;
    commit(store, |tx| {
        tx.clear_range(KeyRange::new(name(10), name(19_990)));
        tx.set(name(10_000), "new");
    })
    .await?;
    let left = read_all(store, all_of(prefix)).await?;
    let expected = (0..10).chain([10_000]).chain(19_990..20_000).map(name);
    assert!(left.iter().map(|pair| pair.key.clone()).eq(expected));
    fill(store, prefix, 100).await?;
    assert_eq!(read_all(store, all_of(prefix)).await?.len(), 111);
    let count = before.snapshot_stream(RangeRead::new(all_of(prefix))).try_collect::<Vec<_>>().await?.len();
    assert_eq!(count, 20_000, "an older version still shows them all");
    Ok(())
}

/// The numbers below `count`, as keys in big-endian and values in little-endian.
async fn fill(store: &Store, prefix: &[u8], count: u64) -> Outcome {
    for first in (0..count).step_by(5_000) {
        commit(store, |tx| {
            for index in first..count.min(first + 5_000) {
                tx.set(key(prefix, index.to_be_bytes()), index.to_le_bytes().to_vec());
            }
        })
        .await?;
    }
    Ok(())
}
