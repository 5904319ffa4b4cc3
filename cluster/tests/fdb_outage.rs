//! What callers see while the cluster is away. Only scripts/test-fdb knows a server that may be suspended; on a
//! cluster of somebody else's these tests do nothing. One test, because it suspends the server for all.
#![cfg(feature = "fdb")]

mod fdb_support;

use std::process::Command;

use cadre_cluster::store::{
    CommitError, ReadError, Store,
    fdb::{self, Config},
};
use fdb_support::{config, empty, refusal, within, write};

/// A suspended server; resumed when dropped, also by a failing test.
struct Suspended(String);

impl Suspended {
    fn new(pid: &str) -> Self {
        signal(pid, "STOP");
        Self(pid.to_owned())
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        signal(&self.0, "CONT");
    }
}

fn signal(pid: &str, name: &str) {
    // The shell's own `kill`: a small Debian has no other.
    let command = format!("kill -{name} {pid}");
    let status = Command::new("sh").args(["-c", &command]).status().expect("a shell runs");
    assert!(status.success(), "kill -{name} {pid}");
}

#[tokio::test]
async fn nothing_hangs_while_the_cluster_is_away_and_all_goes_on_after() {
    let Ok(pid) = std::env::var("CADRE_TEST_FDB_SERVER_PID") else {
        eprintln!("skipped: no server that may be suspended");
        return;
    };
    empty("outage").await;
    let impatient = Config { transaction_timeout_ms: 500, open_timeout_ms: 500, ..config("outage") };
    let store = fdb::open(impatient.clone()).await.unwrap();
    write(&store, |tx| tx.set(&b"k"[..], &b"before"[..])).await;
    let mut begun = store.begin();
    begun.get(b"k").await.unwrap();
    begun.set(&b"k"[..], &b"during"[..]);

    let suspended = Suspended::new(&pid);
    let read = within(5, store.begin().get(b"k")).await;
    assert!(matches!(read, Err(ReadError::Unavailable { .. })), "{read:?}");
    let error = refusal(within(5, begun.commit()).await);
    assert!(matches!(error, CommitError::OutcomeUnknown), "{error}");
    let error = refusal(within(5, blind(&store)).await);
    assert!(matches!(error, CommitError::OutcomeUnknown), "{error}");
    let watch = within(5, store.watch(b"k")).await;
    assert!(matches!(watch, Err(ReadError::Unavailable { .. })));
    assert!(within(5, fdb::open(impatient)).await.is_err());
    drop(suspended);

    within(60, async { while blind(&store).await.is_err() {} }).await;
    let value = store.begin().get(b"k").await.unwrap().unwrap();
    assert!(value == "before" || value == "during", "{value:?}");
}

async fn blind(store: &Store) -> Result<(), CommitError> {
    let mut tx = store.begin();
    tx.set(&b"blind"[..], &b""[..]);
    tx.commit().await.map(drop)
}
