//! A process that is killed while it commits.
//!
//! The test runs itself as another process, which commits as fast as it can and says so on its output, and
//! kills it. Whatever was said must be there.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::SmallRng};

use super::*;
use crate::store::Stamp;

const FOLDER: &str = "CADRE_TEST_STORE_WRITER";
const WRITERS: usize = 8;
const KILLS: u64 = 25;

fn config(path: &Path) -> EmbeddedConfig {
    // Small enough that checkpoints and new segments happen all the time.
    EmbeddedConfig { sync: SyncMode::Durable, reserve_bytes: 64 << 10, ..small(path) }
}

/// The other process; does nothing in an ordinary test run.
#[test]
fn writer() {
    let Some(path) = std::env::var_os(FOLDER) else { return };
    let embedded = Embedded::open(config(Path::new(&path))).unwrap();
    let store = embedded.store();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let writers = (0..WRITERS).map(|writer| tokio::spawn(write_on(store.clone(), writer)));
        futures::future::join_all(writers).await;
    });
}

/// Commits one numbered step after the other: a counter, an event with a stamp, and two halves of a value.
async fn write_on(store: Store, writer: usize) {
    loop {
        let mut tx = store.begin();
        let counter = format!("counter/{writer}");
        let next = number(tx.get(counter.as_bytes()).await.unwrap()) + 1;
        tx.set(counter, next.to_string());
        tx.set(format!("left/{writer}"), next.to_string());
        tx.set(format!("right/{writer}"), next.to_string());
        tx.add("total", 1);
        let mut key = format!("event/{writer}/").into_bytes();
        let offset = key.len();
        key.extend([0; Stamp::LEN]);
        tx.set_stamped_key(key, offset, format!("{next:08}{}", "x".repeat(300)));
        if next > 50 {
            // Old events are trimmed, with ranges that grow.
            let end = format!("event/{writer}/");
            let read = RangeRead::new(KeyRange::prefix(end)).limit(2);
            let oldest = tx.snapshot_range(&read).await.unwrap().pairs;
            tx.clear_range(KeyRange::new(format!("event/{writer}/"), oldest[1].key.clone()));
        }
        let stamp = tx.commit().await.unwrap().stamp;
        let line = format!("{writer} {next} {stamp}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

fn number(value: Option<Bytes>) -> u64 {
    value.map_or(0, |value| String::from_utf8_lossy(&value).parse().unwrap())
}

#[test]
fn killed_at_any_moment_nothing_confirmed_is_missing_and_nothing_is_torn() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = SmallRng::seed_from_u64(7);
    let mut last_stamp = String::new();
    let mut steps = 0;
    for kill in 0..KILLS {
        let life = Duration::from_millis(rng.random_range(5..150));
        let (confirmed, newest) = run_and_kill(folder.path(), life);
        let newest = newest.max(last_stamp.clone());
        let embedded = Embedded::open(config(folder.path())).unwrap();
        let store = embedded.store();
        run(async {
            let mut total = 0;
            for writer in 0..WRITERS {
                let stored = number(get(&store, &format!("counter/{writer}")).await);
                let said = confirmed.get(&writer).copied().unwrap_or(0);
                assert!(
                    stored >= said,
                    "kill {kill}: step {said} of {writer} was confirmed, {stored} is there"
                );
                for half in ["left", "right"] {
                    assert_eq!(number(get(&store, &format!("{half}/{writer}")).await), stored);
                }
                check_events(&store, writer, stored).await;
                total += stored;
            }
            steps = total;
            let sum = get(&store, "total").await.unwrap_or_else(|| Bytes::from_static(&[0; 8]));
            assert_eq!(sum[..], total.to_le_bytes());
            let stamp = put(&store, "after", "value").await.unwrap().stamp.to_string();
            assert!(stamp > newest, "stamp {stamp} is not after {newest}");
            last_stamp = stamp;
        });
    }
    println!("{steps} steps survived {KILLS} kills");
    assert!(steps > KILLS);
}

/// The events are the last ones, without a gap, in the order of their stamps.
async fn check_events(store: &Store, writer: usize, stored: u64) {
    let read = RangeRead::new(KeyRange::prefix(format!("event/{writer}/")));
    let page = store.begin().range(&read).await.unwrap();
    let numbers: Vec<u64> =
        page.pairs.iter().map(|pair| String::from_utf8_lossy(&pair.value[..8]).parse().unwrap()).collect();
    let first = stored.saturating_sub(numbers.len() as u64) + 1;
    assert_eq!(numbers, (first..=stored).collect::<Vec<_>>());
    assert_eq!(numbers.len() as u64, stored.min(50));
}

/// What the writer said before it was killed: each one's last step, and the newest stamp.
fn run_and_kill(folder: &Path, life: Duration) -> (BTreeMap<usize, u64>, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::embedded::tests::kill::writer", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let listener = std::thread::spawn(move || {
        let (mut confirmed, mut newest) = (BTreeMap::new(), String::new());
        for line in output.lines().map_while(Result::ok) {
            let words: Vec<_> = line.split(' ').collect();
            let (Some(Ok(writer)), Some(Ok(step))) =
                (words.first().map(|word| word.parse()), words.get(1).map(|word| word.parse()))
            else {
                continue;
            };
            // A line may be cut short by the kill, but not in the middle of the list of whole ones.
            if words.len() == 3 && words[2].len() == 2 * Stamp::LEN {
                confirmed.insert(writer, step);
                newest = newest.max(words[2].to_owned());
            }
        }
        (confirmed, newest)
    });
    std::thread::sleep(life);
    child.kill().unwrap();
    child.wait().unwrap();
    listener.join().unwrap()
}
