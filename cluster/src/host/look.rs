//! How a shard learns of work: over the bus when all is well, and by looking into the store in any case.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{FutureExt, future::ready};
use ractor::ActorRef;
use tokio::sync::oneshot;

use super::{
    record::MessageRecord,
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
    store::{KeyRange, RangeRead, ReadError, Transaction, key_after},
    trace,
};

/// Where the next look goes on. One that starts at the first key every time would never get past work that
/// cannot be delivered: a kind that this node does not host, an entity that crashes over and over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bookmark {
    inboxes: Option<Bytes>,
    timers: Option<Bytes>,
    marks: Marks,
}

/// How far the marks of entities with pending effects were read. They are live work that a former owner left,
/// read once, from the first to the last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Marks {
    #[default]
    Unread,
    From(Bytes),
    Read,
}

impl Bookmark {
    /// The marks are to be read again.
    pub fn forget_marks(&mut self) {
        self.marks = Marks::Unread;
    }
}

/// What a look found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Entities with something in their inbox, and since when its first message waits.
    pub inboxes: Vec<(Address, Timestamp)>,
    /// Entities with pending effects.
    pub awake: Vec<Address>,
    /// Timers that are due.
    pub timers: Vec<(Timestamp, Address, String)>,
    /// When the next one is.
    pub next_timer: Option<Timestamp>,
    /// Whether there was more than one look takes, or the store did not answer.
    pub more: bool,
    /// Whether the store did not answer.
    pub failed: bool,
    /// Where this look began.
    pub from: Bookmark,
    /// Where the next look goes on.
    pub bookmark: Bookmark,
}

/// The most entities, marks and timers, each, that one look brings up.
const FOUND_MAX: usize = 512;

pub(super) async fn look(shared: &Shared, shard: ShardId, bookmark: Bookmark) -> Found {
    let mut found = Found { from: bookmark.clone(), bookmark, ..Found::default() };
    if let Err(error) = try_look(shared, shard, &mut found).await {
        tracing::debug!(%shard, %error, "cannot look for work now");
        (found.more, found.failed) = (true, true);
    }
    found
}

async fn try_look(shared: &Shared, shard: ShardId, found: &mut Found) -> Result<(), ReadError> {
    let tx = shared.store.begin();
    find_awake(&tx, shard, found).await?;
    let now = shared.now();
    find_inboxes(&tx, shard, now, found).await?;
    find_timers(&tx, shard, now, found).await?;
    let all = found.inboxes.len() + found.awake.len() + found.timers.len();
    metrics::histogram!("cadre_host_look_found").record(all as f64);
    Ok(())
}

/// Entities that had effects pending when their owner went away.
async fn find_awake(tx: &Transaction, shard: ShardId, found: &mut Found) -> Result<(), ReadError> {
    let mut marks = keys::awakes(shard);
    match &found.bookmark.marks {
        Marks::Unread => {}
        Marks::From(begin) => marks.begin = begin.clone(),
        Marks::Read => return Ok(()),
    }
    let page = tx.snapshot_range(&RangeRead::new(marks).limit(FOUND_MAX)).await?;
    found.awake = page.pairs.iter().filter_map(|pair| keys::parse_awake(&pair.key)).collect();
    found.bookmark.marks = match page.pairs.last() {
        Some(last) if page.more => Marks::From(key_after(&last.key)),
        _ => Marks::Read,
    };
    found.more |= page.more;
    Ok(())
}

/// Whose inbox holds something. An inbox that fills a page is jumped over: one of its messages says enough.
async fn find_inboxes(
    tx: &Transaction,
    shard: ShardId,
    now: Timestamp,
    found: &mut Found,
) -> Result<(), ReadError> {
    /// Most inboxes hold a message or two: few reads for many of them, and little read for nothing of a long one.
    const MESSAGES_AT_ONCE: usize = 64;
    let mut inboxes = keys::inboxes(shard);
    if let Some(begin) = found.bookmark.inboxes.take() {
        inboxes.begin = begin;
    }
    while found.inboxes.len() < FOUND_MAX {
        let read = RangeRead::new(inboxes.clone()).limit(MESSAGES_AT_ONCE).target_bytes(64 * 1024);
        let page = tx.snapshot_range(&read).await?;
        let Some(last) = page.pairs.last() else { return Ok(()) };
        for pair in &page.pairs {
            let Some(address) = keys::inbox_owner(&pair.key) else { continue };
            if found.inboxes.last().is_none_or(|(last, _)| *last != address) {
                // One that cannot be read is put aside by its entity, which says why.
                let first = codec::decode::<MessageRecord>(&pair.value);
                found.inboxes.push((address, first.map_or(now, |message| message.sent)));
            }
        }
        if !page.more {
            return Ok(());
        }
        inboxes.begin = match keys::inbox_owner(&last.key) {
            Some(address) => KeyRange::prefix(keys::inbox(shard, &address)).end,
            None => key_after(&last.key),
        };
    }
    found.bookmark.inboxes = Some(inboxes.begin);
    found.more = true;
    Ok(())
}

async fn find_timers(
    tx: &Transaction,
    shard: ShardId,
    now: Timestamp,
    found: &mut Found,
) -> Result<(), ReadError> {
    let due = if is_on(Sabotage::TimerFiresEarly) { Timestamp(u64::MAX / 2) } else { now };
    let mut timers = keys::timers_due(shard, due);
    if let Some(begin) = found.bookmark.timers.take() {
        // A clock that went back since makes the range empty, not wrong.
        timers.begin = begin.min(timers.end.clone());
    }
    let page = tx.snapshot_range(&RangeRead::new(timers).limit(FOUND_MAX)).await?;
    found.timers = page.pairs.iter().filter_map(|pair| keys::parse_timer(&pair.key)).collect();
    if let Some(last) = page.pairs.last().filter(|_| page.more) {
        found.bookmark.timers = Some(key_after(&last.key));
        found.more = true;
    }
    let next = tx.snapshot_range(&RangeRead::new(keys::timers_after(shard, now)).limit(1)).await?;
    found.next_timer = next.pairs.first().and_then(|pair| keys::parse_timer(&pair.key)).map(|(due, ..)| due);
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
    /// A server answers within a few milliseconds unless the machine is busy; one that is gone has nothing for us.
    const CLOSE_MAX: Duration = Duration::from_millis(500);
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
    let shard = address.shard(shared.config.shards);
    let response = match codec::unpack::<Request>("request", &delivery.payload) {
        Ok(request) => ask(shared, actor, address, request, trace::of(&delivery.headers)).left_future(),
        Err(error) => ready(Response::Poisoned { reason: error.to_string() }).right_future(),
    };
    let (shared, actor) = (shared.clone(), actor.clone());
    // One task per remote command that waits; as many as the node admits.
    tokio::spawn(async move {
        let mut response = response.await;
        // An entity that ended before it came to this command, in a shard that was ours all the while.
        let route = shared.routes.get(shard);
        if response == Response::NotOwner && route.is_some_and(|route| route.get_id() == actor.get_id()) {
            response = Response::Moving;
        }
        // Whoever owns the shard by now was asked, too, and that answer counts.
        let may_be_owned_elsewhere = response == Response::NotOwner || !shared.is_lease_sure();
        if may_be_owned_elsewhere && !response.is_decided() {
            return;
        }
        // A reply that is lost is asked for again.
        let _ = reply.send(codec::pack(&response)).await;
    });
}
