//! Stores on the cluster that `FDB_CLUSTER_FILE` names.
//!
//! Each test has a directory of its own, emptied before it starts, so tests run side by side; two runs on one
//! cluster at the same time would be in each other's way.
#![allow(dead_code, reason = "each test program uses its part")]

use std::time::Duration;

use cadre_cluster::store::{
    Attempt, CommitError, KeyRange, Store,
    fdb::{self, Config},
};
use foundationdb::{
    Database,
    directory::{Directory, DirectoryLayer},
};

/// How to reach the directory of a test.
pub fn config(test: &str) -> Config {
    let file = std::env::var("FDB_CLUSTER_FILE").expect("FDB_CLUSTER_FILE is not set: run scripts/test-fdb");
    Config { cluster_file: Some(file.into()), ..Config::new(format!("test-{test}")) }
}

/// An empty store of that test's own.
pub async fn empty(test: &str) -> Store {
    emptied(fdb::open(config(test)).await.expect("the cluster that FDB_CLUSTER_FILE names answers")).await
}

/// The store, with nothing in it.
pub async fn emptied(store: Store) -> Store {
    write(&store, |tx| tx.clear_range(KeyRange::prefix(&b""[..]))).await;
    store
}

/// Removes a test's directory, so that opening it makes it anew.
pub async fn forget(test: &str) {
    // Starts the client.
    fdb::open(self::config("any")).await.expect("the cluster that FDB_CLUSTER_FILE names answers");
    let config = config(test);
    let file = config.cluster_file.as_deref().and_then(|file| file.to_str());
    let database = Database::new(file).expect("the client runs");
    let (layer, path) = (DirectoryLayer::default(), ["cadre".to_owned(), config.cluster]);
    let (layer, path) = (&layer, &path);
    let removed = database.run(|tx, _| async move { Ok(layer.remove_if_exists(&tx, path).await?) });
    removed.await.expect("the directory can be removed");
}

/// Writes without reading, until it is done.
pub async fn write(store: &Store, change: impl Fn(&mut cadre_cluster::store::Transaction)) {
    let mut attempt = Attempt::idempotent();
    loop {
        let mut tx = store.begin();
        change(&mut tx);
        match tx.commit().await {
            Ok(_) => return,
            Err(error) => attempt.again(error).await.expect("the cluster takes writes"),
        }
    }
}

/// Fails a test that would hang.
pub async fn within<T>(seconds: u64, what: impl Future<Output = T>) -> T {
    let bound = Duration::from_secs(seconds);
    tokio::time::timeout(bound, what).await.unwrap_or_else(|_| panic!("took more than {seconds} s"))
}

/// The name of a commit's error, for assertions that show it.
pub fn refusal<T>(answer: Result<T, CommitError>) -> CommitError {
    match answer {
        Ok(_) => panic!("was committed"),
        Err(error) => error,
    }
}
