//! Every commit of a simulation, watched as it happens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::Xxh3;

use super::{env::Env, owners::OwnerWatch};

/// Checks who commits (P1), counts, and hashes what is committed when and by whom: two runs of one seed have the same
/// hash.
#[derive(Clone, Default)]
pub struct CommitWatch {
    owners: OwnerWatch,
    seen: Arc<Mutex<Commits>>,
}

#[derive(Default)]
struct Commits {
    count: u64,
    hash: Xxh3,
}

impl CommitWatch {
    /// Watches from now on.
    pub fn over(env: &Env) -> Self {
        let watch = Self::default();
        let (mine, world, shards) = (watch.clone(), env.world.clone(), env.shards);
        env.store.on_commit(move |stamp, node, commit| {
            mine.owners.see(stamp, commit, shards);
            let line = format!("{} {stamp} {node} {:?}", world.now(), commit.mutations);
            let mut seen = mine.seen();
            seen.count += 1;
            seen.hash.update(line.as_bytes());
        });
        watch
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.seen().count
    }

    /// The hash.
    pub fn fingerprint(&self) -> u64 {
        self.seen().hash.digest()
    }

    /// Commits of entities by nodes that do not own them (P1).
    pub fn intruders(&self) -> Vec<String> {
        self.owners.intruders()
    }

    fn seen(&self) -> MutexGuard<'_, Commits> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
