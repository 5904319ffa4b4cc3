//! P1, watched as it happens: every commit of an entity is made by the member that owns its shard at that moment.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    address::ShardId,
    codec, keys,
    placement::{LeaseRecord, MemberId},
    store::{Commit, Mutation, Stamp},
};

/// Follows the leases through the commits that change them.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnerWatch(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    owners: BTreeMap<ShardId, Option<MemberId>>,
    intruders: Vec<String>,
}

impl OwnerWatch {
    pub fn see(&self, stamp: Stamp, commit: &Commit, shards: u16) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let committer = commit.mutations.iter().find_map(|mutation| match mutation {
            Mutation::SetStampedValue { key, .. } => keys::parse_commit_marker(key),
            _ => None,
        });
        let committer = committer.map(|(name, incarnation)| MemberId { name, incarnation });
        for mutation in &commit.mutations {
            let Mutation::Set { key, value } = mutation else { continue };
            if keys::is_lease(key) {
                let lease: LeaseRecord = codec::decode(value).expect("a lease is stored as one");
                state.owners.insert(lease.shard, lease.owner);
            } else if let Some(address) = keys::parse_state(key) {
                let owner = state.owners.get(&address.shard(shards)).cloned().flatten();
                if owner != committer {
                    let who = committer.as_ref().map_or("nobody".into(), MemberId::to_string);
                    let owner = owner.map_or("nobody".into(), |owner| owner.to_string());
                    state.intruders.push(format!("{who} wrote {address} at {stamp}, owned by {owner}"));
                }
            }
        }
    }

    pub fn intruders(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).intruders.clone()
    }
}
