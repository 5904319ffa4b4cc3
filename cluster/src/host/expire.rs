//! Forgetting what is kept for a time only: idempotency keys and dead letters.

use std::sync::Arc;

use bytes::Bytes;

use super::{record::ExpiryRecord, shared::Shared, write::Write};
use crate::{
    address::ShardId,
    clock::Timestamp,
    codec, keys,
    placement::Epoch,
    sabotage::{Sabotage, is_on},
    store::{KeyRange, KeyValue, Mutation, RangeRead},
};

/// Removes what has expired in a shard, a bounded batch per step.
pub(super) async fn expire(shared: Arc<Shared>, shard: ShardId, epoch: Epoch) {
    let batch = Batch { shared: &shared, shard, epoch };
    let early = is_on(Sabotage::KeyForgottenEarly);
    let now = || if early { Timestamp(u64::MAX / 2) } else { shared.now() };
    while batch.remove(keys::expired(shard, now()), idempotency_keys).await {}
    while batch.remove(keys::letters_expired(shard, shared.now()), dead_letter).await {}
}

/// The answers that an entry says are over.
fn idempotency_keys(entry: &KeyValue) -> Vec<Bytes> {
    let (Some(address), Ok(record)) =
        (keys::expiry_owner(&entry.key), codec::decode::<ExpiryRecord>(&entry.value))
    else {
        return Vec::new();
    };
    record.keys.iter().map(|key| keys::idempotency(&address, key)).collect()
}

/// The letter that an entry says is over.
fn dead_letter(entry: &KeyValue) -> Vec<Bytes> {
    keys::expired_letter(&entry.key).into_iter().collect()
}

struct Batch<'a> {
    shared: &'a Shared,
    shard: ShardId,
    epoch: Epoch,
}

impl Batch<'_> {
    /// Removes some of the entries in `range` with all that they name. Whether there may be more.
    async fn remove(&self, range: KeyRange, named: impl Fn(&KeyValue) -> Vec<Bytes>) -> bool {
        const ENTRIES_PER_STEP: usize = 256;
        let tx = self.shared.store.begin();
        let read = RangeRead::new(range).limit(ENTRIES_PER_STEP);
        let Ok(page) = tx.snapshot_range(&read).await else { return false };
        let (mut writes, mut bytes, mut more) = (Vec::new(), 0, page.more);
        for entry in page.pairs {
            if bytes > self.shared.config.step_bytes_soft_max {
                more = true;
                break;
            }
            let cleared = named(&entry).into_iter().chain([entry.key]);
            for write in cleared.map(|key| Write::Plain(Mutation::Clear { key })) {
                bytes += write.bytes();
                writes.push(write);
            }
        }
        if writes.is_empty() || is_on(Sabotage::KeysNotForgotten) {
            return false;
        }
        metrics::counter!("cadre_host_keys_expired_total").increment(writes.len() as u64);
        // What did not commit is found again by the next call.
        self.shared.committer.commit(self.shard, self.epoch, writes).await.is_ok() && more
    }
}
