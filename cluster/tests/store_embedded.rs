//! The embedded store does what every store has to do: at rest in memory, and while everything moves into the
//! engine all the time.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use cadre_cluster::store::{
    conformance::Claim,
    embedded::{Embedded, EmbeddedConfig, SyncMode},
};

fn put(config: impl FnOnce(EmbeddedConfig) -> EmbeddedConfig, name: &str, claim: Claim) {
    let folder = tempfile::tempdir().unwrap();
    let config = config(EmbeddedConfig { reserve_bytes: 0, ..EmbeddedConfig::new(folder.path()) });
    let embedded = Embedded::open(config).unwrap();
    let store = embedded.store();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let prefix = format!("{name}/");
        claim(&store, prefix.as_bytes()).await.unwrap();
        embedded.close().await;
    });
}

mod in_memory {
    fn run(name: &str, claim: super::Claim) {
        super::put(|config| config, name, claim);
    }

    cadre_cluster::store_conformance!(run);
}

mod with_checkpoints_all_the_time {
    use super::{EmbeddedConfig, SyncMode};

    fn run(name: &str, claim: super::Claim) {
        // Checkpoints and segments are as small as they get, and so are groups.
        let tiny = |config| EmbeddedConfig {
            checkpoint_bytes: 0,
            segment_bytes: 0,
            group_transactions_max: 3,
            cache_bytes: 1 << 20,
            sync: SyncMode::Relaxed,
            ..config
        };
        super::put(tiny, name, claim);
    }

    cadre_cluster::store_conformance!(run);
}
