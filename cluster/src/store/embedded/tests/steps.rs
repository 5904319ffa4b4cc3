//! Numbered steps that another process takes and talks about, and what must be there of them afterwards.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
};

use super::*;
use crate::store::Stamp;

pub(super) const WRITERS: usize = 8;

/// What other processes said: each writer's last step, the newest stamp, and what the last line was that is
/// about something else.
#[derive(Debug, Default)]
pub(super) struct Said {
    steps: BTreeMap<usize, u64>,
    newest: String,
    pub(super) last_line: String,
}

/// Takes so many steps with every writer, on a runtime of its own.
pub(super) fn take(store: &Store, steps: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let writers = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer, steps)));
        futures::future::join_all(writers).await.into_iter().for_each(|ended| ended.unwrap());
    });
}

/// Commits one numbered step after the other: a counter, an event with a stamp, and two halves of a value.
async fn write(store: Store, writer: usize, steps: usize) {
    for _ in 0..steps {
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
        let stamp = match tx.commit().await {
            Ok(committed) => committed.stamp,
            // Checkpoints are so quick that two may come while this thread sleeps.
            Err(CommitError::TooOld) => continue,
            Err(error) => panic!("{error}"),
        };
        let line = format!("{writer} {next} {stamp}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    }
}

fn number(value: Option<Bytes>) -> u64 {
    value.map_or(0, |value| String::from_utf8_lossy(&value).parse().unwrap())
}

impl Said {
    /// Listens until the other process has ended.
    pub(super) fn listen(&mut self, output: impl Read) {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let words: Vec<_> = line.split(' ').collect();
            let (Some(Ok(writer)), Some(Ok(step))) =
                (words.first().map(|word| word.parse()), words.get(1).map(|word| word.parse()))
            else {
                self.last_line = line;
                continue;
            };
            // A line may be cut short by the end, but not in the middle of the list of whole ones.
            if words.len() == 3 && words[2].len() == 2 * Stamp::LEN {
                self.steps.insert(writer, step);
                self.newest = words[2].to_owned().max(std::mem::take(&mut self.newest));
            }
        }
    }

    /// Everything that was said is there and nothing is torn: how many steps there are, or what is wrong.
    pub(super) async fn check(&self, store: &Store) -> Result<u64, String> {
        let get = async |key: String| {
            let value = store.begin().get(key.as_bytes()).await;
            value.map_err(|error| format!("{key}: {error}"))
        };
        let mut total = 0;
        for writer in 0..WRITERS {
            let stored = number(get(format!("counter/{writer}")).await?);
            let said = self.steps.get(&writer).copied().unwrap_or(0);
            if stored < said {
                return Err(format!("step {said} of {writer} was confirmed, {stored} is there"));
            }
            for half in ["left", "right"] {
                let found = number(get(format!("{half}/{writer}")).await?);
                if found != stored {
                    return Err(format!("step {stored} of {writer} has {found} on its {half}"));
                }
            }
            check_events(store, writer, stored).await?;
            total += stored;
        }
        let sum = get("total".to_owned()).await?.unwrap_or_else(|| Bytes::from_static(&[0; 8]));
        if sum[..] != total.to_le_bytes() {
            return Err(format!("{total} steps have a total of {sum:?}"));
        }
        let stamp = put(store, "after", "value").await.map_err(|error| error.to_string())?.stamp.to_string();
        if stamp <= self.newest {
            return Err(format!("stamp {stamp} is not after {}", self.newest));
        }
        Ok(total)
    }
}

/// The events are the last ones, without a gap, in the order of their stamps.
async fn check_events(store: &Store, writer: usize, stored: u64) -> Result<(), String> {
    let read = RangeRead::new(KeyRange::prefix(format!("event/{writer}/")));
    let page = store.begin().range(&read).await.map_err(|error| error.to_string())?;
    let numbers: Vec<u64> =
        page.pairs.iter().map(|pair| String::from_utf8_lossy(&pair.value[..8]).parse().unwrap()).collect();
    let first = stored.saturating_sub(stored.min(50)) + 1;
    if numbers != (first..=stored).collect::<Vec<_>>() {
        return Err(format!("after step {stored} of {writer} there are the events {numbers:?}"));
    }
    Ok(())
}
