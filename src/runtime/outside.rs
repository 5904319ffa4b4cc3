//! A runtime that hosts nothing: the control plane of a gateway, in front of nodes elsewhere.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cadre_cluster::{
    bus::{Bus, Headers, RequestError, Subject},
    clock::Clock,
    codec,
    host::{Client, StartError},
    keys,
    placement::{ClusterRecord, ensure_cluster},
    store::Store,
};
use rand::{SeedableRng, rngs::StdRng};

use super::{Runtime, Settings, Sweeper, equip, exports, reader::Readers};
use crate::{exec::Engine, signing::Signer, tenant::Directory};

/// How long store and bus may take to answer before they count as gone.
const ANSWER_MAX: Duration = Duration::from_secs(2);

impl Runtime {
    /// Reaches a cluster and hosts none of it: every command goes over the bus to the node that owns its entity, every
    /// read to the store. It claims nothing, so it comes and goes without anybody noticing. Of `settings.host` the
    /// cluster's name and number of shards count.
    pub async fn connect(
        settings: Settings,
        store: Store,
        bus: Bus,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Self, StartError> {
        Self::connect_with(settings, |_| {}, store, bus, clock, seed).await
    }

    /// The same with what the nodes of the cluster were given with [`Runtime::start_with`].
    pub async fn connect_with(
        settings: Settings,
        extend: impl FnOnce(&mut Engine),
        store: Store,
        bus: Bus,
        clock: Arc<dyn Clock>,
        seed: u64,
    ) -> Result<Self, StartError> {
        let (cluster, shards) = (&settings.host.cluster, settings.host.shards);
        let record = ensure_cluster(&store, cluster, shards, clock.now()).await?;
        let client = Client::remote(cluster, shards, bus.clone());
        let (engine, blobs) = equip(&settings, extend, &store, &clock);
        let sweeper =
            Sweeper::new((store.clone(), clock.clone()), client.clone(), blobs.clone(), settings.retention);
        Ok(Self {
            node: Arc::default(),
            hosts: false,
            client,
            // What expires is for the nodes to remove.
            sweeping: sweeper.idle(),
            feed_epoch: record.feed_epoch,
            signer: Signer::new(store.clone(), clock.clone()),
            tenants: Directory::new(store.clone(), clock.clone()),
            readers: Readers::default(),
            store,
            bus,
            clock,
            engine,
            blobs,
            settings: Arc::new(settings),
            exports: Arc::new(tokio::sync::Semaphore::new(exports::AT_ONCE_MAX)),
            entropy: Arc::new(std::sync::Mutex::new(StdRng::seed_from_u64(seed ^ 0x5eed))),
        })
    }

    /// Whether this process hosts entities.
    pub fn hosts(&self) -> bool {
        self.hosts
    }

    /// Whether store and bus answer, and are what they were.
    pub(super) async fn reaches_the_cluster(&self) -> Result<(), String> {
        let tx = self.store.begin();
        let stored = tokio::time::timeout(ANSWER_MAX, tx.snapshot_get(&keys::cluster())).await;
        let stored = stored.map_err(|_| "the store does not answer".to_owned())?;
        let stored = stored.map_err(|error| format!("the store cannot be read: {error}"))?;
        let stored = stored.ok_or("the store holds no cluster any more")?;
        let record: ClusterRecord = codec::decode(&stored).map_err(|error| error.to_string())?;
        if record.feed_epoch != self.feed_epoch {
            // Cursors of this process would be of the time before.
            return Err(
                "the cluster was restored from a backup since this process began: start it anew".into()
            );
        }
        // Nobody listens there, and a bus that is well says so at once.
        let subject = Subject::from_tokens(["cadre", "nobody"]);
        match self.bus.request(&subject, Headers::default(), Bytes::new(), ANSWER_MAX).await {
            Ok(_) | Err(RequestError::NoResponders { .. }) => Ok(()),
            Err(error) => Err(format!("the bus does not answer: {error}")),
        }
    }
}
