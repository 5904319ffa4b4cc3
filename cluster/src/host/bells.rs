//! Doorbells: telling others, after a commit, that there is something to read. All of them may be lost.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::mpsc;

use super::{
    shard::ShardMessage,
    shared::Routes,
    wire::{Bell, bell_subject},
};
use crate::{
    address::{Address, ShardId},
    bus::{Bus, Headers},
    codec,
    feed::{Cursor, doorbell_subject, hint},
};

/// What one group commit moved.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub feeds: BTreeMap<(String, String), Cursor>,
    pub inboxes: BTreeMap<ShardId, Vec<Address>>,
}

impl Moved {
    pub fn is_empty(&self) -> bool {
        self.feeds.is_empty() && self.inboxes.is_empty()
    }
}

/// Rings without making anybody wait.
#[derive(Debug, Clone)]
pub(super) struct Bells {
    queue: mpsc::Sender<Moved>,
    routes: Arc<Routes>,
}

impl Bells {
    /// As many group commits may wait to be announced; past that they go unannounced, and periodic looks find
    /// them.
    const QUEUE: usize = 256;

    /// The handle, and the task that does the ringing.
    pub fn new(
        cluster: String,
        bus: Bus,
        routes: Arc<Routes>,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (queue, mut rung) = mpsc::channel::<Moved>(Self::QUEUE);
        let ringing = async move {
            while let Some(moved) = rung.recv().await {
                ring(&cluster, &bus, moved).await;
            }
        };
        (Self { queue, routes }, ringing)
    }

    /// Announces what a commit moved: to shards of this node directly, to everybody else over the bus.
    pub fn announce(&self, mut moved: Moved) {
        moved.inboxes.retain(|shard, inboxes| {
            let Some(shard) = self.routes.get(*shard) else { return true };
            // An actor that is gone reads its inboxes when it is back.
            let _ = shard.cast(ShardMessage::Bells(std::mem::take(inboxes)));
            false
        });
        if !moved.is_empty() && self.queue.try_send(moved).is_err() {
            metrics::counter!("cadre_host_doorbells_dropped_total").increment(1);
        }
    }
}

async fn ring(cluster: &str, bus: &Bus, moved: Moved) {
    for (shard, mut inboxes) in moved.inboxes {
        if inboxes.len() > Bell::INBOXES_MAX {
            inboxes.clear();
        }
        let payload = codec::pack(&Bell { inboxes });
        // Lost doorbells cost latency, never messages.
        let _ = bus.publish(&bell_subject(cluster, shard), Headers::default(), payload).await;
    }
    for ((tenant, feed), cursor) in moved.feeds {
        let subject = doorbell_subject(cluster, &tenant, &feed);
        let _ = bus.publish(&subject, Headers::default(), hint(cursor)).await;
    }
}
