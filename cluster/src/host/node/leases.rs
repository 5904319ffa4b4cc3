//! Following the leases: starting the shards that the store says are ours, stopping those that it says are not.

use std::{collections::BTreeMap, sync::Arc};

use ractor::{Actor, ActorRef};

use super::{NodeActor, NodeMessage, NodeState, Running};
use crate::{
    address::ShardId,
    host::{
        gate::Gate,
        shard::{ShardActor, ShardMessage},
        status::Progress,
    },
    placement::{Claimed, Epoch, LeaseRecord, View, reclaim},
};

impl NodeActor {
    /// Starts what the store says is ours, stops what it says is not.
    pub(super) async fn follow_leases(
        &self,
        myself: &ActorRef<NodeMessage>,
        node: &mut NodeState,
        view: &View,
    ) {
        let me = &self.shared.fence.me;
        let mine: BTreeMap<ShardId, Epoch> = view
            .leases
            .values()
            .filter(|lease| lease.owner.as_ref() == Some(me))
            .map(|lease| (lease.shard, lease.epoch))
            .collect();
        let lost: Vec<_> = node
            .running
            .iter()
            .filter(|(shard, running)| mine.get(shard) != Some(&running.epoch))
            .map(|(shard, _)| *shard)
            .collect();
        for shard in lost {
            tracing::warn!(%shard, "lost");
            metrics::counter!("cadre_placement_losses_total").increment(1);
            self.stop_lost(node, shard);
        }
        for shard in mine.into_keys().filter(|shard| !node.running.contains_key(shard)).collect::<Vec<_>>() {
            let again = async { reclaim(&self.shared.store, me, &view.leases[&shard]).await };
            match self.patiently(again).await {
                Ok(claimed) => self.start_shards(myself, node, claimed).await,
                Err(error) => tracing::debug!(%shard, %error, "cannot start a shard of our own yet"),
            }
        }
    }

    pub(super) async fn start_shards(
        &self,
        myself: &ActorRef<NodeMessage>,
        node: &mut NodeState,
        Claimed { leases, fence }: Claimed,
    ) {
        for LeaseRecord { shard, epoch, .. } in leases {
            self.shared.fence.add(shard, epoch, fence);
            self.start_shard(myself, node, shard, epoch).await;
        }
    }

    async fn start_shard(
        &self,
        myself: &ActorRef<NodeMessage>,
        node: &mut NodeState,
        shard: ShardId,
        epoch: Epoch,
    ) {
        let (gate, progress) = (Gate::default(), Arc::new(Progress::new()));
        let actor = ShardActor {
            shard,
            epoch,
            shared: self.shared.clone(),
            gate: gate.clone(),
            progress: progress.clone(),
        };
        match Actor::spawn_linked(None, actor, (), myself.get_cell()).await {
            Ok((actor, _)) => {
                self.shared.routes.set(shard, Some(actor.clone()));
                node.running.insert(shard, Running { epoch, actor, gate, progress });
            }
            Err(error) => {
                tracing::error!(%shard, %error, "shard supervisor did not start");
                self.shared.fence.remove(shard);
            }
        }
    }

    /// Somebody else has it: nothing to save.
    pub(super) fn stop_lost(&self, node: &mut NodeState, shard: ShardId) {
        self.shared.routes.set(shard, None);
        self.shared.fence.remove(shard);
        if let Some(Running { actor, .. }) = node.running.remove(&shard) {
            // One that is gone took its entities with it.
            let _ = actor.cast(ShardMessage::Abandon);
        }
    }
}
