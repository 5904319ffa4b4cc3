//! The claims that every driver has to hold, put to a FoundationDB cluster: see scripts/test-fdb.
#![cfg(feature = "fdb")]

mod fdb_support;

use cadre_cluster::store::{KeyRange, conformance::Claim, fdb};
use fdb_support::{config, within, write};

/// Puts a claim under a prefix of its own, in a directory that all of them share.
fn run(name: &str, claim: Claim) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let store = fdb::open(config("conformance")).await.expect("the cluster answers");
        let prefix = format!("{name}/").into_bytes();
        write(&store, |tx| tx.clear_range(KeyRange::prefix(prefix.clone()))).await;
        if let Err(error) = within(180, claim(&store, &prefix)).await {
            panic!("{name}: {error}");
        }
    });
}

cadre_cluster::store_conformance!(run);
