//! A store in which something happens at the worst moment, and members who take from each other.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use tempfile::TempDir;

use crate::{
    address::ShardId,
    placement::{Action, LeaseRecord, MemberId, Takeover, claim, ensure_cluster, join, read_view},
    store::{
        Commit, CommitError, Committed, Driver, Page, RangeRead, ReadError, Session, Store, Transaction,
        Version,
        embedded::{Embedded, EmbeddedConfig},
    },
};

type Hook = Box<dyn FnOnce(Store) -> BoxFuture<'static, ()> + Send>;

/// An embedded store with hooks.
#[derive(Clone)]
pub struct Hooked {
    pub sound: Store,
    hooks: Arc<Mutex<Hooks>>,
    _folder: Arc<TempDir>,
}

#[derive(Default)]
struct Hooks {
    before_read: Option<Hook>,
    after_commit: Option<Hook>,
}

impl Hooked {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = EmbeddedConfig { reserve_bytes: 1 << 20, ..EmbeddedConfig::new(folder.path()) };
        let sound = Embedded::open(config).unwrap().store();
        Self { sound, hooks: Arc::default(), _folder: Arc::new(folder) }
    }

    pub fn store(&self) -> Store {
        Store::new(self.clone())
    }

    /// Before the next read, but after whoever reads has decided to.
    pub fn before_read(&self, hook: impl AsyncHook) {
        self.hooks.lock().unwrap().before_read = Some(hook.boxed());
    }

    /// After the next commit, which is not confirmed.
    pub fn after_unconfirmed_commit(&self, hook: impl AsyncHook) {
        self.hooks.lock().unwrap().after_commit = Some(hook.boxed());
    }

    /// A member that joins at once.
    pub async fn member(&self, name: &str) -> MemberId {
        ensure_cluster(&self.sound, "test", 8, Default::default()).await.unwrap();
        let joined = join(&self.sound, name, Takeover::AtOnce, Duration::ZERO, Default::default()).await;
        joined.unwrap().member
    }
}

/// Has a member claim a shard, whoever owns it.
pub async fn take(store: &Store, me: &MemberId, shard: ShardId) -> LeaseRecord {
    let view = read_view(&store.begin()).await.unwrap();
    let seen = view.leases.get(&shard).cloned();
    claim(store, me, &[Action::Claim { shard, seen }], &view).await.unwrap().leases.remove(0)
}

pub trait AsyncHook {
    fn boxed(self) -> Hook;
}

impl<F, O> AsyncHook for F
where
    F: FnOnce(Store) -> O + Send + 'static,
    O: Future<Output = ()> + Send + 'static,
{
    fn boxed(self) -> Hook {
        Box::new(move |store| Box::pin(self(store)))
    }
}

impl Driver for Hooked {
    fn name(&self) -> &'static str {
        "hooked"
    }

    fn session(&self) -> Box<dyn Session> {
        Box::new(HookedSession { tx: self.sound.begin(), hooked: self.clone() })
    }
}

struct HookedSession {
    tx: Transaction,
    hooked: Hooked,
}

impl HookedSession {
    async fn read_hook(&self) {
        let hook = self.hooked.hooks.lock().unwrap().before_read.take();
        if let Some(hook) = hook {
            hook(self.hooked.sound.clone()).await;
        }
    }
}

#[async_trait]
impl Session for HookedSession {
    async fn read_version(&self) -> Result<Version, ReadError> {
        self.tx.read_version().await
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        self.read_hook().await;
        self.tx.snapshot_get(key).await
    }

    async fn range(&self, read: &RangeRead) -> Result<Page, ReadError> {
        self.read_hook().await;
        self.tx.snapshot_range(read).await
    }

    async fn commit(self: Box<Self>, commit: Commit) -> Result<Committed, CommitError> {
        let Self { mut tx, hooked } = *self;
        for range in commit.reads {
            tx.add_read_conflict(range);
        }
        for mutation in commit.mutations {
            tx.write(mutation);
        }
        let committed = tx.commit().await?;
        let hook = hooked.hooks.lock().unwrap().after_commit.take();
        match hook {
            Some(hook) => {
                hook(hooked.sound.clone()).await;
                Err(CommitError::OutcomeUnknown)
            }
            None => Ok(committed),
        }
    }
}
