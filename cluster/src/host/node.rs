//! A node: joins the cluster, keeps its lease alive, and starts and stops its shards as placement says.

mod handover;
mod leases;

use std::{
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::FutureExt;
use ractor::{Actor, ActorProcessingErr, ActorRef, ActorStatus, SupervisionEvent};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Client, Kinds,
    bells::Bells,
    committer::{GroupLimits, committer},
    config::HostConfig,
    fence::Fence,
    gate::Gate,
    shard::{AbortOnDrop, ShardMessage},
    shared::{Routes, Shared},
    status::{NodeStatus, Progress},
    wire::placement_subject,
};
use crate::{
    address::ShardId,
    bus::Bus,
    clock::Clock,
    placement::{
        Action, BeatError, ClaimError, Epoch, JoinError, Liveness, MemberId, beat, claim, ensure_cluster,
        join, plan, read_view,
    },
    store::{CommitError, Store},
};

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It could not join.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Its root actor did not start.
    #[error("the node's root actor did not start: {reason}")]
    Spawn {
        /// Why.
        reason: String,
    },
}

/// A running node. Dropping it is like a crash: nothing is handed over.
pub struct Node {
    shared: Arc<Shared>,
    actor: ActorRef<NodeMessage>,
    _tasks: Vec<AbortOnDrop>,
}

#[derive(Debug)]
enum NodeMessage {
    Tick,
    /// Another life has our name.
    Superseded,
    Drain(oneshot::Sender<()>),
    Status(oneshot::Sender<NodeStatus>),
}

impl Node {
    /// Joins the cluster and starts serving. It claims its shards in the background: [`Self::status`] and
    /// [`NodeStatus::check`] say when it is ready, and calls before that wait. `seed` is where the node's randomness
    /// comes from, which entities make ids of: draw it, except in tests.
    pub async fn start(
        config: HostConfig,
        store: Store,
        bus: Bus,
        clock: Arc<dyn Clock>,
        kinds: Kinds,
        seed: u64,
    ) -> Result<Self, StartError> {
        ensure_cluster(&store, &config.cluster, config.shards, clock.now()).await?;
        let joining = Instant::now();
        let joined = join(&store, &config.node, config.takeover, config.lease_ttl, clock.now()).await?;
        tracing::info!(member = %joined.member, cluster = config.cluster, "joined");
        let feed_epoch = joined.feed_epoch;
        let fence = Arc::new(Fence::new(joined.member, joined.fence));
        let routes = Arc::new(Routes::default());
        let (bells, ringing) = Bells::new(config.cluster.clone(), bus.clone(), routes.clone());
        let limits = GroupLimits {
            steps: config.group_steps_max,
            bytes: config.group_bytes_max,
            in_flight: config.groups_in_flight_max,
        };
        let weights = config.weights.clone();
        let (committer, committing) =
            committer(store.clone(), fence.clone(), feed_epoch, limits, weights, bells);
        let shared = Arc::new(Shared::new(
            config, store, bus, clock, kinds, fence, committer, routes, feed_epoch, joining, seed,
        ));
        let (actor, _) = Actor::spawn(None, NodeActor { shared: shared.clone() }, ())
            .await
            .map_err(|error| StartError::Spawn { reason: error.to_string() })?;
        let tasks = vec![
            tokio::spawn(ringing),
            tokio::spawn(or_stop(committing, actor.clone())),
            tokio::spawn(keep_beating(shared.clone(), actor.clone())),
            tokio::spawn(keep_ticking(shared.clone(), actor.clone())),
        ];
        let tasks = tasks.into_iter().map(|task| AbortOnDrop(task.abort_handle())).collect();
        Ok(Self { shared, actor, _tasks: tasks })
    }

    /// A client that reaches this node's entities without the bus.
    pub fn client(&self) -> Client {
        Client::local(self.shared.clone())
    }

    /// Who this is.
    pub fn member(&self) -> &MemberId {
        &self.shared.fence.me
    }

    /// The epoch that new feed events get.
    pub fn feed_epoch(&self) -> u32 {
        self.shared.feed_epoch
    }

    /// How many inputs wait here.
    pub fn inputs_waiting(&self) -> usize {
        self.shared.room.inputs_waiting()
    }

    /// What it is doing; `None` when it has stopped.
    pub async fn status(&self) -> Option<NodeStatus> {
        let (answer, status) = oneshot::channel();
        self.actor.cast(NodeMessage::Status(answer)).ok()?;
        status.await.ok()
    }

    /// Hands every shard over and leaves the cluster. Comes before closing the store, which it needs; without one it
    /// gives up after [`HostConfig::effects_grace`] and two lease times.
    pub async fn drain(self) {
        let (done, drained) = oneshot::channel();
        if self.actor.cast(NodeMessage::Drain(done)).is_ok() {
            // A node whose actor died has nothing left to hand over.
            let _ = drained.await;
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.actor.kill();
    }
}

/// A node that cannot commit any more must not keep its leases: it stops, and the others take over.
async fn or_stop(committing: impl Future<Output = ()>, actor: ActorRef<NodeMessage>) {
    if AssertUnwindSafe(committing).catch_unwind().await.is_err() {
        metrics::counter!("cadre_host_committer_panics_total").increment(1);
        tracing::error!("the committer panicked, the node stops");
        actor.kill();
    }
}

/// Shows signs of life, whatever else the node is busy with, for as long as it is there.
async fn keep_beating(shared: Arc<Shared>, actor: ActorRef<NodeMessage>) {
    let (every, ttl) = (shared.config.heartbeat_every, shared.config.lease_ttl);
    loop {
        tokio::time::sleep(every).await;
        if matches!(actor.get_status(), ActorStatus::Stopping | ActorStatus::Stopped) {
            return;
        }
        let draining = shared.draining.load(Ordering::Relaxed);
        let begun = Instant::now();
        match tokio::time::timeout(ttl, beat(&shared.store, &shared.fence.me, draining)).await {
            Ok(Ok(())) => shared.beat_accepted(begun),
            Ok(Err(error @ BeatError::Superseded { .. })) => {
                tracing::error!(%error, "stopping");
                let _ = actor.cast(NodeMessage::Superseded);
                return;
            }
            Ok(Err(BeatError::Store(error))) => {
                metrics::counter!("cadre_placement_heartbeats_failed_total").increment(1);
                tracing::warn!(%error, "heartbeat failed");
            }
            Err(_) => {
                metrics::counter!("cadre_placement_heartbeats_failed_total").increment(1);
                tracing::warn!("heartbeat timed out");
            }
        }
    }
}

/// Has the node compare plan and facts: regularly, and when another member says that something changed.
async fn keep_ticking(shared: Arc<Shared>, actor: ActorRef<NodeMessage>) {
    let subject = placement_subject(&shared.config.cluster);
    let mut bell = None;
    loop {
        if !tick_soon(&shared, &actor) {
            return;
        }
        if bell.is_none() {
            bell = shared.bus.subscribe(&subject).await.ok();
        }
        let wait = tokio::time::sleep(shared.config.heartbeat_every);
        match &mut bell {
            None => wait.await,
            Some(subscription) => tokio::select! {
                biased;
                rung = subscription.next() => {
                    if rung.is_none() {
                        bell = None;
                    }
                }
                () = wait => {}
            },
        }
    }
}

/// Has the node tick once more, unless it is about to. Whether it still runs.
fn tick_soon(shared: &Shared, actor: &ActorRef<NodeMessage>) -> bool {
    shared.tick_waits.swap(true, Ordering::Relaxed) && !matches!(actor.get_status(), ActorStatus::Stopped)
        || actor.cast(NodeMessage::Tick).is_ok()
}

/// How an attempt to claim shards ended.
enum Claims {
    Settled,
    /// Somebody else changed something meanwhile.
    Contended,
}

struct NodeActor {
    shared: Arc<Shared>,
}

struct NodeState {
    liveness: Liveness,
    running: BTreeMap<ShardId, Running>,
    /// Since when a shard should move that waits for effects.
    leaving: BTreeMap<ShardId, Instant>,
    superseded: bool,
    draining: Option<Draining>,
}

/// Somebody waits for the node to leave.
struct Draining {
    since: Instant,
    done: oneshot::Sender<()>,
}

/// A shard that is served here.
struct Running {
    epoch: Epoch,
    actor: ActorRef<ShardMessage>,
    gate: Gate,
    progress: Arc<Progress>,
}

impl Actor for NodeActor {
    type Msg = NodeMessage;
    type State = NodeState;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<NodeMessage>, (): ()) -> Result<NodeState, ActorProcessingErr> {
        Ok(NodeState {
            liveness: Liveness::default(),
            running: BTreeMap::new(),
            leaving: BTreeMap::new(),
            superseded: false,
            draining: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<NodeMessage>,
        message: NodeMessage,
        node: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        if matches!(message, NodeMessage::Tick) {
            self.shared.tick_waits.store(false, Ordering::Relaxed);
        }
        match message {
            NodeMessage::Tick if node.superseded => {
                // Whoever has the name now has the shards, too.
                node.left(&myself);
            }
            NodeMessage::Tick => {
                self.tick_until_settled(&myself, node).await;
                self.finish_drain(&myself, node).await;
            }
            NodeMessage::Superseded => {
                node.superseded = true;
                for shard in node.running.keys().copied().collect::<Vec<_>>() {
                    self.stop_lost(node, shard);
                }
            }
            NodeMessage::Drain(done) => {
                self.shared.draining.store(true, Ordering::Relaxed);
                node.draining = Some(Draining { since: Instant::now(), done });
                // At once, so that the others see it with their next look.
                if let Err(error) = beat(&self.shared.store, &self.shared.fence.me, true).await {
                    tracing::warn!(%error, "cannot announce the drain yet");
                }
                self.announce().await;
                tick_soon(&self.shared, &myself);
            }
            NodeMessage::Status(answer) => {
                let _ = answer.send(NodeStatus {
                    member: self.shared.fence.me.clone(),
                    shards: node
                        .running
                        .iter()
                        .map(|(shard, running)| (*shard, running.progress.status(running.epoch)))
                        .collect(),
                    entities_live: self.shared.room.entities_live(),
                    inputs_waiting: self.shared.room.inputs_waiting(),
                    placement_seen: self.shared.placement_seen(),
                    beaten: self.shared.beaten(),
                    draining: node.draining.is_some(),
                    superseded: node.superseded,
                });
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<NodeMessage>,
        event: SupervisionEvent,
        node: &mut NodeState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(cell, error) = event {
            let died = node.running.iter().find(|(_, running)| running.actor.get_id() == cell.get_id());
            if let Some(shard) = died.map(|(shard, _)| *shard) {
                metrics::counter!("cadre_host_shard_crashes_total").increment(1);
                tracing::error!(%shard, %error, "shard supervisor crashed, its lease is given back");
                self.shared.routes.set(shard, None);
                node.running.remove(&shard);
                self.give_back(vec![shard]).await;
            }
        }
        Ok(())
    }
}

impl NodeActor {
    /// So many shards are handed over at a time: each waits only for the few drained with it.
    const RELEASES_AT_ONCE: usize = 16;

    /// Survivors of a dead member all take from it, and so conflict over its fence: all but one have to look again.
    /// Without waiting for the next tick, which would double the time that the shards stand still.
    async fn tick_until_settled(&self, myself: &ActorRef<NodeMessage>, node: &mut NodeState) {
        /// As many claimants get their turn within one tick.
        const TRIES_MAX: u32 = 4;
        /// Longer than a commit takes; drawn, so that the same two do not meet again.
        const PAUSE_MS: u64 = 10;
        for _ in 0..TRIES_MAX {
            match self.tick(myself, node).await {
                Ok(Claims::Settled) => return,
                Ok(Claims::Contended) => {
                    let pause = PAUSE_MS + self.shared.seed() % PAUSE_MS;
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot compare plan and facts");
                    return self.give_up_drain(myself, node);
                }
            }
        }
    }

    async fn tick(
        &self,
        myself: &ActorRef<NodeMessage>,
        node: &mut NodeState,
    ) -> Result<Claims, CommitError> {
        let mut outcome = Claims::Settled;
        let shared = &self.shared;
        let looked = Instant::now();
        let view = self.patiently(async { read_view(&shared.store.begin()).await }).await?;
        let (now, ttl) = (Instant::now(), shared.config.lease_ttl);
        let members = view.members.iter().map(|(name, record)| (name.as_str(), record));
        node.liveness.observe(members, now, ttl);
        self.follow_leases(myself, node, &view).await;
        shared.leases_followed(looked);
        let actions = plan(&view, &shared.fence.me, &node.liveness, shared.config.shards, now, ttl);
        let (claims, releases): (Vec<_>, Vec<_>) =
            actions.into_iter().partition(|action| matches!(action, Action::Claim { .. }));
        if !claims.is_empty() && node.draining.is_none() {
            let claiming = async { claim(&shared.store, &shared.fence.me, &claims, &view).await };
            match self.patiently(claiming).await {
                Ok(claimed) => {
                    metrics::counter!("cadre_placement_claims_total").increment(claimed.leases.len() as u64);
                    self.start_shards(myself, node, claimed).await;
                }
                Err(ClaimError::Changed { shard }) => {
                    tracing::debug!(%shard, "somebody was faster");
                    outcome = Claims::Contended;
                }
                Err(ClaimError::Store(error)) => {
                    tracing::debug!(%error, "claim did not commit");
                    if matches!(error, CommitError::Conflict) {
                        outcome = Claims::Contended;
                    }
                }
            }
        }
        let shards: Vec<_> = releases
            .into_iter()
            .filter_map(|action| match action {
                Action::Release { shard } => Some(shard),
                Action::Claim { .. } => None,
            })
            .collect();
        // Nobody takes the shards of the last one, which gives them up all the same.
        let is_last = node.draining.is_some() && self.is_alone(node, &view, now);
        let shards = if is_last { node.running.keys().copied().collect() } else { shards };
        let shards = self.may_move(node, shards);
        if let Some(some) = shards.chunks(Self::RELEASES_AT_ONCE).next() {
            self.hand_over(node, some.to_vec()).await;
            // The rest follows at once.
            tick_soon(shared, myself);
        }
        let shards = node.running.values().map(|running| running.progress.status(running.epoch));
        let (mut inboxes, mut oldest) = (0, Duration::ZERO);
        for shard in shards {
            inboxes += shard.inboxes;
            oldest = oldest.max(shard.oldest.map_or(Duration::ZERO, |waiting| waiting.waited));
        }
        metrics::gauge!("cadre_host_inboxes_waiting").set(inboxes as f64);
        metrics::gauge!("cadre_host_oldest_input_seconds").set(oldest.as_secs_f64());
        metrics::gauge!("cadre_placement_shards_owned").set(node.running.len() as f64);
        metrics::gauge!("cadre_host_entities_live").set(shared.room.entities_live() as f64);
        metrics::gauge!("cadre_host_inputs_waiting").set(shared.room.inputs_waiting() as f64);
        metrics::gauge!("cadre_host_inputs_waiting_bytes").set(shared.room.inputs_waiting_bytes() as f64);
        Ok(outcome)
    }

    /// Waits for the store no longer than a lease time. Only ever around a single operation on the store: what
    /// follows from its answer must not be left half done.
    async fn patiently<T, F: From<CommitError>>(
        &self,
        work: impl Future<Output = Result<T, F>>,
    ) -> Result<T, F> {
        match tokio::time::timeout(self.shared.config.lease_ttl, work).await {
            Ok(result) => result,
            Err(_) => Err(CommitError::Unavailable { reason: "no answer within a lease time".into() }.into()),
        }
    }
}

impl NodeState {
    /// Tells whoever waits for the node to leave that it has, if somebody does.
    fn left(&mut self, myself: &ActorRef<NodeMessage>) {
        if let Some(Draining { done, .. }) = self.draining.take() {
            let _ = done.send(());
            myself.stop(None);
        }
    }
}
