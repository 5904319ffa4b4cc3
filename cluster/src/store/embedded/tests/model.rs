//! Random transactions, checkpoints and reopenings, compared with a map that keeps every version.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::*;
use crate::store::{Mutation, Stamp, Transaction, Version};

type Map = BTreeMap<Bytes, Bytes>;

fn key(rng: &mut SmallRng) -> Bytes {
    Bytes::from(format!("k{:03}", rng.random_range(0..120)))
}

/// A random write, and the same on the model.
fn write(rng: &mut SmallRng, tx: &mut Transaction, model: &mut Map, stamped: &mut Vec<(Bytes, Bytes)>) {
    let value = Bytes::from(vec![rng.random::<u8>(); rng.random_range(0..600)]);
    match rng.random_range(0..12) {
        0..=4 => {
            let key = key(rng);
            tx.set(key.clone(), value.clone());
            model.insert(key, value);
        }
        5..=6 => {
            let key = key(rng);
            tx.clear(key.clone());
            model.remove(&key);
        }
        7 => {
            let (a, b) = (key(rng), key(rng));
            let range = KeyRange { begin: a.clone().min(b.clone()), end: a.max(b) };
            model.retain(|key, _| !range.contains(key));
            tx.clear_range(range);
        }
        8..=9 => {
            let (key, delta) = (key(rng), rng.random_range(-5..=5));
            tx.add(key.clone(), delta);
            let sum = Mutation::added(model.get(&key).map(|value| &value[..]), delta);
            model.insert(key, sum);
        }
        _ => {
            let mut template = b"s".to_vec();
            template.extend([0; Stamp::LEN]);
            template.push(u8::try_from(stamped.len()).unwrap());
            tx.set_stamped_key(template.clone(), 1, value.clone());
            stamped.push((template.into(), value));
        }
    }
}

async fn compare(rng: &mut SmallRng, tx: &Transaction, model: &Map) {
    for _ in 0..3 {
        let key = key(rng);
        assert_eq!(tx.get(&key).await.unwrap().as_ref(), model.get(&key), "{key:?}");
    }
    let all = KeyRange::new("", "\u{ff}");
    let (a, b) = (key(rng), key(rng));
    let some = KeyRange { begin: a.clone().min(b.clone()), end: a.max(b) };
    let range = if rng.random() { all } else { some };
    let limit = *[1, 3, 40, 10_000].get(rng.random_range(0..4)).unwrap();
    let bytes = *[1, 300, 1 << 20].get(rng.random_range(0..3)).unwrap();
    let read = RangeRead::new(range.clone()).limit(limit).target_bytes(bytes);
    let reverse = rng.random();
    let read = if reverse { read.reverse() } else { read };
    let page = tx.snapshot_range(&read).await.unwrap();
    let found: Vec<_> = page.pairs.into_iter().map(|pair| (pair.key, pair.value)).collect();
    let within = model.range(range.begin.clone()..range.end.clone().max(range.begin));
    let within = within.map(|(key, value)| (key.clone(), value.clone()));
    let expected: Vec<_> = if reverse { within.rev().collect() } else { within.collect() };
    assert_eq!(found[..], expected[..found.len()]);
    assert!(page.more || found.len() == expected.len());
    assert!(found.len() <= limit && (!found.is_empty() || expected.is_empty()));
}

fn random_life(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut config = small(folder.path());
    config.group_transactions_max = rng.random_range(1..8);
    let mut versions: BTreeMap<Version, Map> = BTreeMap::from([(Version(0), Map::new())]);
    run(async {
        for _ in 0..3 {
            let embedded = Embedded::open(config.clone()).unwrap();
            let store = embedded.store();
            let mut readers: Vec<Transaction> = Vec::new();
            for _ in 0..120 {
                let mut tx = store.begin();
                let mut model = versions.values().next_back().unwrap().clone();
                let mut stamped = Vec::new();
                for _ in 0..rng.random_range(1..6) {
                    write(&mut rng, &mut tx, &mut model, &mut stamped);
                }
                let stamp = tx.commit().await.unwrap().stamp;
                for (template, value) in stamped {
                    model.insert(Mutation::stamped(&template, 1, &stamp), value);
                }
                versions.insert(stamp.version(), model);
                if rng.random_bool(0.3) {
                    readers.push(store.begin());
                }
                if rng.random_bool(0.2) && !readers.is_empty() {
                    readers.swap_remove(rng.random_range(0..readers.len()));
                }
                if !readers.is_empty() {
                    let tx = &readers[rng.random_range(0..readers.len())];
                    let version = tx.read_version().await.unwrap();
                    compare(&mut rng, tx, &versions[&version]).await;
                }
            }
            drop(readers);
            if rng.random() {
                embedded.close().await;
            }
            drop((embedded, store));
        }
    });
}

#[test]
fn every_read_sees_its_version_across_checkpoints_and_reopenings() {
    for seed in 0..24 {
        println!("seed {seed}");
        random_life(seed);
    }
}
