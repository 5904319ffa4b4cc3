//! Giving shards up: which may move now, draining them, and leaving the cluster once none is left.

use futures::future::join_all;
use ractor::ActorRef;
use tokio::{sync::oneshot, time::Instant};

use super::{NodeActor, NodeMessage, NodeState, Running};
use crate::{
    address::ShardId,
    bus::Headers,
    host::{shard::ShardMessage, wire::placement_subject},
    placement::{View, leave, release},
    store::Attempt,
};

impl NodeActor {
    /// Of the shards that should move, those that may: nothing runs there that would be lost, or it has run for
    /// long enough. The others go on serving; nothing that must not be repeated begins there once a moment without
    /// any was seen, or half of the time is over.
    pub(super) fn may_move(&self, node: &mut NodeState, shards: Vec<ShardId>) -> Vec<ShardId> {
        let (running, leaving) = (&node.running, &mut node.leaving);
        leaving.retain(|shard, _| {
            let leaves = shards.contains(shard);
            if !leaves && let Some(stays) = running.get(shard) {
                stays.gate.open();
            }
            leaves
        });
        let grace = self.shared.config.effects_grace;
        let may = |shard: &ShardId| {
            let waited = leaving.entry(*shard).or_insert_with(Instant::now).elapsed();
            let Some(Running { gate, .. }) = running.get(shard) else { return true };
            if gate.is_empty() || waited >= grace / 2 {
                gate.close();
            }
            gate.is_empty() || waited >= grace
        };
        shards.into_iter().filter(may).collect()
    }

    /// Drains shards and gives them up.
    pub(super) async fn hand_over(&self, node: &mut NodeState, shards: Vec<ShardId>) {
        if shards.is_empty() {
            return;
        }
        let started = Instant::now();
        let drained = shards.iter().filter_map(|shard| {
            self.shared.routes.set(*shard, None);
            let Running { actor, .. } = node.running.remove(shard)?;
            let (done, drained) = oneshot::channel();
            actor.cast(ShardMessage::Drain(done)).ok()?;
            Some(async move {
                // What it waits for is on its way to the store, and so would be waited for in any case.
                let patience = self.shared.config.lease_ttl;
                if tokio::time::timeout(patience, drained).await.is_err() {
                    actor.kill();
                }
            })
        });
        join_all(drained.collect::<Vec<_>>()).await;
        metrics::counter!("cadre_placement_releases_total").increment(shards.len() as u64);
        self.give_back(shards).await;
        metrics::histogram!("cadre_placement_handover_seconds").record(started.elapsed());
    }

    /// Gives up shards that nobody here works on any more.
    pub(super) async fn give_back(&self, shards: Vec<ShardId>) {
        for shard in &shards {
            self.shared.fence.remove(*shard);
        }
        // Nothing that was begun for these shards may still be on its way when somebody else starts.
        self.shared.committer.barrier().await;
        let mut attempt = Attempt::idempotent();
        while let Err(error) = release(&self.shared.store, &self.shared.fence.me, &shards).await {
            if let Err(error) = attempt.again(error).await {
                // The lease still says that they are ours: the next tick starts them again, and tries again.
                tracing::warn!(%error, "cannot give shards back yet");
                return;
            }
        }
        self.announce().await;
    }

    pub(super) async fn announce(&self) {
        let subject = placement_subject(&self.shared.config.cluster);
        // A lost doorbell costs the others one heartbeat.
        let _ = self.shared.bus.publish(&subject, Headers::default(), Default::default()).await;
    }

    /// Whether there is nobody to hand shards to.
    pub(super) fn is_alone(&self, node: &NodeState, view: &View, now: Instant) -> bool {
        let (me, ttl) = (&self.shared.fence.me, self.shared.config.lease_ttl);
        !view.members.iter().any(|(name, record)| {
            *name != me.name && !record.draining && node.liveness.is_alive(name, record.incarnation, now, ttl)
        })
    }

    /// Leaves once there is nothing left to hand over.
    pub(super) async fn finish_drain(&self, myself: &ActorRef<NodeMessage>, node: &mut NodeState) {
        if node.draining.is_none() {
            return;
        }
        if !node.running.is_empty() {
            return;
        }
        if let Err(error) = leave(&self.shared.store, &self.shared.fence.me).await {
            tracing::warn!(%error, "cannot leave properly, the lease will expire");
        }
        self.announce().await;
        tracing::info!(member = %self.shared.fence.me, "left");
        node.left(myself);
    }

    /// A node that wants to leave does not wait for ever for a store that is gone: the others take over when its
    /// lease is over.
    pub(super) fn give_up_drain(&self, myself: &ActorRef<NodeMessage>, node: &mut NodeState) {
        let patience = self.shared.config.effects_grace + 2 * self.shared.config.lease_ttl;
        if node.draining.as_ref().is_some_and(|draining| draining.since.elapsed() > patience) {
            tracing::error!("leaves without handing over, because the store cannot be reached");
            node.left(myself);
        }
    }
}
