//! The supervisor of one shard: activates its entities, routes to them, and looks for work that nobody announced.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::FutureExt;
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::{sync::oneshot, task::AbortHandle, time::Instant};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::{
    actor::{EntityArgs, UNREADABLE},
    expire::expire,
    gate::Gate,
    look::{Bookmark, Found, listen, look},
    shared::Shared,
    status::Progress,
    unhosted::{Unhosted, bury},
    wire::{Request, Response, TooLong},
    work::{EntityMessage, ReplyPort, Work},
};
use crate::{
    address::{Address, ShardId},
    clock::Timestamp,
    placement::Epoch,
    sabotage::{Sabotage, is_on},
};

/// What a shard is told.
#[derive(Debug)]
pub(super) enum ShardMessage {
    Command {
        address: Address,
        request: Request,
        reply: ReplyPort,
        trace: Option<String>,
    },
    /// These inboxes may hold something; none named: any may.
    Bells(Vec<Address>),
    /// A timer was set that is due then.
    TimerSet(Timestamp),
    /// It is time to look for work.
    Look,
    Found(Box<Found>),
    Sweep,
    /// An entity has nothing to do, having received so many inputs.
    Rested {
        address: Address,
        /// Which of its lives in memory says so.
        actor: ActorId,
        received: u64,
    },
    /// Take no more commands; answered when the entities are gone.
    Drain(oneshot::Sender<()>),
    /// Nothing more comes over the bus.
    Quiet,
    /// Somebody else owns the shard: end here and now.
    Abandon,
}

/// The configuration of a shard's actor.
pub(super) struct ShardActor {
    pub shard: ShardId,
    pub epoch: Epoch,
    pub shared: Arc<Shared>,
    /// Where attempts begin that must not be repeated.
    pub gate: Gate,
    /// How it gets on, for whoever asks the node.
    pub progress: Arc<Progress>,
}

/// The actor's state.
pub(super) struct Shard {
    entities: HashMap<Address, Entry, Xxh3DefaultBuilder>,
    by_actor: HashMap<ActorId, Address, Xxh3DefaultBuilder>,
    crashes: HashMap<Address, Crash, Xxh3DefaultBuilder>,
    /// Background work of this shard; ends with it.
    _tasks: Vec<AbortOnDrop>,
    /// Tells the listener to close; gone when it was told.
    close: Option<oneshot::Sender<()>>,
    /// Whether the listener has closed.
    quiet: bool,
    looking: Option<AbortOnDrop>,
    expiring: Option<AbortOnDrop>,
    /// Whether somebody asked for a look while one was under way.
    look_again: bool,
    /// When the next look is due, and the task that waits for it.
    next_look: Option<(Instant, AbortOnDrop)>,
    bookmark: Bookmark,
    /// Entities with effects pending that could not be woken yet.
    asleep: BTreeSet<Address>,
    unhosted: Unhosted,
    burying: Option<AbortOnDrop>,
    /// When entities were last asked whether they can leave.
    swept: Option<Instant>,
    draining: Option<oneshot::Sender<()>>,
}

struct Entry {
    actor: ActorRef<EntityMessage>,
    sent: u64,
    touched: Instant,
    waiting: Arc<std::sync::atomic::AtomicU32>,
}

struct Crash {
    count: u32,
    until: Instant,
}

/// Ends a task when it is dropped.
pub(super) struct AbortOnDrop(pub AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Actor for ShardActor {
    type Msg = ShardMessage;
    type State = Shard;
    type Arguments = ();

    async fn pre_start(&self, myself: ActorRef<ShardMessage>, (): ()) -> Result<Shard, ActorProcessingErr> {
        let (close, closing) = oneshot::channel();
        let listening = tokio::spawn(listen(self.shared.clone(), self.shard, myself.clone(), closing));
        let sweep_every = self.shared.config.sweep_every;
        let sweeper = myself.clone();
        let sweeping = tokio::spawn(async move {
            loop {
                tokio::time::sleep(sweep_every).await;
                if sweeper.cast(ShardMessage::Sweep).is_err() {
                    return;
                }
            }
        });
        myself.cast(ShardMessage::Look)?;
        Ok(Shard {
            entities: HashMap::default(),
            by_actor: HashMap::default(),
            crashes: HashMap::default(),
            close: Some(close),
            quiet: false,
            _tasks: vec![AbortOnDrop(listening.abort_handle()), AbortOnDrop(sweeping.abort_handle())],
            looking: None,
            expiring: None,
            look_again: false,
            next_look: None,
            bookmark: Bookmark::default(),
            asleep: BTreeSet::new(),
            unhosted: Unhosted::default(),
            burying: None,
            swept: None,
            draining: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<ShardMessage>,
        message: ShardMessage,
        shard: &mut Shard,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ShardMessage::Command { address, request, mut reply, trace } => {
                match self.admit(&myself, shard, &address, &request, &mut reply).await {
                    Err(response) => reply.answer(response),
                    // An actor that died meanwhile drops the reply, and the caller asks again.
                    Ok(entity) => {
                        let _ = entity.cast(EntityMessage::Work(Work::Command { request, reply, trace }));
                    }
                }
            }
            ShardMessage::Bells(inboxes) if inboxes.is_empty() => self.look(&myself, shard),
            ShardMessage::Bells(inboxes) => {
                for address in inboxes {
                    self.deliver(&myself, shard, &address, EntityMessage::Bell).await;
                }
            }
            ShardMessage::TimerSet(due) => {
                let wait = self.shared.now().until(due);
                self.look_in(&myself, shard, wait);
            }
            ShardMessage::Look => self.look(&myself, shard),
            ShardMessage::Found(found) => self.found(&myself, shard, *found).await,
            ShardMessage::Sweep => {
                self.sweep(shard);
                let is_expiring = shard.expiring.as_ref().is_some_and(|task| !task.0.is_finished());
                if shard.draining.is_none() && !is_expiring {
                    let expiring = tokio::spawn(expire(self.shared.clone(), self.shard, self.epoch));
                    shard.expiring = Some(AbortOnDrop(expiring.abort_handle()));
                }
                self.bury_unhosted(shard);
                if shard.next_look.is_none() && !shard.is_looking() && !is_on(Sabotage::NoPeriodicLook) {
                    // A look that ended without a word.
                    self.look(&myself, shard);
                }
            }
            ShardMessage::Rested { address, actor, received } => shard.rested(&address, actor, received),
            ShardMessage::Drain(drained) => {
                shard.draining = Some(drained);
                // Whoever asks until then is told to ask again.
                shard.quiet = shard.close.take().is_none_or(|close| close.send(()).is_err());
                shard.looking = None;
                shard.expiring = None;
                shard.burying = None;
                shard.next_look = None;
                for entry in shard.entities.values() {
                    // One that is gone reports so by itself.
                    let _ = entry.actor.cast(EntityMessage::Drain);
                }
                shard.finish_drain(&myself);
            }
            ShardMessage::Quiet => {
                shard.quiet = true;
                shard.finish_drain(&myself);
            }
            ShardMessage::Abandon => {
                // One by one: a supervisor's death would take them in no particular order.
                for entry in shard.entities.values() {
                    entry.actor.kill();
                }
                myself.stop(None);
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<ShardMessage>,
        event: SupervisionEvent,
        shard: &mut Shard,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                if let Some(address) = shard.gone(&cell) {
                    if reason.as_deref() == Some(UNREADABLE) {
                        metrics::counter!("cadre_host_entities_unreadable_total").increment(1);
                        self.back_off(&myself, shard, address);
                    } else {
                        // One that stopped by itself may have lost sight of its effects.
                        shard.wake_later(address);
                        self.look_in(&myself, shard, self.shared.config.crash_backoff);
                    }
                }
            }
            SupervisionEvent::ActorFailed(cell, error) => {
                if let Some(address) = shard.gone(&cell) {
                    metrics::counter!("cadre_host_entity_crashes_total").increment(1);
                    tracing::error!(%address, %error, "entity actor crashed, it is rebuilt from the store");
                    self.back_off(&myself, shard, address);
                }
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        shard.finish_drain(&myself);
        Ok(())
    }
}

impl ShardActor {
    /// How often a shard makes room when there is none for an entity: each time it asks all that it has.
    const CROWDED_SWEEP_EVERY: Duration = Duration::from_millis(50);

    /// The entity that a command is for, with a place among what waits for it; or why it cannot have it.
    async fn admit<'a>(
        &self,
        myself: &ActorRef<ShardMessage>,
        shard: &'a mut Shard,
        address: &Address,
        request: &Request,
        reply: &mut ReplyPort,
    ) -> Result<&'a ActorRef<EntityMessage>, Response> {
        if shard.draining.is_some() {
            return Err(Response::Moving);
        }
        let shards = self.shared.config.shards;
        if address.shard(shards) != self.shard {
            return Err(Response::Misrouted { shards });
        }
        if self.shared.kinds.get(address.kind()).is_none() {
            return Err(Response::UnknownKind);
        }
        if let Err(TooLong { limit, actual }) = request.check_key() {
            let reason = format!("idempotency key of {actual} bytes is over the limit of {limit}");
            return Err(Response::Poisoned { reason });
        }
        let limit = self.shared.config.inputs_per_entity_max;
        let entry = self.entry(myself, shard, address).await.ok_or(Response::Busy)?;
        let waiting = entry.waiting.fetch_add(1, Ordering::Relaxed);
        reply.also(entry.waiting.clone());
        if waiting >= limit && !is_on(Sabotage::AdmissionOff) {
            metrics::counter!("cadre_host_inputs_refused_total", "by" => "entity").increment(1);
            return Err(Response::Busy);
        }
        entry.sent += 1;
        entry.touched = Instant::now();
        Ok(&entry.actor)
    }

    /// Whether it was delivered.
    async fn deliver(
        &self,
        myself: &ActorRef<ShardMessage>,
        shard: &mut Shard,
        address: &Address,
        message: EntityMessage,
    ) -> bool {
        if shard.draining.is_some() || address.shard(self.shared.config.shards) != self.shard {
            return false;
        }
        // Past a limit or during a backoff, the next look tries again: what is announced here is in the store.
        let Some(entry) = self.entry(myself, shard, address).await else { return false };
        entry.sent += 1;
        entry.touched = Instant::now();
        entry.actor.cast(message).is_ok()
    }

    /// The live entity, activated if need be. `None` when there is no room or it crashed a moment ago.
    async fn entry<'a>(
        &self,
        myself: &ActorRef<ShardMessage>,
        shard: &'a mut Shard,
        address: &Address,
    ) -> Option<&'a mut Entry> {
        if !shard.entities.contains_key(address) {
            let entry = self.activate(myself, shard, address).await?;
            shard.by_actor.insert(entry.actor.get_id(), address.clone());
            shard.entities.insert(address.clone(), entry);
        }
        shard.entities.get_mut(address)
    }

    async fn activate(
        &self,
        myself: &ActorRef<ShardMessage>,
        shard: &mut Shard,
        address: &Address,
    ) -> Option<Entry> {
        let kind = self.shared.kinds.get(address.kind())?;
        if shard.crashes.get(address).is_some_and(|crash| crash.until > Instant::now()) {
            return None;
        }
        let Some(place) = self.shared.room.live(address.tenant()) else {
            metrics::counter!("cadre_host_activations_refused_total").increment(1);
            // One round of questions at a time: whoever can leave does so meanwhile.
            if shard.swept.is_none_or(|swept| swept.elapsed() >= Self::CROWDED_SWEEP_EVERY) {
                self.sweep(shard);
            }
            return None;
        };
        let args = EntityArgs {
            address: address.clone(),
            shard: self.shard,
            epoch: self.epoch,
            shared: self.shared.clone(),
            supervisor: myself.clone(),
            gate: self.gate.clone(),
            _place: place,
        };
        metrics::counter!("cadre_host_activations_total").increment(1);
        match kind.spawn(args, myself.get_cell()).await {
            Ok(actor) => Some(Entry { actor, sent: 0, touched: Instant::now(), waiting: Arc::default() }),
            Err(error) => {
                tracing::error!(%address, %error, "entity actor did not start");
                None
            }
        }
    }

    /// Looks for work in the background, once at a time.
    fn look(&self, myself: &ActorRef<ShardMessage>, shard: &mut Shard) {
        if shard.draining.is_some() {
            return;
        }
        shard.next_look = None;
        if shard.is_looking() {
            shard.look_again = true;
            return;
        }
        let (shared, id, bookmark) = (self.shared.clone(), self.shard, shard.bookmark.clone());
        let myself = myself.clone();
        let looking = tokio::spawn(async move {
            let found = Box::new(look(&shared, id, bookmark).await);
            // A shard that is gone needs nothing.
            let _ = myself.cast(ShardMessage::Found(found));
        });
        shard.looking = Some(AbortOnDrop(looking.abort_handle()));
    }

    async fn found(&self, myself: &ActorRef<ShardMessage>, shard: &mut Shard, found: Found) {
        shard.looking = None;
        // Not over marks that were to be read again while this look was under way.
        if shard.bookmark == found.from {
            shard.bookmark = found.bookmark;
        }
        let mut delivered = false;
        let asleep = std::mem::take(&mut shard.asleep);
        for address in asleep.into_iter().chain(found.awake) {
            if self.deliver(myself, shard, &address, EntityMessage::Bell).await {
                delivered = true;
            } else {
                shard.wake_later(address);
            }
        }
        let mut oldest: Option<(Address, Timestamp)> = None;
        let mut waits = |address: &Address, since: Timestamp| {
            if oldest.as_ref().is_none_or(|(_, first)| since < *first) {
                oldest = Some((address.clone(), since));
            }
        };
        for (address, since) in &found.inboxes {
            if self.shared.kinds.get(address.kind()).is_none() {
                shard.unhosted.seen(address);
                continue;
            }
            // What crashes over and over is reported as that, and says nothing of the shard.
            if !shard.crashes.contains_key(address) {
                waits(address, *since);
            }
            delivered |= self.deliver(myself, shard, address, EntityMessage::Bell).await;
        }
        for (due, address, name) in found.timers {
            if self.shared.kinds.get(address.kind()).is_some() && !shard.crashes.contains_key(&address) {
                waits(&address, due);
            }
            let timer = EntityMessage::Work(Work::Timer { name, due });
            delivered |= self.deliver(myself, shard, &address, timer).await;
        }
        if !found.failed {
            self.progress.looked(!found.more, found.inboxes.len(), oldest, self.shared.now());
        }
        if is_on(Sabotage::NoPeriodicLook) && !found.more {
            if let Some(due) = found.next_timer {
                self.look_in(myself, shard, self.shared.now().until(due));
            }
            return;
        }
        let mut wait = self.shared.config.look_every;
        if let Some(due) = found.next_timer {
            wait = wait.min(self.shared.now().until(due));
        }
        let go_on = found.more && delivered && !found.failed;
        if std::mem::take(&mut shard.look_again) || go_on {
            // What was just announced has a moment to be consumed before it would be found again.
            wait = wait.min(Duration::from_millis(10));
        }
        self.look_in(myself, shard, wait);
    }

    /// Makes sure that there is a look no later than in `wait`.
    fn look_in(&self, myself: &ActorRef<ShardMessage>, shard: &mut Shard, wait: Duration) {
        let at = Instant::now() + wait;
        if shard.draining.is_some() || shard.next_look.as_ref().is_some_and(|(next, _)| *next <= at) {
            return;
        }
        let myself = myself.clone();
        let waiting = tokio::spawn(async move {
            tokio::time::sleep_until(at).await;
            let _ = myself.cast(ShardMessage::Look);
        });
        shard.next_look = Some((at, AbortOnDrop(waiting.abort_handle())));
    }

    /// Asks entities that were not used for a while whether they can leave.
    fn sweep(&self, shard: &mut Shard) {
        let now = Instant::now();
        shard.swept = Some(now);
        let crowded = self.shared.room.is_crowded();
        for (address, entry) in &shard.entities {
            let idle_max =
                self.shared.kinds.get(address.kind()).map_or(Duration::ZERO, |kind| kind.idle_max());
            if crowded || now.duration_since(entry.touched) >= idle_max {
                let _ = entry.actor.cast(EntityMessage::Rest);
            }
        }
        shard.crashes.retain(|_, crash| now < crash.until + self.shared.config.crash_backoff_max);
    }

    /// Puts messages aside that nobody here understands, once it is clear that nobody will soon.
    fn bury_unhosted(&self, shard: &mut Shard) {
        let is_burying = shard.burying.as_ref().is_some_and(|task| !task.0.is_finished());
        if shard.draining.is_some() || is_burying {
            return;
        }
        let overdue = shard.unhosted.overdue(self.shared.config.unhosted_after);
        if !overdue.is_empty() {
            let burying = tokio::spawn(bury(self.shared.clone(), self.shard, self.epoch, overdue));
            shard.burying = Some(AbortOnDrop(burying.abort_handle()));
        }
    }

    fn back_off(&self, myself: &ActorRef<ShardMessage>, shard: &mut Shard, address: Address) {
        shard.wake_later(address.clone());
        let crash = shard.crashes.entry(address).or_insert(Crash { count: 0, until: Instant::now() });
        let factor = 2u32.saturating_pow(crash.count.min(16));
        let pause = (self.shared.config.crash_backoff * factor).min(self.shared.config.crash_backoff_max);
        crash.count += 1;
        crash.until = Instant::now() + pause;
        self.look_in(myself, shard, pause);
    }
}

impl Shard {
    fn is_looking(&self) -> bool {
        self.looking.as_ref().is_some_and(|task| !task.0.is_finished())
    }

    /// Lets an entity go, unless something is on its way to it. One that says so twice may have been let go the first
    /// time, and be back: what its former life says does not count.
    fn rested(&mut self, address: &Address, actor: ActorId, received: u64) {
        if let Some(entry) = self.entities.get(address)
            && entry.actor.get_id() == actor
            && entry.sent == received
        {
            metrics::counter!("cadre_host_passivations_total").increment(1);
            entry.actor.stop(None);
            self.by_actor.remove(&entry.actor.get_id());
            self.entities.remove(address);
        }
    }

    /// Remembers an entity whose effects may be pending. Past the bound all marks are read again.
    fn wake_later(&mut self, address: Address) {
        const ASLEEP_MAX: usize = 4_096;
        if self.asleep.len() < ASLEEP_MAX {
            self.asleep.insert(address);
        } else {
            self.bookmark.forget_marks();
        }
    }

    fn gone(&mut self, cell: &ActorCell) -> Option<Address> {
        let address = self.by_actor.remove(&cell.get_id())?;
        self.entities.remove(&address);
        Some(address)
    }

    fn finish_drain(&mut self, myself: &ActorRef<ShardMessage>) {
        if self.entities.is_empty()
            && self.quiet
            && let Some(drained) = self.draining.take()
        {
            let _ = drained.send(());
            myself.stop(None);
        }
    }
}

/// A command for an entity of this node, as it comes from a caller.
///
/// Handed over before this returns; the future waits for the answer.
pub(super) fn ask(
    shared: &Shared,
    shard: &ActorRef<ShardMessage>,
    address: Address,
    request: Request,
    trace: Option<String>,
) -> impl Future<Output = Response> + Send + use<> {
    let (reply, answer) = oneshot::channel();
    match shared.room.admit(address.tenant(), request.bytes()) {
        None => drop(reply.send(Response::Busy)),
        Some(admission) => {
            let reply = ReplyPort::new(reply, admission);
            // What cannot be handed over is dropped, and its port says so.
            let _ = shard.cast(ShardMessage::Command { address, request, reply, trace });
        }
    }
    answer.map(|answer| answer.expect("a reply port answers at the latest when it is dropped"))
}
