//! The committer: packs the steps of many entities into one store transaction.
//!
//! While one group is being made durable, the steps of everybody else gather for the next; nobody waits on
//! purpose. When more gather than a group takes, tenants take turns by their weights, so that however many steps one
//! of them has, those of another wait for a group or two (P8). One step's failure never fails its neighbours: a step whose shard was taken is dropped from its
//! group, a group that is too large is split.
//!
//! A commit whose outcome is unknown may still be on its way. So each group writes a marker of its own, and
//! conflicts with any other attempt that writes it: a later look at the marker tells what happened, and once
//! a second attempt has committed the first never can.

#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use ractor::ActorRef;
use tokio::sync::{mpsc, oneshot};

use super::{
    bells::{Bells, Moved},
    fair::{FairQueue, Weights},
    fence::Fence,
    work::{EntityMessage, StepError},
    write::{Placed, Write, write_into},
};
use crate::{
    address::{Address, ShardId},
    feed::Cursor,
    keys,
    placement::{Epoch, read_fence},
    sabotage::{Sabotage, is_on},
    store::{CommitError, KeyRange, Stamp, Store},
};

/// What an entity wants to have committed.
#[derive(Debug)]
pub(super) struct Step {
    /// The entity whose tenant's turn it is; `None` for what the shard tidies up.
    pub owner: Option<Address>,
    pub shard: ShardId,
    pub epoch: Epoch,
    pub writes: Vec<Write>,
    pub bytes: usize,
    pub positions: usize,
    /// Whose inboxes it writes to.
    pub inboxes: Vec<(ShardId, Address)>,
    /// The feed it appends to, with the last position counted from the step's first.
    pub feed: Option<FeedMoved>,
    /// Who is told.
    pub done: Done,
}

#[derive(Debug)]
pub(super) struct FeedMoved {
    pub tenant: String,
    pub feed: String,
    pub last: u16,
}

/// Who is told how a step ended.
#[derive(Debug)]
pub(super) enum Done {
    Entity(ActorRef<EntityMessage>),
    Waiter(oneshot::Sender<Result<Placed, StepError>>),
}

impl Done {
    fn tell(self, result: Result<Placed, StepError>) {
        match self {
            // An entity that is gone was stopped by its shard, which settles what it had.
            Self::Entity(actor) => drop(actor.cast(EntityMessage::StepDone(result))),
            Self::Waiter(waiter) => drop(waiter.send(result)),
        }
    }
}

/// The handle. Each entity has at most one step here, and so has each shard for what it tidies up: that bounds the
/// queue.
#[derive(Debug, Clone)]
pub(super) struct Committer {
    queue: mpsc::UnboundedSender<Message>,
}

#[derive(Debug)]
enum Message {
    Step(Step),
    /// Answered once everything before it has been settled.
    Barrier(oneshot::Sender<()>),
}

impl Committer {
    pub fn submit(&self, step: Step) {
        if let Err(mpsc::error::SendError(Message::Step(step))) = self.queue.send(Message::Step(step)) {
            step.done.tell(Err(StepError::Fenced));
        }
    }

    /// Commits writes that no entity waits for.
    pub async fn commit(
        &self,
        shard: ShardId,
        epoch: Epoch,
        writes: Vec<Write>,
    ) -> Result<Placed, StepError> {
        let (done, settled) = oneshot::channel();
        self.submit(Step {
            owner: None,
            shard,
            epoch,
            bytes: writes.iter().map(Write::bytes).sum(),
            positions: writes.iter().map(Write::positions).sum(),
            writes,
            inboxes: Vec::new(),
            feed: None,
            done: Done::Waiter(done),
        });
        settled.await.unwrap_or(Err(StepError::Failed))
    }

    /// Waits until every step submitted before has been settled.
    pub async fn barrier(&self) {
        let (settled, wait) = oneshot::channel();
        if self.queue.send(Message::Barrier(settled)).is_ok() {
            // A committer that is gone has nothing on its way.
            let _ = wait.await;
        }
    }
}

/// How large a group may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct GroupLimits {
    pub steps: usize,
    pub bytes: usize,
    pub in_flight: usize,
}

/// Positions are two bytes: a group takes no further step past this many.
const POSITIONS_MAX: usize = u16::MAX as usize;

/// The handle, and the task that commits.
pub(super) fn committer(
    store: Store,
    fence: Arc<Fence>,
    feed_epoch: u32,
    limits: GroupLimits,
    weights: Arc<dyn Weights>,
    bells: Bells,
) -> (Committer, impl Future<Output = ()> + Send + 'static) {
    let (queue, steps) = mpsc::unbounded_channel();
    let shared = Arc::new(Groups {
        store,
        fence,
        feed_epoch,
        bells,
        number: AtomicU64::new(0),
        settled: Mutex::default(),
    });
    let waiting = Waiting { steps: FairQueue::default(), weights, barriers: Vec::new(), held: None };
    (Committer { queue }, run(shared, steps, waiting, limits))
}

/// What waits to be committed.
struct Waiting {
    steps: FairQueue<Step>,
    weights: Arc<dyn Weights>,
    /// Whoever waits for all steps that came before.
    barriers: Vec<oneshot::Sender<()>>,
    /// The next one, which had no room in the group before.
    held: Option<Step>,
}

impl Waiting {
    /// Whose turn it is when a shard tidies up. No tenant has this name.
    const TIDYING: &str = "";
    /// What a step costs besides its bytes: a group of so many bytes is also full of so many steps.
    const STEP_COST: u64 = 1_024;

    fn add(&mut self, message: Message) {
        match message {
            Message::Barrier(barrier) => self.barriers.push(barrier),
            Message::Step(step) => {
                let cost = Self::STEP_COST + step.bytes as u64;
                let owner = step.owner.clone().filter(|_| !is_on(Sabotage::TenantsNotToldApart));
                let tenant = owner.as_ref().map_or(Self::TIDYING, Address::tenant);
                self.steps.push(tenant, self.weights.weight(tenant), cost, step);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.held.is_none() && self.steps.is_empty()
    }

    /// As many steps as fit into one group.
    fn next_group(&mut self, limits: GroupLimits) -> Vec<Step> {
        let mut group = Vec::new();
        let (mut bytes, mut positions) = (0, 0);
        while group.len() < limits.steps
            && let Some(step) = self.held.take().or_else(|| self.steps.pop())
        {
            bytes += step.bytes;
            positions += step.positions;
            if !group.is_empty() && (bytes > limits.bytes || positions > POSITIONS_MAX) {
                self.held = Some(step);
                break;
            }
            group.push(step);
        }
        group
    }
}

async fn run(
    groups: Arc<Groups>,
    mut queue: mpsc::UnboundedReceiver<Message>,
    mut waiting: Waiting,
    limits: GroupLimits,
) {
    let mut in_flight = FuturesUnordered::new();
    let mut open = true;
    loop {
        if in_flight.is_empty() && waiting.is_empty() {
            for barrier in waiting.barriers.drain(..) {
                let _ = barrier.send(());
            }
            if !open {
                return;
            }
        }
        if in_flight.len() >= limits.in_flight {
            in_flight.next().await;
            continue;
        }
        if waiting.is_empty() {
            tokio::select! {
                biased;
                Some(()) = in_flight.next(), if !in_flight.is_empty() => continue,
                // What comes after a barrier waits until it is answered.
                message = queue.recv(), if open && waiting.barriers.is_empty() => match message {
                    Some(message) => waiting.add(message),
                    None => open = false,
                },
            }
        }
        while waiting.barriers.is_empty()
            && let Ok(message) = queue.try_recv()
        {
            waiting.add(message);
        }
        let group = waiting.next_group(limits);
        metrics::gauge!("cadre_host_steps_waiting").set(waiting.steps.len() as f64);
        metrics::gauge!("cadre_host_tenants_waiting").set(waiting.steps.tenants() as f64);
        if !group.is_empty() {
            in_flight.push(groups.clone().settle(group));
        }
    }
}

struct Groups {
    store: Store,
    fence: Arc<Fence>,
    feed_epoch: u32,
    bells: Bells,
    number: AtomicU64,
    /// Markers that nobody will look at any more.
    settled: Mutex<Vec<u64>>,
}

/// How an attempt at a group ended.
enum Attempted {
    Committed(Stamp),
    /// The fence has moved since we last looked, and no attempt at the group had committed by then. `gone`: this
    /// life is over, and its markers may have been removed.
    FenceMoved {
        gone: bool,
    },
    Failed(CommitError),
}

impl Groups {
    const BACKOFF_FIRST: Duration = Duration::from_millis(2);
    const BACKOFF_MAX: Duration = Duration::from_millis(500);

    /// Commits a group, whatever it takes, and tells every step how it ended.
    async fn settle(self: Arc<Self>, group: Vec<Step>) {
        let mut groups = vec![group];
        while let Some(group) = groups.pop() {
            let (first, rest) = self.settle_or_split(group).await;
            groups.extend(rest);
            groups.extend(first);
        }
    }

    async fn settle_or_split(&self, mut steps: Vec<Step>) -> (Option<Vec<Step>>, Option<Vec<Step>>) {
        let mut number = self.number.fetch_add(1, Ordering::Relaxed);
        let mut backoff = Self::BACKOFF_FIRST;
        // Whether an attempt may have committed. Until that is known the group stays as it is: what was committed
        // was all of it.
        let mut unsure = false;
        let mut fence = None;
        loop {
            if !unsure {
                // Read before what it guards: a refresh in between shows as a fence that has moved.
                fence = self.fence.known();
                self.drop_fenced(&mut steps);
            }
            if steps.is_empty() {
                break;
            }
            let started = tokio::time::Instant::now();
            match self.attempt(number, &steps, fence).await {
                Attempted::Committed(stamp) => {
                    metrics::histogram!("cadre_host_group_commit_seconds").record(started.elapsed());
                    metrics::histogram!("cadre_host_group_steps").record(steps.len() as f64);
                    self.tell(steps, stamp);
                    break;
                }
                Attempted::FenceMoved { gone } => {
                    if gone && unsure {
                        // Our markers are gone with the fence: nobody can tell any more.
                        for step in steps {
                            step.done.tell(Err(StepError::Failed));
                        }
                        break;
                    }
                    // An attempt still on its way would conflict with what moved the fence.
                    unsure = false;
                    metrics::counter!("cadre_host_fence_moved_total").increment(1);
                    if let Err(error) = self.fence.refresh(&self.store).await {
                        tracing::debug!(%error, "cannot refresh the fence yet");
                        backoff = pause(backoff).await;
                    }
                }
                Attempted::Failed(CommitError::TooLarge { .. }) if steps.len() > 1 => {
                    let rest = steps.split_off(steps.len() / 2);
                    self.discard_marker(number);
                    return (Some(steps), Some(rest));
                }
                Attempted::Failed(error @ CommitError::TooLarge { .. }) => {
                    let step = steps.pop().expect("a group that is tried has a step");
                    step.done.tell(Err(StepError::Refused(error)));
                    break;
                }
                // Whoever waits should hear of it, and not only that there was no answer in time.
                Attempted::Failed(error @ CommitError::Full { .. }) if !unsure => {
                    tracing::warn!(%error, "steps are put off");
                    metrics::counter!("cadre_host_steps_put_off_total").increment(steps.len() as u64);
                    for step in steps {
                        step.done.tell(Err(StepError::NoRoom(error.clone())));
                    }
                    // No attempt has left a marker.
                    return (None, None);
                }
                Attempted::Failed(error @ CommitError::Failed(_)) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "store failed, steps are lost");
                    for step in steps {
                        step.done.tell(Err(StepError::Failed));
                    }
                    break;
                }
                Attempted::Failed(error) => {
                    metrics::counter!("cadre_host_group_retries_total", "error" => label(&error))
                        .increment(1);
                    if matches!(error, CommitError::OutcomeUnknown) {
                        unsure = true;
                        if is_on(Sabotage::UnknownIsFailed) {
                            number = self.number.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    if !matches!(error, CommitError::Conflict) {
                        backoff = pause(backoff).await;
                    }
                }
            }
        }
        self.discard_marker(number);
        (None, None)
    }

    async fn attempt(&self, number: u64, steps: &[Step], fence: Option<u64>) -> Attempted {
        match self.try_commit(number, steps, fence).await {
            Ok(attempted) => attempted,
            Err(error) => Attempted::Failed(error),
        }
    }

    /// Commits if the stored fence is still `fence`.
    async fn try_commit(
        &self,
        number: u64,
        steps: &[Step],
        fence: Option<u64>,
    ) -> Result<Attempted, CommitError> {
        let me = &self.fence.me;
        let marker = keys::commit_marker(&me.name, me.incarnation, number);
        let mut tx = self.store.begin();
        let (stored, marked) = futures::future::try_join(read_fence(&tx, me), tx.get(&marker)).await?;
        if let Some(value) = marked {
            let stamp: [u8; Stamp::LEN] = value[..].try_into().expect("a marker is a stamp");
            return Ok(Attempted::Committed(Stamp::from(stamp)));
        }
        if !is_on(Sabotage::FenceOff) && (stored.is_none() || stored != fence) {
            return Ok(Attempted::FenceMoved { gone: stored.is_none() });
        }
        if steps.iter().all(|step| step.writes.is_empty()) {
            return Ok(Attempted::Committed(tx.commit().await?.stamp));
        }
        let mut base = 0;
        for step in steps {
            write_into(&mut tx, &step.writes, base);
            base += u16::try_from(step.positions).expect("a group has no more positions than a u16 counts");
        }
        tx.set_stamped_value(marker.clone(), vec![0; Stamp::LEN], 0);
        let settled = self.take_settled();
        for number in &settled {
            tx.clear(keys::commit_marker(&me.name, me.incarnation, *number));
        }
        tx.add_read_conflict(KeyRange::single(marker));
        match tx.commit().await {
            Ok(committed) => Ok(Attempted::Committed(committed.stamp)),
            Err(error) => {
                self.settled.lock().unwrap_or_else(PoisonError::into_inner).extend(settled);
                Err(error)
            }
        }
    }

    /// Steps of shards that are not ours any more end here, without harm to the others.
    fn drop_fenced(&self, steps: &mut Vec<Step>) {
        if is_on(Sabotage::FenceOff) {
            return;
        }
        if steps.iter().all(|step| self.fence.owns(step.shard, step.epoch)) {
            return;
        }
        let (ours, lost) =
            std::mem::take(steps).into_iter().partition(|step| self.fence.owns(step.shard, step.epoch));
        *steps = ours;
        for step in lost {
            step.done.tell(Err(StepError::Fenced));
        }
    }

    fn tell(&self, steps: Vec<Step>, stamp: Stamp) {
        let mut moved = Moved::default();
        let mut base: u16 = 0;
        for step in steps {
            if let Some(feed) = step.feed {
                let cursor = Cursor::new(self.feed_epoch, stamp, base.saturating_add(feed.last));
                moved.feeds.insert((feed.tenant, feed.feed), cursor);
            }
            for (shard, address) in step.inboxes {
                let inboxes = moved.inboxes.entry(shard).or_default();
                if inboxes.last() != Some(&address) {
                    inboxes.push(address);
                }
            }
            step.done.tell(Ok(Placed { stamp, base }));
            base = base.saturating_add(step.positions as u16);
        }
        self.bells.announce(moved);
    }

    fn discard_marker(&self, number: u64) {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }

    fn take_settled(&self) -> Vec<u64> {
        /// Bounds what one group clears on the side.
        const PER_GROUP: usize = 64;
        let mut settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner);
        let keep = settled.len().saturating_sub(PER_GROUP);
        settled.split_off(keep)
    }
}

async fn pause(backoff: Duration) -> Duration {
    tokio::time::sleep(backoff).await;
    (backoff * 2).min(Groups::BACKOFF_MAX)
}

fn label(error: &CommitError) -> &'static str {
    match error {
        CommitError::Conflict => "conflict",
        CommitError::TooOld => "too_old",
        CommitError::OutcomeUnknown => "outcome_unknown",
        CommitError::TooLarge { .. } => "too_large",
        CommitError::Unavailable { .. } => "unavailable",
        CommitError::Full { .. } => "full",
        CommitError::Failed(_) => "failed",
    }
}
