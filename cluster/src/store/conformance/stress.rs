//! Many at once: the outcome must be that of some order in which they went one after another.

use std::collections::BTreeMap;

use super::*;
use crate::{sim::Dice, store::Stamp};

/// However many add at the same time; of some only the store may know whether they did.
pub async fn adds_made_at_once_sum_up(store: &Store, prefix: &[u8]) -> Outcome {
    let counter = key(prefix, "counter");
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (store, counter) = (store.clone(), counter.clone());
        tasks.spawn(async move {
            let mut certain = 0;
            for _ in 0..20 {
                let add = || {
                    let mut tx = store.begin();
                    tx.add(counter.clone(), 1);
                    tx.commit()
                };
                certain += i64::from(persist(add).await?.is_some());
            }
            Ok(certain)
        });
    }
    let certain: i64 = joined(tasks).await?.into_iter().sum();
    let sum = store.begin().get(&counter).await?.map_or(0, |value| number(&value));
    assert!((certain..=160).contains(&sum), "{sum} counted, {certain} of 160 confirmed");
    Ok(())
}

/// Every transaction reads the counter, writes it one higher, and leaves a note under the number it found. Two
/// that found the same number would overwrite each other's notes.
pub async fn no_increment_of_a_counter_is_lost(store: &Store, prefix: &[u8]) -> Outcome {
    async fn increment(store: &Store, prefix: &[u8]) -> Result<Committed, CommitError> {
        let mut tx = store.begin();
        let counter = key(prefix, "counter");
        let found = tx.get(&counter).await?.map_or(0, |value| number(&value));
        tx.set(counter, (found + 1).to_le_bytes().to_vec());
        tx.set(key(prefix, format!("note/{found:08}")), "");
        tx.commit().await
    }
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let (store, prefix) = (store.clone(), prefix.to_vec());
        tasks.spawn(async move {
            let mut certain = 0;
            for _ in 0..15 {
                certain += i64::from(persist(|| increment(&store, &prefix)).await?.is_some());
            }
            Ok(certain)
        });
    }
    let certain: i64 = joined(tasks).await?.into_iter().sum();
    let tx = store.begin();
    let counted = tx.get(&key(prefix, "counter")).await?.map_or(0, |value| number(&value));
    let read = RangeRead::new(KeyRange::prefix(key(prefix, "note/")));
    let notes: Vec<_> = tx.snapshot_stream(read).try_collect().await?;
    assert_eq!(notes.len() as i64, counted, "two found the same number");
    assert!((certain..=90).contains(&counted), "{counted} counted, {certain} confirmed");
    Ok(())
}

const ACCOUNTS: u64 = 8;
const OPENING_BALANCE: i64 = 100;

/// Random transfers, each noting under its stamp what it read and wrote. Going through the notes in stamp
/// order, every transfer must have read what the ones before it left behind, and the books must end up as
/// stored. Audits in between read all accounts at once.
pub async fn transfers_keep_their_sum_in_stamp_order(store: &Store, prefix: &[u8]) -> Outcome {
    let account = |index: u64| key(prefix, [&b"account/"[..], &index.to_be_bytes()].concat());
    commit(store, |tx| {
        (0..ACCOUNTS).for_each(|n| tx.set(account(n), OPENING_BALANCE.to_le_bytes().to_vec()));
    })
    .await?;
    let mut tasks = JoinSet::new();
    for task in 0..6 {
        let (store, prefix) = (store.clone(), prefix.to_vec());
        tasks.spawn(async move {
            let dice = Dice::new(task);
            for round in 0..25 {
                if round % 5 == 4 {
                    let accounts = KeyRange::prefix(key(&prefix, "account/"));
                    audit(&read_through(&store.begin(), RangeRead::new(accounts)).await?);
                }
                let from = dice.between(0..=ACCOUNTS - 1);
                let to = (from + dice.between(1..=ACCOUNTS - 1)) % ACCOUNTS;
                let amount = dice.between(1..=60) as i64;
                persist(|| transfer(&store, &prefix, from, to, amount)).await?;
            }
            Ok(())
        });
    }
    joined(tasks).await?;

    let tx = store.begin();
    let accounts = read_through(&tx, RangeRead::new(KeyRange::prefix(key(prefix, "account/")))).await?;
    let notes = read_through(&tx, RangeRead::new(KeyRange::prefix(key(prefix, "note/")))).await?;
    audit(&accounts);
    assert!(notes.len() >= 50, "only {} transfers", notes.len());
    let mut books: BTreeMap<i64, i64> = (0..ACCOUNTS as i64).map(|n| (n, OPENING_BALANCE)).collect();
    for note in &notes {
        let [from, from_balance, to, to_balance, amount] =
            [0, 1, 2, 3, 4].map(|n| number(&note.value[8 * n..]));
        assert_eq!((books[&from], books[&to]), (from_balance, to_balance), "read something that never was");
        books.insert(from, from_balance - amount);
        books.insert(to, to_balance + amount);
    }
    let stored: Vec<i64> = accounts.iter().map(|pair| number(&pair.value)).collect();
    assert_eq!(books.into_values().collect::<Vec<_>>(), stored);
    Ok(())
}

async fn transfer(
    store: &Store,
    prefix: &[u8],
    from: u64,
    to: u64,
    amount: i64,
) -> Result<Committed, CommitError> {
    let account = |index: u64| key(prefix, [&b"account/"[..], &index.to_be_bytes()].concat());
    let mut tx = store.begin();
    let from_balance = number(&tx.get(&account(from)).await?.unwrap());
    let to_balance = number(&tx.get(&account(to)).await?.unwrap());
    let amount = amount.min(from_balance);
    tx.set(account(from), (from_balance - amount).to_le_bytes().to_vec());
    tx.set(account(to), (to_balance + amount).to_le_bytes().to_vec());
    let note = [from as i64, from_balance, to as i64, to_balance, amount].map(i64::to_le_bytes).concat();
    let template = key(prefix, [&b"note/"[..], &[0; Stamp::LEN]].concat());
    tx.set_stamped_key(template, prefix.len() + 5, note);
    tx.commit().await
}

fn audit(accounts: &[KeyValue]) {
    let balances: Vec<i64> = accounts.iter().map(|pair| number(&pair.value)).collect();
    assert_eq!(balances.len() as u64, ACCOUNTS);
    assert_eq!(balances.iter().sum::<i64>(), OPENING_BALANCE * ACCOUNTS as i64, "{balances:?}");
    assert!(balances.iter().all(|balance| *balance >= 0), "{balances:?}");
}

fn number(bytes: &[u8]) -> i64 {
    i64::from_le_bytes(bytes[..8].try_into().unwrap())
}
