//! Forgetting idempotency keys whose time is over.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    committer::{Done, Step},
    record::ExpiryRecord,
    shared::Shared,
    write::Write,
};
use crate::{
    address::ShardId,
    codec, keys,
    placement::Epoch,
    store::{Mutation, RangeRead},
};

/// Removes what has expired in a shard, a bounded batch per call.
pub(super) async fn expire(shared: Arc<Shared>, shard: ShardId, epoch: Epoch) {
    const LISTS_PER_CALL: usize = 256;
    let tx = shared.store.begin();
    let read = RangeRead::new(keys::expired(shard, shared.now())).limit(LISTS_PER_CALL);
    let Ok(page) = tx.snapshot_range(&read).await else { return };
    let mut writes = Vec::new();
    for pair in page.pairs {
        let record = codec::decode::<ExpiryRecord>(&pair.value);
        if let (Some(address), Ok(record)) = (keys::expiry_owner(&pair.key), record) {
            for key in &record.keys {
                writes.push(Write::Plain(Mutation::Clear { key: keys::idempotency(&address, key) }));
            }
        }
        writes.push(Write::Plain(Mutation::Clear { key: pair.key }));
    }
    if writes.is_empty() {
        return;
    }
    metrics::counter!("cadre_host_idempotency_keys_expired_total").increment(writes.len() as u64);
    let (done, settled) = oneshot::channel();
    shared.committer.submit(Step {
        shard,
        epoch,
        bytes: writes.iter().map(Write::bytes).sum(),
        positions: 0,
        writes,
        inboxes: Vec::new(),
        feed: None,
        done: Done::Waiter(done),
    });
    // Whatever came of it, the next call looks again.
    let _ = settled.await;
}
