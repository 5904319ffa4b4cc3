//! How a shard learns of work: over the bus when all is well, and by looking into the store in any case.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::ready};
use ractor::ActorRef;
use tokio::sync::oneshot;

use super::{
    shard::{ShardMessage, ask},
    shared::Shared,
    wire::{Bell, Request, Response},
};
use crate::{
    address::{Address, ShardId, shard_subject},
    bus::Delivery,
    clock::Timestamp,
    codec, keys,
    sabotage::{Sabotage, is_on},
    store::{KeyRange, RangeRead, ReadError, Transaction},
};

/// What a look found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Entities with something in their inbox, or with pending effects after a change of owner.
    pub inboxes: Vec<Address>,
    /// Timers that are due.
    pub timers: Vec<(Timestamp, Address, String)>,
    /// When the next one is.
    pub next_timer: Option<Timestamp>,
    /// Whether there was more than one look takes, or the store did not answer.
    pub more: bool,
    /// Whether the marks of a former owner were read to the end.
    pub recovered: bool,
}

/// The most entities and timers that one look brings up.
const FOUND_MAX: usize = 512;

pub(super) async fn look(shared: &Shared, shard: ShardId, recover: bool) -> Found {
    let mut found = Found::default();
    if let Err(error) = try_look(shared, shard, recover, &mut found).await {
        tracing::debug!(%shard, %error, "cannot look for work now");
        found.more = true;
    }
    found
}

async fn try_look(
    shared: &Shared,
    shard: ShardId,
    recover: bool,
    found: &mut Found,
) -> Result<(), ReadError> {
    let tx = shared.store.begin();
    if recover {
        recover_awake(&tx, shard, found).await?;
    }
    // One key per entity is enough: jump from inbox to inbox.
    let mut inboxes = keys::inboxes(shard);
    while found.inboxes.len() < FOUND_MAX {
        let page = tx.snapshot_range(&RangeRead::new(inboxes.clone()).limit(1)).await?;
        let Some(first) = page.pairs.first() else { break };
        match keys::inbox_owner(&first.key) {
            Some(address) => {
                inboxes.begin = KeyRange::prefix(keys::inbox(shard, &address)).end;
                found.inboxes.push(address);
            }
            None => inboxes.begin = crate::store::key_after(&first.key),
        }
    }
    let now = shared.now();
    let due = if is_on(Sabotage::TimerFiresEarly) { Timestamp(u64::MAX / 2) } else { now };
    let page = tx.snapshot_range(&RangeRead::new(keys::timers_due(shard, due)).limit(FOUND_MAX)).await?;
    found.timers = page.pairs.iter().filter_map(|pair| keys::parse_timer(&pair.key)).collect();
    let next = tx.snapshot_range(&RangeRead::new(keys::timers_after(shard, now)).limit(1)).await?;
    found.next_timer = next.pairs.first().and_then(|pair| keys::parse_timer(&pair.key)).map(|(due, ..)| due);
    found.more |= page.more || found.inboxes.len() >= FOUND_MAX;
    metrics::histogram!("cadre_host_look_found").record((found.inboxes.len() + found.timers.len()) as f64);
    Ok(())
}

/// Entities that had effects pending when their owner went away. All of them: they are live work.
async fn recover_awake(tx: &Transaction, shard: ShardId, found: &mut Found) -> Result<(), ReadError> {
    use futures::TryStreamExt;
    let marks = tx.snapshot_stream(RangeRead::new(keys::awakes(shard)).limit(usize::MAX));
    let mut marks = std::pin::pin!(marks);
    while let Some(mark) = marks.try_next().await? {
        found.inboxes.extend(keys::parse_awake(&mark.key));
    }
    found.recovered = true;
    Ok(())
}

/// Listens for commands and doorbells of a shard as long as it is owned. When `closing` resolves, hands over what
/// is still on its way, says so, and ends.
pub(super) async fn listen(
    shared: Arc<Shared>,
    shard: ShardId,
    actor: ActorRef<ShardMessage>,
    mut closing: oneshot::Receiver<()>,
) {
    const RETRY: Duration = Duration::from_millis(250);
    /// A server answers within a few milliseconds; one that is gone has nothing for us.
    const CLOSE_MAX: Duration = Duration::from_millis(100);
    let subject = shard_subject(&shared.config.cluster, shard);
    let hear = async {
        loop {
            let subscribed = tokio::select! {
                biased;
                _ = &mut closing => return None,
                subscribed = shared.bus.subscribe(&subject) => subscribed,
            };
            match subscribed {
                Ok(mut subscription) => loop {
                    tokio::select! {
                        biased;
                        _ = &mut closing => return Some(subscription),
                        delivery = subscription.next() => match delivery {
                            Some(delivery) => receive(&shared, &actor, delivery),
                            None => break,
                        },
                    }
                },
                Err(error) => tracing::debug!(%shard, %error, "cannot listen yet"),
            }
            tokio::select! {
                biased;
                _ = &mut closing => return None,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    };
    if let Some(mut subscription) = hear.await {
        let leftovers = async {
            subscription.close().await;
            while let Some(delivery) = subscription.next().await {
                receive(&shared, &actor, delivery);
            }
        };
        // Past that, whoever asked asks again after a timeout.
        let _ = tokio::time::timeout(CLOSE_MAX, leftovers).await;
    }
    let _ = actor.cast(ShardMessage::Quiet);
}

fn receive(shared: &Arc<Shared>, actor: &ActorRef<ShardMessage>, delivery: Delivery) {
    let Some(address) = Address::from_subject(&delivery.subject) else {
        let bell: Bell = codec::unpack("bell", &delivery.payload).unwrap_or_default();
        let _ = actor.cast(ShardMessage::Bells(bell.inboxes));
        return;
    };
    let Some(reply) = delivery.reply else { return };
    let response = match codec::unpack::<Request>("request", &delivery.payload) {
        Ok(request) => ask(shared, actor, address, request).left_future(),
        Err(error) => ready(Response::Poisoned { reason: error.to_string() }).right_future(),
    };
    let shared = shared.clone();
    // One task per remote command that waits; as many as the node admits.
    tokio::spawn(async move {
        let response = response.await;
        // Whoever owns the shard by now was asked, too, and that answer counts.
        let may_be_owned_elsewhere = response == Response::NotOwner || !shared.is_lease_sure();
        if may_be_owned_elsewhere && !response.is_decided() {
            return;
        }
        // A reply that is lost is asked for again.
        let _ = reply.send(codec::pack(&response)).await;
    });
}
