//! What this life of the node may write: its shards, and the fence that says whether it still may.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    address::ShardId,
    placement::{Epoch, MemberId, read_view},
    store::{CommitError, Store},
};

/// The node's knowledge of its own leases. Kept honest by [`Fence::refresh`] whenever a commit finds that the
/// fence in the store has moved.
#[derive(Debug)]
pub(super) struct Fence {
    pub me: MemberId,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The fence as it was when `owned` was last true; `None` once this life is over.
    known: Option<u64>,
    owned: BTreeMap<ShardId, Epoch>,
}

impl Fence {
    pub fn new(me: MemberId, known: u64) -> Self {
        Self { me, state: Mutex::new(State { known: Some(known), owned: BTreeMap::new() }) }
    }

    /// The value that the stored fence must have for a commit to be ours to make.
    pub fn known(&self) -> Option<u64> {
        self.state().known
    }

    pub fn owns(&self, shard: ShardId, epoch: Epoch) -> bool {
        self.state().owned.get(&shard) == Some(&epoch)
    }

    /// A shard was claimed when the stored fence was `fence`. If that has moved since, the claim may be void already, and
    /// a refresh that adopted the new fence did not know of the shard: so the next commit has to refresh again.
    pub fn add(&self, shard: ShardId, epoch: Epoch, fence: u64) {
        let mut state = self.state();
        state.known = state.known.map(|known| known.min(fence));
        state.owned.insert(shard, epoch);
    }

    pub fn remove(&self, shard: ShardId) {
        self.state().owned.remove(&shard);
    }

    /// Learns, in one consistent read, what is still ours. A claim that the read does not see yet has raised the
    /// epoch since, and stays.
    pub async fn refresh(&self, store: &Store) -> Result<(), CommitError> {
        let tx = store.begin();
        let known = crate::placement::read_fence(&tx, &self.me).await?;
        let view = read_view(&tx).await?;
        let mut state = self.state();
        state.known = known;
        if known.is_none() {
            state.owned.clear();
        }
        state.owned.retain(|shard, epoch| {
            view.leases.get(shard).is_none_or(|lease| {
                lease.epoch < *epoch || lease.epoch == *epoch && lease.owner.as_ref() == Some(&self.me)
            })
        });
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
