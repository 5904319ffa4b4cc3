//! What the FoundationDB driver does that no other driver has to: see scripts/test-fdb.
#![cfg(feature = "fdb")]

mod fdb_support;

use std::{net::TcpListener, process::Command, time::Duration};

use bytes::Bytes;
use cadre_cluster::store::{
    CommitError, KeyRange, OpenError, RangeRead, ReadError, Stamp, Store, TRANSACTION_BYTES_MAX,
    VALUE_BYTES_MAX,
    fdb::{self, Config},
};
use fdb_support::{config, empty, refusal, within, write};
use foundationdb::{
    Database,
    directory::{Directory, DirectoryLayer},
};
use futures::{StreamExt, TryStreamExt, future, stream};

fn everything() -> RangeRead {
    RangeRead::new(KeyRange::prefix(&b""[..]))
}

async fn keys(store: &Store) -> Vec<Bytes> {
    let tx = store.begin();
    let pairs = tx.snapshot_stream(everything().limit(usize::MAX));
    pairs.map_ok(|pair| pair.key).try_collect().await.expect("the cluster can be read")
}

// Opening

#[tokio::test]
async fn a_cluster_that_nobody_runs_is_given_up_in_time_and_by_name() {
    // The port was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fdb.cluster");
    std::fs::write(&file, format!("gone:gone@127.0.0.1:{port}\n")).unwrap();
    let config =
        Config { cluster_file: Some(file.clone()), open_timeout_ms: 700, ..Config::new("test-gone") };
    let error = within(10, fdb::open(config)).await.unwrap_err();
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("700 ms") && said.contains(&format!("127.0.0.1:{port}")), "{said}");
    assert!(said.contains(file.to_str().unwrap()), "{said}");
}

#[tokio::test]
async fn a_missing_cluster_file_is_named() {
    let config = Config { cluster_file: Some("/nowhere/fdb.cluster".into()), ..Config::new("test-nowhere") };
    let said = within(10, fdb::open(config)).await.unwrap_err().to_string();
    assert!(said.contains("/nowhere/fdb.cluster is missing"), "{said}");
}

#[tokio::test]
async fn a_malformed_cluster_file_is_named_with_its_fault() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fdb.cluster");
    std::fs::write(&file, "127.0.0.1:4500\n").unwrap();
    let config = Config { cluster_file: Some(file.clone()), ..Config::new("test-malformed") };
    let said = within(10, fdb::open(config)).await.unwrap_err().to_string();
    assert!(said.contains(file.to_str().unwrap()) && said.contains("no `@`"), "{said}");
}

#[tokio::test]
async fn other_network_settings_than_the_process_has_are_refused() {
    empty("settings").await;
    let traces = tempfile::tempdir().unwrap();
    let other = Config { trace_directory: Some(traces.path().into()), ..config("settings") };
    let said = within(10, fdb::open(other)).await.unwrap_err().to_string();
    assert!(said.contains("other TLS, client library or trace settings"), "{said}");
}

#[tokio::test]
async fn nodes_that_open_a_new_cluster_at_once_share_one_directory() {
    fdb_support::forget("together").await;
    let stores = future::join_all((0..8).map(|_| fdb::open(config("together")))).await;
    let stores: Vec<_> = stores.into_iter().map(Result::unwrap).collect();
    for (node, store) in stores.iter().enumerate() {
        write(store, |tx| tx.set(vec![node as u8], &b""[..])).await;
    }
    for store in &stores {
        assert_eq!(keys(store).await.len(), stores.len());
    }
}

#[tokio::test]
async fn a_directory_of_another_program_is_left_alone() {
    let config = config("foreign");
    fdb_support::forget("foreign").await;
    let file = config.cluster_file.as_deref().and_then(|file| file.to_str());
    let (layer, path) = (DirectoryLayer::default(), ["cadre".to_owned(), config.cluster.clone()]);
    let (layer, path) = (&layer, &path);
    let made = Database::new(file).unwrap();
    let made =
        made.run(|tx, _| async move { Ok(layer.create(&tx, path, None, Some(b"other")).await?) }).await;
    made.unwrap();
    let error = within(20, fdb::open(config.clone())).await.unwrap_err();
    assert!(matches!(&error, OpenError::Foreign { path, .. } if path.ends_with("test-foreign")), "{error}");
    let database = Database::new(file).unwrap();
    database.run(|tx, _| async move { Ok(layer.remove(&tx, path).await?) }).await.unwrap();
}

#[tokio::test]
async fn clusters_of_other_names_see_nothing_of_each_other() {
    let (one, two) = (empty("isolation-one").await, empty("isolation-two").await);
    write(&one, |tx| tx.set(&b"k"[..], &b"one"[..])).await;
    write(&two, |tx| tx.set(&b"k"[..], &b"two"[..])).await;
    write(&two, |tx| tx.set(&b"\xff\xff"[..], &b"last"[..])).await;
    assert_eq!(one.begin().get(b"k").await.unwrap().unwrap(), "one");
    assert_eq!(keys(&one).await, ["k"]);
    let last =
        two.begin().range(&RangeRead::new(KeyRange::new(&b""[..], &b"\xff\xff\xff"[..])).reverse()).await;
    assert_eq!(last.unwrap().pairs[0].value, "last");
    write(&one, |tx| tx.clear_range(KeyRange::new(&b""[..], &b"\xff\xff\xff\xff"[..]))).await;
    assert_eq!(two.begin().get(b"k").await.unwrap().unwrap(), "two");
}

#[test]
fn a_process_that_exits_in_the_middle_of_work_exits_at_once_and_well() {
    if std::env::var_os("CADRE_TEST_EXIT").is_some() {
        return;
    }
    for how in ["return", "exit"] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "exits_in_the_middle_of_work", "--test-threads=1"])
            .env("CADRE_TEST_EXIT", how)
            .spawn()
            .unwrap();
        // Joined with a bound, so that a hanging exit is a failed test and not a hanging one.
        let status = (0..600)
            .find_map(|_| {
                std::thread::sleep(Duration::from_millis(50));
                child.try_wait().unwrap()
            })
            .unwrap_or_else(|| {
                child.kill().unwrap();
                panic!("the process hangs at its exit by {how}")
            });
        assert_eq!(status.code(), Some(if how == "exit" { 7 } else { 0 }), "by {how}");
    }
}

/// The other side of the test above; nothing to see when run by itself.
#[test]
fn exits_in_the_middle_of_work() {
    let Some(how) = std::env::var_os("CADRE_TEST_EXIT") else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = empty("exit").await;
        for _ in 0..32 {
            let store = store.clone();
            tokio::spawn(async move {
                loop {
                    let mut tx = store.begin();
                    tx.add(&b"n"[..], 1);
                    let _ = tx.commit().await;
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        if how == "exit" {
            std::process::exit(7);
        }
    });
    // The runtime and its tasks stay alive until after the exit handlers.
    std::mem::forget(runtime);
}

// Limits

#[tokio::test]
async fn the_longest_key_and_value_fit_and_no_longer_ones() {
    let store = empty("oversize").await;
    let limits = store.limits();
    let key = Bytes::from(vec![b'k'; limits.key_bytes_max]);
    let value = Bytes::from(vec![b'v'; VALUE_BYTES_MAX]);
    write(&store, |tx| tx.set(key.clone(), value.clone())).await;
    assert_eq!(store.begin().get(&key).await.unwrap().unwrap(), value);
    write(&store, |tx| tx.clear_range(KeyRange::single(key.clone()))).await;
    assert_eq!(store.begin().get(&key).await.unwrap(), None);

    let mut tx = store.begin();
    tx.set(vec![b'k'; limits.key_bytes_max + 1], &b""[..]);
    assert!(matches!(refusal(tx.commit().await), CommitError::TooLarge { what: "key", .. }));
    let mut tx = store.begin();
    tx.set(&b"k"[..], vec![0; VALUE_BYTES_MAX + 1]);
    assert!(matches!(refusal(tx.commit().await), CommitError::TooLarge { what: "value", .. }));
}

#[tokio::test]
async fn the_longest_key_and_value_have_room_for_the_place_of_a_stamp() {
    let store = empty("oversize-stamped").await;
    let key = vec![b'k'; store.limits().key_bytes_max];
    let value = vec![b'v'; VALUE_BYTES_MAX];
    let last = (key.len() - Stamp::LEN, value.len() - Stamp::LEN);
    write(&store, |tx| tx.set_stamped_key(key.clone(), last.0, &b""[..])).await;
    write(&store, |tx| tx.set_stamped_value(&b"v"[..], value.clone(), last.1)).await;
    assert_eq!(keys(&store).await.len(), 2);
}

#[tokio::test]
async fn a_transaction_that_we_count_as_full_fits_whatever_it_is_made_of() {
    let store = empty("full").await;
    let sets =
        |tx: &mut cadre_cluster::store::Transaction, n: u32| tx.set(n.to_be_bytes().to_vec(), &b""[..]);
    let clears = |tx: &mut cadre_cluster::store::Transaction, n: u32| tx.clear(n.to_be_bytes().to_vec());
    let adds = |tx: &mut cadre_cluster::store::Transaction, n: u32| tx.add(n.to_be_bytes().to_vec(), 1);
    let values = |tx: &mut cadre_cluster::store::Transaction, n: u32| {
        tx.set(n.to_be_bytes().to_vec(), vec![0; 90_000])
    };
    for (what, change) in
        [("sets", &sets as &dyn Fn(&mut _, u32)), ("clears", &clears), ("adds", &adds), ("values", &values)]
    {
        let mut tx = store.begin();
        let mut n = 0;
        change(&mut tx, n);
        let each = tx.bytes();
        while tx.bytes() + each <= TRANSACTION_BYTES_MAX {
            n += 1;
            change(&mut tx, n);
        }
        if let Err(error) = tx.commit().await {
            panic!("{n} {what}: {error}");
        }
        let mut tx = store.begin();
        (0..=n + 1).for_each(|n| change(&mut tx, n));
        assert!(matches!(refusal(tx.commit().await), CommitError::TooLarge { what: "transaction", .. }));
    }
}

#[tokio::test]
async fn a_transaction_that_read_as_much_as_it_may_fits() {
    let store = empty("full-of-reads").await;
    let mut tx = store.begin();
    tx.set(&b"k"[..], &b""[..]);
    let range = |n: u32| KeyRange::single((2 * n).to_be_bytes().to_vec());
    let ranges = (TRANSACTION_BYTES_MAX - tx.bytes()) / range(0).bytes();
    (0..ranges as u32).for_each(|n| tx.add_read_conflict(range(n)));
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_transaction_past_its_time_is_too_old_to_read_and_to_commit() {
    let store = empty("old").await;
    write(&store, |tx| tx.set(&b"k"[..], &b"v"[..])).await;
    let mut reader = store.begin();
    let mut writer = store.begin();
    reader.get(b"k").await.unwrap();
    writer.get(b"k").await.unwrap();
    // The cluster forgets a version when enough others have passed, a little after five seconds.
    let read = within(30, async {
        loop {
            write(&store, |tx| tx.add(&b"time"[..], 1)).await;
            match reader.get(b"other").await {
                Ok(_) => tokio::time::sleep(Duration::from_millis(250)).await,
                Err(error) => return error,
            }
        }
    });
    let error = read.await;
    assert!(matches!(error, ReadError::TooOld), "{error}");
    reader.set(&b"k"[..], &b"w"[..]);
    writer.set(&b"k"[..], &b"w"[..]);
    for tx in [reader, writer] {
        let error = refusal(within(10, tx.commit()).await);
        assert!(matches!(error, CommitError::TooOld), "{error}");
    }
    assert_eq!(store.begin().get(b"k").await.unwrap().unwrap(), "v");
}

#[tokio::test]
async fn a_transaction_that_waited_before_its_first_read_is_not_old() {
    let store = empty("waited").await;
    let mut tx = store.begin();
    tokio::time::sleep(Duration::from_secs(6)).await;
    tx.get(b"k").await.unwrap();
    tx.set(&b"k"[..], &b"v"[..]);
    tx.commit().await.unwrap();
}

// Stamps

#[tokio::test]
async fn a_stamp_goes_where_it_should_behind_the_prefix() {
    let store = empty("stamped").await;
    let mut tx = store.begin();
    tx.set_stamped_key([&b"feed/"[..], &[0; Stamp::LEN], b"/end"].concat(), 5, &b"event"[..]);
    tx.set_stamped_key([0; Stamp::LEN].to_vec(), 0, &b"bare"[..]);
    tx.set_stamped_value(&b"value"[..], [&b"at "[..], &[0; Stamp::LEN], b"!"].concat(), 3);
    let committed = tx.commit().await.unwrap();
    let stamp = committed.stamp.as_bytes();
    let tx = store.begin();
    assert_eq!(tx.get(&[&b"feed/"[..], stamp, b"/end"].concat()).await.unwrap().unwrap(), "event");
    assert_eq!(tx.get(stamp).await.unwrap().unwrap(), "bare");
    assert_eq!(tx.get(b"value").await.unwrap().unwrap(), [&b"at "[..], stamp, b"!"].concat());
    assert!(tx.read_version().await.unwrap() >= committed.version());
}

#[tokio::test]
async fn a_stamped_key_conflicts_with_who_read_its_range() {
    let store = empty("stamped-phantom").await;
    let mut reader = store.begin();
    reader.range(&RangeRead::new(KeyRange::prefix(&b"feed/"[..]))).await.unwrap();
    reader.set(&b"empty"[..], &b"yes"[..]);
    write(&store, |tx| tx.set_stamped_key([&b"feed/"[..], &[0; Stamp::LEN]].concat(), 5, &b""[..])).await;
    assert!(matches!(refusal(reader.commit().await), CommitError::Conflict));
}

// Volume

#[tokio::test]
async fn a_big_range_is_cleared_at_once_and_completely() {
    let store = empty("big-clear").await;
    for batch in 0..10u32 {
        write(&store, |tx| {
            (0..2_000).for_each(|n| tx.set((batch * 2_000 + n).to_be_bytes().to_vec(), vec![b'v'; 200]));
        })
        .await;
    }
    assert_eq!(keys(&store).await.len(), 20_000);
    write(&store, |tx| {
        tx.clear_range(KeyRange::new(1u32.to_be_bytes().to_vec(), 19_999u32.to_be_bytes().to_vec()));
    })
    .await;
    assert_eq!(keys(&store).await, [0u32, 19_999].map(|n| n.to_be_bytes().to_vec()));
}

#[tokio::test]
async fn a_page_is_filled_beyond_one_answer_of_the_cluster() {
    let store = empty("pages").await;
    // Twice what one answer holds.
    write(&store, |tx| (0..160u8).for_each(|n| tx.set(vec![n], vec![n; 1_000]))).await;
    for reverse in [false, true] {
        let read = RangeRead { reverse, ..everything() };
        let page = store.begin().range(&read.clone().limit(150)).await.unwrap();
        assert_eq!((page.pairs.len(), page.more), (150, true), "reverse: {reverse}");
        let first = if reverse { 159 } else { 0 };
        assert_eq!(page.pairs[0].key, [first][..]);
        let page = store.begin().range(&read.clone().limit(161)).await.unwrap();
        assert_eq!((page.pairs.len(), page.more), (160, false), "reverse: {reverse}");
        let page = store.begin().range(&read.target_bytes(100_000)).await.unwrap();
        assert!((95..=100).contains(&page.pairs.len()) && page.more, "{} pairs", page.pairs.len());
    }
    let page = store.begin().range(&everything().target_bytes(0)).await.unwrap();
    assert_eq!((page.pairs.len(), page.more), (1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_at_once_lose_no_update() {
    let store = empty("concurrent").await;
    let increment = |n: usize| {
        let store = store.clone();
        async move {
            let key = [b'c', (n % 10) as u8];
            loop {
                let mut tx = store.begin();
                let old = tx.get(&key).await.unwrap().map_or(0, |value| value[0]);
                tx.set(key.to_vec(), vec![old + 1]);
                tx.add(&b"sum"[..], 1);
                match tx.commit().await {
                    Ok(_) => return,
                    Err(CommitError::Conflict) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    within(120, stream::iter(0..500).map(increment).buffer_unordered(500).collect::<Vec<()>>()).await;
    let tx = store.begin();
    for counter in 0..10 {
        assert_eq!(tx.get(&[b'c', counter]).await.unwrap().unwrap(), vec![50]);
    }
    assert_eq!(tx.get(b"sum").await.unwrap().unwrap(), 500i64.to_le_bytes().to_vec());
}

#[tokio::test]
async fn reads_of_one_session_run_side_by_side_at_one_version() {
    let store = empty("side-by-side").await;
    write(&store, |tx| (0..100u8).for_each(|n| tx.set(vec![n], vec![n]))).await;
    let tx = store.begin();
    let version = tx.read_version().await.unwrap();
    write(&store, |tx| (0..100u8).for_each(|n| tx.set(vec![n], vec![0]))).await;
    let keys: Vec<[u8; 1]> = (0..100).map(|n| [n]).collect();
    let values = future::join_all(keys.iter().map(|key| tx.get(key))).await;
    for (n, value) in values.into_iter().enumerate() {
        assert_eq!(value.unwrap().unwrap(), vec![n as u8]);
    }
    assert_eq!(tx.read_version().await.unwrap(), version);
}

// Watches

#[tokio::test]
async fn a_watch_rings_when_its_key_changes_and_not_before() {
    let store = empty("watch").await;
    let mut watch = store.watch(b"bell").await.unwrap().expect("this store can watch");
    write(&store, |tx| tx.set(&b"other"[..], &b"x"[..])).await;
    let early = tokio::time::timeout(Duration::from_millis(300), &mut watch).await;
    assert!(early.is_err(), "rang for another key");
    write(&store, |tx| tx.add(&b"bell"[..], 1)).await;
    within(10, watch).await;
}

#[tokio::test]
async fn a_watch_rings_for_a_change_between_arming_and_reading() {
    let store = empty("watch-race").await;
    let watch = store.watch(b"bell").await.unwrap().unwrap();
    write(&store, |tx| tx.set(&b"bell"[..], &b"rung"[..])).await;
    within(10, watch).await;
    assert_eq!(store.begin().get(b"bell").await.unwrap().unwrap(), "rung");
}

#[tokio::test]
async fn watches_are_bounded_and_a_dropped_one_makes_room() {
    empty("watch-bound").await;
    let store = fdb::open(Config { watches_max: 2, ..config("watch-bound") }).await.unwrap();
    let first = store.watch(b"1").await.unwrap().unwrap();
    let _second = store.watch(b"2").await.unwrap().unwrap();
    assert!(store.watch(b"3").await.unwrap().is_none());
    drop(first);
    assert!(store.watch(b"3").await.unwrap().is_some());
}
