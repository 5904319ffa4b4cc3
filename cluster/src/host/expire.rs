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
    clock::Timestamp,
    codec, keys,
    placement::Epoch,
    sabotage::{Sabotage, is_on},
    store::{Mutation, RangeRead},
};

/// Removes what has expired in a shard, a bounded batch per step.
pub(super) async fn expire(shared: Arc<Shared>, shard: ShardId, epoch: Epoch) {
    while expire_some(&shared, shard, epoch).await {}
}

/// Whether there may be more.
async fn expire_some(shared: &Shared, shard: ShardId, epoch: Epoch) -> bool {
    const LISTS_PER_STEP: usize = 256;
    let tx = shared.store.begin();
    let early = is_on(Sabotage::KeyForgottenEarly);
    let now = if early { Timestamp(u64::MAX / 2) } else { shared.now() };
    let read = RangeRead::new(keys::expired(shard, now)).limit(LISTS_PER_STEP);
    let Ok(page) = tx.snapshot_range(&read).await else { return false };
    let (mut writes, mut bytes, mut more) = (Vec::new(), 0, page.more);
    for pair in page.pairs {
        if bytes > shared.config.step_bytes_soft_max {
            more = true;
            break;
        }
        let before = writes.len();
        let record = codec::decode::<ExpiryRecord>(&pair.value);
        if let (Some(address), Ok(record)) = (keys::expiry_owner(&pair.key), record) {
            for key in &record.keys {
                writes.push(Write::Plain(Mutation::Clear { key: keys::idempotency(&address, key) }));
            }
        }
        writes.push(Write::Plain(Mutation::Clear { key: pair.key }));
        bytes += writes[before..].iter().map(Write::bytes).sum::<usize>();
    }
    if writes.is_empty() || is_on(Sabotage::KeysNotForgotten) {
        return false;
    }
    metrics::counter!("cadre_host_idempotency_keys_expired_total").increment(writes.len() as u64);
    let (done, settled) = oneshot::channel();
    shared.committer.submit(Step {
        shard,
        epoch,
        bytes,
        positions: 0,
        writes,
        inboxes: Vec::new(),
        feed: None,
        done: Done::Waiter(done),
    });
    // What did not commit is found again by the next call.
    matches!(settled.await, Ok(Ok(_))) && more
}
