//! What the threads and the sessions of one store share.

use std::{
    sync::{Arc, Condvar, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use super::{
    EmbeddedConfig, checkpoint::Checkpoints, log::Supply, queue::Queue, readers::Readers, room::Room,
    stats::Stats,
};
use crate::store::CommitError;

type Cause = Arc<dyn std::error::Error + Send + Sync>;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: EmbeddedConfig,
    pub(super) queue: Queue,
    pub(super) readers: Readers,
    pub(super) checkpoints: Checkpoints,
    pub(super) supply: Arc<Supply>,
    pub(super) room: Arc<Room>,
    #[cfg(test)]
    pub(super) disk: Arc<super::disk::Disk>,
    pub(super) stats: Arc<Stats>,
    pub(super) failed: OnceLock<Cause>,
    pub(super) closing: Closing,
}

impl Shared {
    /// Nothing more will commit. The first cause stays.
    pub(super) fn fail(&self, cause: Cause) {
        self.failed.set(cause).ok();
    }

    pub(super) fn failure(&self) -> Option<CommitError> {
        self.failed.get().map(|cause| CommitError::Failed(Arc::clone(cause)))
    }

    /// Begins to close: nothing more is taken in, and the threads end one after the other.
    pub(super) fn close(&self) {
        self.queue.close();
        self.closing.announce();
    }
}

/// Whether the store closes.
#[derive(Debug, Default)]
pub(super) struct Closing {
    announced: Mutex<bool>,
    changed: Condvar,
}

impl Closing {
    fn announce(&self) {
        *self.announced.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits so long at most. True when the store closes.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(announced, at_most, |announced| !*announced);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
