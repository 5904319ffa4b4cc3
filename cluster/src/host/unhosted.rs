//! Messages to kinds that this node does not host.
//!
//! They may be for a version that is being rolled out, so they wait. When none has come for long, they are put
//! aside as dead letters: never read again with every look, never lost without a word.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{record::DeadLetter, shared::Shared, write::Write};
use crate::{
    address::{Address, ShardId},
    keys,
    placement::Epoch,
    store::{KeyRange, Mutation, RangeRead},
};

/// Since when an inbox waits for a node that hosts its entity.
#[derive(Debug, Default)]
pub(super) struct Unhosted(BTreeMap<Address, Instant>);

impl Unhosted {
    /// So many are remembered at a time; the others follow when these are done with.
    const REMEMBERED_MAX: usize = 1_024;

    pub fn seen(&mut self, address: &Address) {
        if self.0.len() < Self::REMEMBERED_MAX && !self.0.contains_key(address) {
            let kind = address.kind();
            tracing::warn!(%address, kind, "a message waits for an entity of a kind that this node does not host");
            self.0.insert(address.clone(), Instant::now());
        }
    }

    /// Those that have waited for `patience`, which are then forgotten.
    pub fn overdue(&mut self, patience: Duration) -> Vec<Address> {
        let overdue: Vec<_> = self
            .0
            .iter()
            .filter(|(_, since)| since.elapsed() >= patience)
            .map(|(who, _)| who.clone())
            .collect();
        for address in &overdue {
            self.0.remove(address);
        }
        overdue
    }
}

/// Makes dead letters of all that is in these inboxes, a bounded batch per step.
pub(super) async fn bury(shared: Arc<Shared>, shard: ShardId, epoch: Epoch, addresses: Vec<Address>) {
    for address in addresses {
        while bury_some(&shared, shard, epoch, &address).await {}
    }
}

/// Whether there may be more. What did not commit is found again by a later look.
async fn bury_some(shared: &Shared, shard: ShardId, epoch: Epoch, address: &Address) -> bool {
    const MESSAGES_PER_STEP: usize = 256;
    let inbox = KeyRange::prefix(keys::inbox(shard, address));
    let read = RangeRead::new(inbox).limit(MESSAGES_PER_STEP);
    let Ok(page) = shared.store.begin().snapshot_range(&read).await else { return false };
    if page.pairs.is_empty() {
        return false;
    }
    let mut writes = Vec::with_capacity(page.pairs.len() * 2);
    let count = page.pairs.len();
    for pair in page.pairs {
        let reason = format!("no node hosts entities of kind {}", address.kind());
        let letter = DeadLetter::new("message", &pair.value, reason, shared.now());
        writes.push(letter.write(shard, address, shared.config.dead_letter_ttl));
        writes.push(Write::Plain(Mutation::Clear { key: pair.key }));
    }
    metrics::counter!("cadre_host_dead_letters_total", "input" => "message").increment(count as u64);
    shared.committer.commit(shard, epoch, writes).await.is_ok() && page.more
}
