//! A transaction shows its own writes over the stored ones and minds all it read: against a model, for any
//! sequence of operations.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::{collections::BTreeMap, ops::Bound};

use cadre_cluster::{
    sim::{Dice, Lifeline},
    store::{
        CommitError, KeyRange, KeyValue, Mutation, Page, RangeRead, ReadError, Store, Transaction,
        simulated::{Faults, SimStore},
    },
};
use futures::TryStreamExt;
use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    sample::select,
    test_runner::RngSeed,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone)]
enum Write {
    Set(Vec<u8>, Vec<u8>),
    Clear(Vec<u8>),
    ClearRange(Vec<u8>, Vec<u8>),
    Add(Vec<u8>, i64),
}

#[derive(Debug, Clone)]
enum Read {
    Get(Vec<u8>),
    Range(RangeRead),
}

#[derive(Debug, Clone)]
enum Step {
    Write(Write),
    Read(Read),
}

/// Few enough to meet often, with zeros, high bytes and keys that are prefixes of others.
fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(select(vec![0x00, 0x01, 0x02, 0xfe]), 0..3)
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..4), any::<i64>().prop_map(|number| number.to_le_bytes().to_vec())]
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        3 => (key(), value()).prop_map(|(key, value)| Write::Set(key, value)),
        2 => key().prop_map(Write::Clear),
        2 => (key(), key()).prop_map(|(begin, end)| Write::ClearRange(begin, end)),
        2 => (key(), any::<i64>()).prop_map(|(key, delta)| Write::Add(key, delta)),
    ]
}

fn read() -> impl Strategy<Value = Read> {
    let limit = prop_oneof![0..5_usize, Just(usize::MAX)];
    let target_bytes = prop_oneof![0..30_usize, Just(usize::MAX)];
    let range = (key(), prop_oneof![key(), Just(vec![0xff])], limit, target_bytes, any::<bool>()).prop_map(
        |(begin, end, limit, target_bytes, reverse)| {
            Read::Range(RangeRead { range: KeyRange::new(begin, end), limit, target_bytes, reverse })
        },
    );
    prop_oneof![1 => key().prop_map(Read::Get), 3 => range]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![write().prop_map(Step::Write), read().prop_map(Step::Read)]
}

fn stored() -> impl Strategy<Value = Model> {
    btree_map(key(), value(), 0..12)
}

fn apply(model: &mut Model, write: &Write) {
    match write.clone() {
        Write::Set(key, value) => {
            model.insert(key, value);
        }
        Write::Clear(key) => {
            model.remove(&key);
        }
        Write::ClearRange(begin, end) => model.retain(|key, _| !(begin <= *key && *key < end)),
        Write::Add(key, delta) => {
            let sum = Mutation::added(model.get(&key).map(|value| &value[..]), delta);
            model.insert(key, sum.to_vec());
        }
    }
}

fn record(tx: &mut Transaction, write: &Write) {
    match write.clone() {
        Write::Set(key, value) => tx.set(key, value),
        Write::Clear(key) => tx.clear(key),
        Write::ClearRange(begin, end) => tx.clear_range(KeyRange::new(begin, end)),
        Write::Add(key, delta) => tx.add(key, delta),
    }
}

/// All that a read without limits would find, in its direction.
fn found(model: &Model, read: &RangeRead) -> Vec<KeyValue> {
    if read.range.is_empty() {
        return Vec::new();
    }
    let bounds = (Bound::Included(read.range.begin.to_vec()), Bound::Excluded(read.range.end.to_vec()));
    let pairs = model
        .range(bounds)
        .map(|(key, value)| KeyValue { key: key.clone().into(), value: value.clone().into() });
    if read.reverse { pairs.rev().collect() } else { pairs.collect() }
}

async fn check(tx: &Transaction, model: &Model, read: &Read) {
    match read {
        Read::Get(key) => {
            let value = tx.get(key).await.unwrap();
            assert_eq!(value.as_deref(), model.get(key).map(|value| &value[..]));
        }
        Read::Range(read) => {
            let all = found(model, read);
            check_page(&tx.range(read).await.unwrap(), &all, read);
            let streamed: Vec<_> = tx.snapshot_stream(read.clone()).try_collect().await.unwrap();
            assert_eq!(streamed, all[..read.limit.min(all.len())]);
        }
    }
}

fn check_page(page: &Page, all: &[KeyValue], read: &RangeRead) {
    assert!(all.starts_with(&page.pairs) && page.pairs.len() <= read.limit);
    assert!(read.limit == 0 || page.more || page.pairs.len() == all.len(), "ends early: {page:?}");
    assert!(read.limit == 0 || all.is_empty() || !page.pairs.is_empty(), "empty for no reason: {page:?}");
    if let Some((_, but_last)) = page.pairs.split_last() {
        let bytes: usize = but_last.iter().map(|pair| pair.key.len() + pair.value.len()).sum();
        assert!(but_last.is_empty() || bytes < read.target_bytes.max(1), "too large: {page:?}");
    }
}

fn on_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

async fn holding(model: &Model, sim: &SimStore) -> Store {
    let store = sim.connect(Lifeline::new("node"));
    let mut tx = store.begin();
    model.iter().for_each(|(key, value)| tx.set(key.clone(), value.clone()));
    tx.commit().await.unwrap();
    store
}

fn config() -> ProptestConfig {
    // The same cases every time: a failure belongs to the change that caused it.
    ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_transaction_sees_what_it_will_leave_behind(
        stored in stored(),
        steps in vec(step(), 0..40),
        seed in any::<u64>(),
    ) {
        on_virtual_time(async {
            let sim = SimStore::new(Dice::new(seed));
            let store = holding(&stored, &sim).await;
            sim.set_faults(Faults { short_page: 0.3, ..Faults::none() });
            let mut model = stored;
            let mut tx = store.begin();
            for step in &steps {
                match step {
                    Step::Write(write) => {
                        apply(&mut model, write);
                        record(&mut tx, write);
                    }
                    Step::Read(read) => check(&tx, &model, read).await,
                }
            }
            tx.commit().await.unwrap();
            let everything = RangeRead::new(KeyRange::prefix(""));
            assert_eq!(sim.scan(&everything.range), found(&model, &everything));
        });
    }

    #[test]
    fn a_transaction_that_read_what_has_changed_since_does_not_commit(
        stored in stored(),
        steps in vec(step(), 0..12),
        theirs in vec(write(), 1..3),
        seed in any::<u64>(),
    ) {
        on_virtual_time(async {
            let store = holding(&stored, &SimStore::new(Dice::new(seed))).await;
            let mut mine = store.begin();
            let answers = answers(&mut mine, &steps).await.unwrap();
            let mut other = store.begin();
            theirs.iter().for_each(|write| record(&mut other, write));
            other.commit().await.unwrap();
            let mut now = stored;
            theirs.iter().for_each(|write| apply(&mut now, write));
            let still_true = hold(&answers, &steps, now);
            mine.set(&b"mine"[..], "");
            match mine.commit().await {
                Ok(_) => assert!(still_true, "it would have read something else than {answers:?}"),
                Err(CommitError::Conflict) => assert!(may_conflict(&steps, &theirs), "nothing in common"),
                Err(error) => panic!("{error}"),
            }
        });
    }
}

/// What each read of the steps answers; a get answers like a range of one key.
async fn answers(tx: &mut Transaction, steps: &[Step]) -> Result<Vec<Page>, ReadError> {
    let mut answers = Vec::new();
    for step in steps {
        match step {
            Step::Write(write) => record(tx, write),
            Step::Read(Read::Get(key)) => {
                let pair = |value| KeyValue { key: key.clone().into(), value };
                let pairs = tx.get(key).await?.map(pair).into_iter().collect();
                answers.push(Page { pairs, more: false });
            }
            Step::Read(Read::Range(read)) => answers.push(tx.range(read).await?),
        }
    }
    Ok(answers)
}

/// Whether the answers are true where the steps begin with `model`. Where a page ends says nothing, if it does
/// not say that it is the last.
fn hold(answers: &[Page], steps: &[Step], mut model: Model) -> bool {
    let mut answers = answers.iter();
    steps.iter().all(|step| {
        let read = match step {
            Step::Write(write) => {
                apply(&mut model, write);
                return true;
            }
            Step::Read(Read::Get(key)) => RangeRead::new(KeyRange::single(key.clone())),
            Step::Read(Read::Range(read)) => read.clone(),
        };
        let all = found(&model, &read);
        let page = answers.next().expect("an answer to every read");
        read.limit == 0 || all.starts_with(&page.pairs) && (page.more || page.pairs.len() == all.len())
    })
}

/// Whether a write touches anything that a read asked about.
fn may_conflict(steps: &[Step], theirs: &[Write]) -> bool {
    let written = theirs.iter().map(|write| match write.clone() {
        Write::Set(key, _) | Write::Clear(key) | Write::Add(key, _) => KeyRange::single(key),
        Write::ClearRange(begin, end) => KeyRange::new(begin, end),
    });
    let asked = |step: &Step| match step {
        Step::Write(_) => None,
        Step::Read(Read::Get(key)) => Some(KeyRange::single(key.clone())),
        Step::Read(Read::Range(read)) => Some(read.range.clone()),
    };
    let asked: Vec<_> = steps.iter().filter_map(asked).collect();
    written.into_iter().any(|written| asked.iter().any(|asked| asked.overlaps(&written)))
}

#[test]
fn a_stream_without_a_limit_goes_past_the_longest_page() {
    let count = 2 * RangeRead::PAIRS_MAX + 1;
    on_virtual_time(async {
        let store = SimStore::new(Dice::new(1)).connect(Lifeline::new("node"));
        let mut tx = store.begin();
        (0..count).for_each(|index| tx.set(index.to_be_bytes().to_vec(), ""));
        for own in [true, false] {
            let read = RangeRead::new(KeyRange::prefix(""));
            let streamed: Vec<_> = tx.snapshot_stream(read.clone()).try_collect().await.unwrap();
            assert_eq!(streamed.len(), count, "of its own writes: {own}");
            let page = tx.range(&read.clone().target_bytes(usize::MAX)).await.unwrap();
            assert_eq!((page.pairs.len(), page.more), (RangeRead::PAIRS_MAX, true));
            std::mem::replace(&mut tx, store.begin()).commit().await.unwrap();
        }
    });
}

#[test]
fn a_page_of_own_writes_keeps_to_its_bytes() {
    on_virtual_time(async {
        let store = SimStore::new(Dice::new(1)).connect(Lifeline::new("node"));
        let mut tx = store.begin();
        (0..20_u8).for_each(|index| tx.set(vec![index], vec![0; 99_000]));
        let page = tx.range(&RangeRead::new(KeyRange::prefix(""))).await.unwrap();
        assert_eq!((page.pairs.len(), page.more), (6, true));
    });
}

#[test]
#[should_panic(expected = "a stamp at 1 needs 11 bytes, the template has 10")]
fn a_stamp_without_room_is_a_mistake_of_the_caller() {
    let store = SimStore::new(Dice::new(1)).connect(Lifeline::new("node"));
    store.begin().set_stamped_value("k", vec![0; 10], 1);
}
