//! Serializability with real threads.

use std::sync::Arc;

use super::*;
use crate::store::Attempt;

fn threads() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
}

/// Runs `tasks` copies of a task on many threads.
fn in_parallel<F: Future<Output = ()> + Send + 'static>(tasks: usize, task: impl Fn(usize) -> F) {
    threads().block_on(async {
        let running: Vec<_> = (0..tasks).map(|n| tokio::spawn(task(n))).collect();
        for task in running {
            task.await.unwrap();
        }
    });
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(small(folder.path())).unwrap();
    (folder, embedded.store())
}

#[test]
fn no_update_is_lost() {
    let (_folder, store) = store();
    let counter = store.clone();
    in_parallel(8, move |_| {
        let store = counter.clone();
        async move {
            for _ in 0..100 {
                let mut attempt = Attempt::idempotent().failures_max(1000);
                loop {
                    let mut tx = store.begin();
                    let old = tx.get(b"counter").await.unwrap();
                    let old: u64 = old.map_or(0, |old| String::from_utf8_lossy(&old).parse().unwrap());
                    tx.set("counter", (old + 1).to_string());
                    tx.add("sum", 1);
                    match tx.commit().await {
                        Ok(_) => break,
                        Err(error) => attempt.again(error).await.unwrap(),
                    }
                }
            }
        }
    });
    assert_eq!(run(get(&store, "counter")).unwrap(), "800");
    assert_eq!(run(get(&store, "sum")).unwrap()[..], 800i64.to_le_bytes());
}

#[test]
fn two_who_read_each_others_key_do_not_both_write() {
    let (_folder, store) = store();
    for round in 0..200 {
        let (a, b) = (format!("{round}/a"), format!("{round}/b"));
        run(async {
            put(&store, &a, "on").await.unwrap();
            put(&store, &b, "on").await.unwrap();
        });
        let barrier = Arc::new(tokio::sync::Barrier::new(2));
        let shared = store.clone();
        let keys = [(a.clone(), b.clone()), (b.clone(), a.clone())];
        in_parallel(2, move |n| {
            let (store, barrier, (mine, other)) = (shared.clone(), barrier.clone(), keys[n].clone());
            async move {
                let mut tx = store.begin();
                let other = tx.get(other.as_bytes()).await.unwrap();
                barrier.wait().await;
                if other.is_some() {
                    tx.clear(mine);
                    tx.commit().await.ok();
                }
            }
        });
        let left = run(async { get(&store, &a).await.is_some() || get(&store, &b).await.is_some() });
        assert!(left, "round {round}: both switched off");
    }
}

#[test]
fn two_who_found_a_range_empty_do_not_both_fill_it() {
    let (_folder, store) = store();
    for round in 0..200 {
        let barrier = Arc::new(tokio::sync::Barrier::new(2));
        let shared = store.clone();
        in_parallel(2, move |n| {
            let (store, barrier) = (shared.clone(), barrier.clone());
            async move {
                let range = KeyRange::prefix(format!("room{round}/"));
                let mut tx = store.begin();
                let guests = tx.range(&RangeRead::new(range)).await.unwrap().pairs;
                barrier.wait().await;
                if guests.is_empty() {
                    tx.set(format!("room{round}/{n}"), "booked");
                    tx.commit().await.ok();
                }
            }
        });
        let range = RangeRead::new(KeyRange::prefix(format!("room{round}/")));
        let booked = run(async { store.begin().range(&range).await.unwrap().pairs.len() });
        assert_eq!(booked, 1, "round {round}");
    }
}

#[test]
fn a_reader_never_sees_half_a_transaction() {
    let (_folder, store) = store();
    let shared = store.clone();
    in_parallel(6, move |n| {
        let store = shared.clone();
        async move {
            for round in 0..300 {
                if n < 2 {
                    let mut tx = store.begin();
                    let value = format!("{n}/{round}/{}", "x".repeat(400));
                    for key in ["left", "middle", "right"] {
                        tx.set(key, value.clone());
                    }
                    tx.commit().await.unwrap();
                } else {
                    let tx = store.begin();
                    let left = tx.get(b"left").await.unwrap();
                    tokio::task::yield_now().await;
                    let page = tx.range(&RangeRead::new(KeyRange::new("l", "s"))).await.unwrap();
                    assert!(page.pairs.iter().all(|pair| Some(&pair.value) == left.as_ref()));
                    assert_eq!(page.pairs.len(), if left.is_some() { 3 } else { 0 });
                }
            }
        }
    });
}
