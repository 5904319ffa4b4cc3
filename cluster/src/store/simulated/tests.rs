use std::{
    collections::BTreeSet,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, advance, sleep, timeout},
};

use super::*;
use crate::store::{RangeRead, TRANSACTION_AGE_MAX, Transaction};

const MS: Duration = Duration::from_millis(1);
/// Longer than anything that ends.
const FOREVER: Duration = Duration::from_secs(3600);

fn everything() -> KeyRange {
    KeyRange::prefix("")
}

fn world(seed: u64) -> (SimStore, Store, Lifeline) {
    let sim = SimStore::new(Dice::new(seed));
    let lifeline = Lifeline::new("a");
    let store = sim.connect(lifeline.clone());
    (sim, store, lifeline)
}

fn set(store: &Store, key: &'static str, value: &'static str) -> Transaction {
    let mut tx = store.begin();
    tx.set(key, value);
    tx
}

fn keys(sim: &SimStore) -> Vec<String> {
    sim.scan(&everything()).into_iter().map(|pair| String::from_utf8(pair.key.to_vec()).unwrap()).collect()
}

async fn never_ends<T>(future: impl Future<Output = T>) -> bool {
    timeout(FOREVER, future).await.is_err()
}

mod unknown_outcomes {
    use super::*;

    fn late() -> Faults {
        Faults { unknown_late: 1.0, unknown_late_by: 10 * MS..=10 * MS, ..Faults::none() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_may_take_effect_only_after_it_was_answered_as_unknown() {
        let (sim, store, _) = world(1);
        sim.set_faults(late());
        assert!(matches!(set(&store, "k", "v").commit().await, Err(CommitError::OutcomeUnknown)));
        assert!(keys(&sim).is_empty(), "still on its way");
        assert_eq!(store.begin().get(b"k").await.unwrap(), None, "and a look for it finds nothing");
        assert_eq!(sim.under_way(), 1);
        sim.settled().await;
        assert_eq!(keys(&sim), ["k"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_commit_that_conflicts_by_then_is_never_applied() {
        let (sim, store, _) = world(1);
        let mut tx = store.begin();
        tx.get(b"fence").await.unwrap();
        tx.set("k", "v");
        sim.set_faults(late());
        assert!(matches!(tx.commit().await, Err(CommitError::OutcomeUnknown)));
        sim.set_faults(Faults::none());
        set(&store, "fence", "2").commit().await.unwrap();
        sim.settled().await;
        assert_eq!(keys(&sim), ["fence"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_commit_outlives_the_node_that_sent_it() {
        let (sim, store, lifeline) = world(1);
        sim.set_faults(late());
        assert!(matches!(set(&store, "k", "v").commit().await, Err(CommitError::OutcomeUnknown)));
        lifeline.cut();
        sim.settled().await;
        assert_eq!(keys(&sim), ["k"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_commit_is_never_applied_and_a_done_one_already_was() {
        let (sim, store, _) = world(1);
        sim.set_faults(Faults { unknown_lost: 1.0, ..Faults::none() });
        assert!(matches!(set(&store, "lost", "").commit().await, Err(CommitError::OutcomeUnknown)));
        sim.settled().await;
        assert!(keys(&sim).is_empty());
        sim.set_faults(Faults { unknown_done: 1.0, ..Faults::none() });
        assert!(matches!(set(&store, "done", "").commit().await, Err(CommitError::OutcomeUnknown)));
        assert_eq!(keys(&sim), ["done"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_goes_on_when_its_sender_stops_waiting() {
        let (sim, store, _) = world(1);
        sim.set_faults(Faults { commit_latency: 100 * MS..=100 * MS, ..Faults::none() });
        assert!(timeout(MS, set(&store, "k", "v").commit()).await.is_err());
        sim.settled().await;
        assert_eq!(keys(&sim), ["k"]);
    }
}

mod lifelines {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_cut_node_gets_no_answer_and_writes_nothing() {
        let (sim, store, lifeline) = world(1);
        set(&store, "before", "").commit().await.unwrap();
        let reader = store.begin();
        lifeline.cut();
        assert!(never_ends(reader.get(b"before")).await);
        assert!(never_ends(reader.range(&RangeRead::new(everything()))).await);
        assert!(never_ends(reader.read_version()).await);
        assert!(never_ends(set(&store, "after", "").commit()).await);
        assert_eq!(keys(&sim), ["before"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_may_die_between_the_effect_of_its_commit_and_the_answer() {
        let (sim, store, lifeline) = world(1);
        sim.on_commit(move |_, node, _| {
            assert_eq!(node, lifeline.name());
            lifeline.cut();
        });
        assert!(never_ends(set(&store, "k", "v").commit()).await);
        assert_eq!(keys(&sim), ["k"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_node_goes_on_with_its_commit_when_it_wakes_up() {
        let (sim, store, lifeline) = world(1);
        lifeline.hold();
        let asleep = tokio::spawn(set(&store, "k", "v").commit());
        sleep(Duration::from_secs(60)).await;
        assert!(keys(&sim).is_empty());
        lifeline.release();
        asleep.await.unwrap().unwrap();
        assert_eq!(keys(&sim), ["k"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_held_node_read_before_it_slept_is_checked_when_it_wakes_up() {
        for (nap, too_old) in [(MS, false), (TRANSACTION_AGE_MAX + MS, true)] {
            let (sim, store, lifeline) = world(1);
            let awake = sim.connect(Lifeline::new("b"));
            let mut tx = store.begin();
            tx.get(b"fence").await.unwrap();
            tx.set("k", "v");
            lifeline.hold();
            let asleep = tokio::spawn(tx.commit());
            set(&awake, "fence", "2").commit().await.unwrap();
            sleep(nap).await;
            lifeline.release();
            match asleep.await.unwrap() {
                Err(CommitError::TooOld) => assert!(too_old),
                Err(CommitError::Conflict) => assert!(!too_old),
                other => panic!("{other:?}"),
            }
            assert_eq!(keys(&sim), ["fence"]);
        }
    }
}

mod age {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_transaction_past_its_age_neither_reads_nor_commits_what_it_read() {
        let (sim, store, _) = world(1);
        set(&store, "k", "1").commit().await.unwrap();
        let mut tx = store.begin();
        assert_eq!(tx.get(b"k").await.unwrap().unwrap(), "1");
        advance(TRANSACTION_AGE_MAX).await;
        assert_eq!(tx.get(b"k").await.unwrap().unwrap(), "1");
        advance(MS).await;
        assert!(matches!(tx.get(b"k").await, Err(ReadError::TooOld)));
        assert!(matches!(tx.range(&RangeRead::new(everything())).await, Err(ReadError::TooOld)));
        tx.set("k", "2");
        assert!(matches!(tx.commit().await, Err(CommitError::TooOld)));
        assert_eq!(sim.scan(&everything())[0].value, "1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_that_minds_no_read_never_grows_old() {
        let (sim, store, _) = world(1);
        let mut tx = store.begin();
        tx.snapshot_get(b"fence").await.unwrap();
        tx.set("k", "v");
        set(&store, "fence", "2").commit().await.unwrap();
        advance(FOREVER).await;
        tx.commit().await.unwrap();
        assert_eq!(keys(&sim), ["fence", "k"], "a fence that is not minded does not hold");
    }

    #[tokio::test(start_paused = true)]
    async fn old_versions_are_kept_while_they_can_be_read_and_not_longer() {
        let (sim, store, _) = world(1);
        let mut editions_max = 0;
        for round in 0..2_000_u32 {
            let reader = store.begin();
            reader.read_version().await.unwrap();
            let mut tx = store.begin();
            tx.set("counter", round.to_be_bytes().to_vec());
            tx.set(format!("key/{round:04}"), "");
            if round > 0 {
                tx.clear(format!("key/{:04}", round - 1));
            }
            tx.commit().await.unwrap();
            advance(10 * MS).await;
            let seen = reader.get(b"counter").await.unwrap();
            assert_eq!(seen.as_deref(), round.checked_sub(1).map(u32::to_be_bytes).as_ref().map(|b| &b[..]));
            let page = reader.range(&RangeRead::new(KeyRange::prefix("key/"))).await.unwrap();
            assert_eq!(page.pairs.len(), usize::from(round > 0));
            editions_max = editions_max.max(sim.history().editions());
        }
        // Five seconds hold 500 rounds of three writes each.
        assert!(editions_max < 1_600, "{editions_max} values kept");
    }
}

mod outages {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn everything_is_refused_during_an_outage_and_works_after_it() {
        let (sim, store, _) = world(1);
        sim.set_faults(Faults::none().with_outage(Outage::Refusing));
        assert!(matches!(store.begin().get(b"k").await, Err(ReadError::Unavailable { .. })));
        assert!(matches!(store.begin().read_version().await, Err(ReadError::Unavailable { .. })));
        assert!(matches!(set(&store, "k", "v").commit().await, Err(CommitError::Unavailable { .. })));
        sim.settled().await;
        assert!(keys(&sim).is_empty());
        sim.set_faults(Faults::none());
        set(&store, "k", "v").commit().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn everything_waits_for_the_end_of_an_outage_that_hangs() {
        let (sim, store, _) = world(1);
        sim.set_faults(Faults::none().with_outage(Outage::Hanging));
        let start = Instant::now();
        let ending = async {
            sleep(1_000 * MS).await;
            assert!(keys(&sim).is_empty());
            sim.set_faults(Faults::none());
        };
        let reader = store.begin();
        let (read, written, ()) = tokio::join!(reader.get(b"k"), set(&store, "k", "v").commit(), ending);
        read.unwrap();
        written.unwrap();
        assert_eq!(start.elapsed(), 1_000 * MS);
    }

    #[tokio::test(start_paused = true)]
    async fn commits_under_way_when_an_outage_begins_may_or_may_not_have_happened() {
        let mut applied = BTreeSet::new();
        for seed in 0..20 {
            let (sim, store, _) = world(seed);
            sim.set_faults(Faults { commit_latency: 100 * MS..=100 * MS, ..Faults::none() });
            let commit = tokio::spawn(set(&store, "k", "v").commit());
            sleep(MS).await;
            sim.set_faults(Faults::none().with_outage(Outage::Refusing));
            assert!(matches!(commit.await.unwrap(), Err(CommitError::OutcomeUnknown)));
            applied.insert(keys(&sim).len());
        }
        assert_eq!(applied, BTreeSet::from([0, 1]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_partition_of_one_node_leaves_the_others_alone() {
        let (sim, store, _) = world(1);
        let other = sim.connect(Lifeline::new("b"));
        sim.set_faults_at("a", Some(Faults::none().with_outage(Outage::Refusing)));
        assert!(set(&store, "a", "").commit().await.is_err());
        set(&other, "b", "").commit().await.unwrap();
        sim.set_faults_at("a", None);
        set(&store, "a", "").commit().await.unwrap();
        assert_eq!(keys(&sim), ["a", "b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_or_conflicting_commit_writes_nothing() {
        let (sim, store, _) = world(1);
        sim.set_faults(Faults { conflict: 1.0, ..Faults::none() });
        assert!(matches!(set(&store, "k", "v").commit().await, Err(CommitError::Conflict)));
        sim.set_faults(Faults { commit_unavailable: 1.0, ..Faults::none() });
        assert!(matches!(set(&store, "k", "v").commit().await, Err(CommitError::Unavailable { .. })));
        sim.set_faults(Faults { read_unavailable: 1.0, ..Faults::none() });
        assert!(matches!(store.begin().get(b"k").await, Err(ReadError::Unavailable { .. })));
        sim.settled().await;
        assert!(keys(&sim).is_empty());
    }
}

/// Nodes that append to a log and copy a pair of keys, under rough faults. The trace is all there is to see.
async fn busy_day(seed: u64) -> Vec<String> {
    let (sim, _, _) = world(seed);
    sim.set_faults(Faults::rough());
    let trace = Arc::new(Mutex::new(Vec::new()));
    let commits = trace.clone();
    let start = Instant::now();
    sim.on_commit(move |stamp, node, commit| {
        let line = format!("{:?} {stamp} {node} {commit:?}", start.elapsed());
        commits.lock().unwrap().push(line);
    });
    let mut nodes = JoinSet::new();
    for name in ["a", "b", "c"] {
        let store = sim.connect(Lifeline::new(name));
        let trace = trace.clone();
        nodes.spawn(async move {
            for round in 0..40 {
                let answer = busy_round(&store, name, round).await;
                trace.lock().unwrap().push(format!("{:?} {name} {answer:?}", start.elapsed()));
            }
        });
    }
    while let Some(done) = nodes.join_next().await {
        done.unwrap();
    }
    sim.settled().await;
    let mut trace = std::mem::take(&mut *trace.lock().unwrap());
    trace.push(format!("{:?}", sim.scan(&everything())));
    trace
}

async fn busy_round(store: &Store, name: &'static str, round: u32) -> Result<Stamp, CommitError> {
    let mut tx = store.begin();
    let page = tx.range(&RangeRead::new(KeyRange::prefix("pair/"))).await?;
    let values: BTreeSet<_> = page.pairs.iter().map(|pair| pair.value.clone()).collect();
    assert!(page.more || values.len() < 2, "half of a commit is visible: {page:?}");
    let right = tx.get(b"pair/right").await?;
    assert_eq!(right, tx.get(b"pair/left").await?, "half of a commit is visible");
    tx.set("pair/left", format!("{name}{round}"));
    tx.set("pair/right", format!("{name}{round}"));
    tx.set_stamped_key(vec![b'l'; 11], 1, name);
    tx.commit().await.map(|committed| committed.stamp)
}

#[tokio::test(start_paused = true)]
async fn commits_are_atomic_whatever_goes_wrong() {
    for seed in 0..30 {
        busy_day(seed).await;
    }
}

#[test]
fn one_seed_gives_two_identical_runs_and_another_seed_a_different_one() {
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(busy_day(seed))
    };
    let first = run(7);
    assert!(first.iter().any(|line| line.contains("Err(OutcomeUnknown)")), "the day was too kind");
    assert!(first.iter().any(|line| line.contains("Ok(")), "the day was too rough");
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
}

#[tokio::test(start_paused = true)]
async fn versions_jump_and_several_commits_share_one_until_somebody_reads_at_it() {
    let (sim, store, _) = world(1);
    let stamps = Arc::new(Mutex::new(Vec::new()));
    let seen = stamps.clone();
    sim.on_commit(move |stamp, _, _| seen.lock().unwrap().push(stamp));
    for _ in 0..50 {
        set(&store, "k", "v").commit().await.unwrap();
    }
    let blind = std::mem::take(&mut *stamps.lock().unwrap());
    assert!(blind.is_sorted_by(|a, b| a < b));
    let versions: BTreeSet<_> = blind.iter().map(Stamp::version).collect();
    assert!((20..50).contains(&versions.len()), "{} versions for 50 commits", versions.len());
    for _ in 0..50 {
        store.begin().read_version().await.unwrap();
        set(&store, "k", "v").commit().await.unwrap();
    }
    let versions: BTreeSet<_> = stamps.lock().unwrap().iter().map(Stamp::version).collect();
    assert_eq!(versions.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn an_observer_finds_in_the_store_what_its_commit_left_there() {
    let (sim, store, _) = world(1);
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, scanned) = (calls.clone(), sim.clone());
    sim.on_commit(move |stamp, _, commit| {
        let pairs = scanned.scan(&everything());
        assert_eq!(pairs.len(), 1 + counted.fetch_add(1, Ordering::Relaxed));
        assert_eq!(pairs.last().map(|pair| &pair.key[1..]), Some(&stamp.as_bytes()[..]));
        assert_eq!(commit.mutations.len(), 1);
    });
    for _ in 0..10 {
        let mut tx = store.begin();
        tx.set_stamped_key(vec![b'l'; 11], 1, "");
        tx.commit().await.unwrap();
    }
    assert_eq!(calls.load(Ordering::Relaxed), 10);
}
