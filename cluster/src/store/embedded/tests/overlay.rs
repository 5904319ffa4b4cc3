//! The overlay keeps what readers need and nothing else.

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::{
    super::{
        log::Operation,
        overlay::{Generation, Lookup},
    },
    *,
};

fn set(key: &str, fresh: bool) -> Operation {
    Operation::Set { key: key.to_owned().into(), value: "value".into(), fresh }
}

fn clear(key: &str) -> Operation {
    Operation::Clear { key: key.to_owned().into() }
}

fn clear_range(begin: &str, end: &str) -> Operation {
    Operation::ClearRange { range: KeyRange::new(begin.to_owned(), end.to_owned()) }
}

#[test]
fn a_message_that_was_consumed_leaves_no_trace_once_nobody_reads_it() {
    let generation = Generation::new(0);
    generation.apply(set("inbox/1", true), 1, 0);
    generation.apply(set("inbox/2", true), 2, 1);
    generation.apply(set("state", false), 2, 1);
    generation.apply(clear("inbox/1"), 3, 2);
    generation.apply(clear("state"), 3, 2);
    generation.collect(2);
    assert_eq!(generation.get(b"inbox/1", 2), Lookup::Value("value".into()));
    assert!(generation.written_after(&KeyRange::single("inbox/1"), 2));
    generation.collect(3);
    // The engine may hold `state`: its tombstone stays.
    assert_eq!(generation.counts(), (2, 1));
    assert_eq!(generation.get(b"inbox/1", 3), Lookup::Below);
    assert_eq!(generation.get(b"state", 3), Lookup::Gone);
    generation.apply(clear_range("inbox/", "inbox0"), 4, 3);
    generation.collect(4);
    assert_eq!(generation.counts(), (1, 1));
    assert_eq!(generation.get(b"inbox/2", 4), Lookup::Gone);
}

#[test]
fn a_hot_key_keeps_only_the_versions_that_are_read() {
    let generation = Generation::new(0);
    for version in 1..=1000 {
        generation.apply(set("hot", false), version, version - 1);
    }
    assert_eq!(generation.counts(), (1, 1));
    for version in 1001..=1010 {
        generation.apply(set("hot", false), version, 1000);
    }
    assert_eq!(generation.counts(), (1, 10));
}

#[test]
fn trimming_a_range_again_and_again_does_not_pile_up() {
    let generation = Generation::new(0);
    for version in 1..2000u64 {
        // Growing trims, and trims that follow one another.
        generation.apply(clear_range("inbox/", &format!("inbox/{version:06}")), version, version - 1);
        let (begin, end) = (format!("feed/{version:06}"), format!("feed/{:06}", version + 1));
        generation.apply(clear_range(&begin, &end), version, version - 1);
    }
    assert!(generation.mask_count() < 10, "{}", generation.mask_count());
    assert_eq!(generation.get(b"inbox/000017", 1999), Lookup::Gone);
    assert_eq!(generation.get(b"feed/001000", 1999), Lookup::Gone);
}

#[test]
fn cleared_ranges_answer_like_a_list_of_them() {
    for seed in 0..60 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let generation = Generation::new(0);
        let mut clears: Vec<(u64, KeyRange)> = Vec::new();
        let mut floor = 0;
        for version in 1..60u64 {
            let (a, b) = (rng.random_range(0..40), rng.random_range(0..40));
            let range = KeyRange::new(format!("{:02}", a.min(b)), format!("{:02}", a.max(b) + 1));
            let undo = generation.apply(Operation::ClearRange { range: range.clone() }, version, floor);
            if rng.random_bool(0.3) {
                generation.forget(version, undo.into_iter().collect());
            } else {
                clears.push((version, range));
            }
            if rng.random_bool(0.3) {
                floor = rng.random_range(floor..=version);
            }
            for _ in 0..10 {
                let key = format!("{:02}", rng.random_range(0..42));
                let at = rng.random_range(floor..=version);
                let gone =
                    clears.iter().any(|(cleared, range)| *cleared <= at && range.contains(key.as_bytes()));
                let expected = if gone { Lookup::Gone } else { Lookup::Below };
                assert_eq!(generation.get(key.as_bytes(), at), expected, "seed {seed} key {key} at {at}");
                let (a, b) = (rng.random_range(0..42), rng.random_range(0..42));
                let range = KeyRange::new(format!("{:02}", a.min(b)), format!("{:02}", a.max(b) + 1));
                let changed = clears.iter().any(|(cleared, other)| *cleared > at && other.overlaps(&range));
                assert_eq!(generation.written_after(&range, at), changed, "seed {seed} {range:?} at {at}");
            }
        }
    }
}

#[test]
fn readers_that_take_too_long_are_let_go_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(small(folder.path())).unwrap();
    let store = embedded.store();
    run(async {
        put(&store, "key", "old").await.unwrap();
        let slow = store.begin();
        assert_eq!(slow.get(b"key").await.unwrap().unwrap(), "old");
        put(&store, "key", "new").await.unwrap();
        let readers = &embedded.inner.shared.readers;
        let floor = readers.floor();
        readers.expire(tokio::time::Instant::now() + Duration::from_secs(5));
        assert_eq!(slow.get(b"key").await.unwrap().unwrap(), "old");
        readers.expire(tokio::time::Instant::now() + Duration::from_secs(7));
        assert!(matches!(slow.get(b"key").await, Err(crate::store::ReadError::TooOld)));
        assert!(readers.floor() > floor);
        assert_eq!(get(&store, "key").await.unwrap(), "new");
    });
}

#[test]
fn a_transaction_older_than_five_seconds_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(small(folder.path())).unwrap();
    let store = embedded.store();
    run(async {
        tokio::time::pause();
        let mut tx = store.begin();
        tx.get(b"key").await.unwrap();
        tx.set("key", "value");
        tokio::time::advance(Duration::from_millis(4999)).await;
        tx.get(b"key").await.unwrap();
        tokio::time::advance(Duration::from_millis(2)).await;
        assert!(matches!(tx.get(b"other").await, Err(crate::store::ReadError::TooOld)));
        assert!(matches!(tx.commit().await, Err(CommitError::TooOld)));
        assert_eq!(get(&store, "key").await, None);
    });
}

#[test]
fn a_transaction_from_before_what_is_remembered_is_too_old_to_commit() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(small(folder.path())).unwrap();
    let store = embedded.store();
    run(async {
        let mut old = store.begin();
        old.get(b"key").await.unwrap();
        old.set("key", "value");
        // Until two generations have been checkpointed.
        while embedded.stats().checkpoints < 2 {
            put(&store, "other", &"x".repeat(9000)).await.unwrap();
        }
        let result = old.commit().await;
        assert!(matches!(result, Err(CommitError::TooOld)), "{result:?}");
    });
}
