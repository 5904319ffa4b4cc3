//! One node's side of the simulated store.

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{sync::OnceCell, time::Instant};

use super::{SimStore, history::Snapshot};
use crate::{
    sim::{Lifeline, Moment},
    store::{Commit, CommitError, Committed, Driver, Page, RangeRead, ReadError, Session, Version},
};

/// The store as one node reaches it.
pub(super) struct SimDriver {
    pub store: SimStore,
    pub lifeline: Lifeline,
}

impl Driver for SimDriver {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn session(&self) -> Box<dyn Session> {
        Box::new(SimSession {
            store: self.store.clone(),
            lifeline: self.lifeline.clone(),
            snapshot: OnceCell::new(),
        })
    }
}

struct SimSession {
    store: SimStore,
    lifeline: Lifeline,
    snapshot: OnceCell<Snapshot>,
}

impl SimSession {
    async fn snapshot(&self) -> Result<Snapshot, ReadError> {
        let take = || async {
            self.store.read(self.lifeline.name()).await?;
            Ok(self.store.history().snapshot(Instant::now()))
        };
        self.snapshot.get_or_try_init(take).await.copied()
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        let snapshot = self.snapshot().await?;
        self.store.read(self.lifeline.name()).await?;
        self.store.history().get(snapshot, Instant::now(), key)
    }

    async fn range(&self, read: &RangeRead) -> Result<Page, ReadError> {
        let snapshot = self.snapshot().await?;
        let plan = self.store.read(self.lifeline.name()).await?;
        let mut page = self.store.history().range(snapshot, Instant::now(), read)?;
        if plan.short && page.pairs.len() > 1 {
            page.pairs.truncate(self.store.draw_below(page.pairs.len()));
            page.more = true;
        }
        Ok(page)
    }
}

#[async_trait]
impl Session for SimSession {
    async fn read_version(&self) -> Result<Version, ReadError> {
        self.lifeline.pass(Moment::Before).await;
        let answer = self.snapshot().await;
        self.lifeline.pass(Moment::After).await;
        answer.map(|snapshot| snapshot.version)
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        self.lifeline.pass(Moment::Before).await;
        let answer = self.get(key).await;
        self.lifeline.pass(Moment::After).await;
        answer
    }

    async fn range(&self, read: &RangeRead) -> Result<Page, ReadError> {
        self.lifeline.pass(Moment::Before).await;
        let answer = self.range(read).await;
        self.lifeline.pass(Moment::After).await;
        answer
    }

    async fn commit(self: Box<Self>, commit: Commit) -> Result<Committed, CommitError> {
        self.lifeline.pass(Moment::Before).await;
        let answer = self.store.submit(self.lifeline.name(), self.snapshot.get().copied(), commit).await;
        self.lifeline.pass(Moment::After).await;
        answer.map(|stamp| Committed { stamp })
    }
}
