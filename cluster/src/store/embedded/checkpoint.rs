//! Checkpoints: the net effect of a full generation moves into the engine, in the background.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::{base::Base, overlay::Generation, shared::Shared, view::View};
use crate::store::CommitError;

/// Between the committer, which freezes generations, and the thread that writes them to the engine.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Frozen and not in the engine yet. At most one.
    frozen: Option<Arc<Generation>>,
    /// The one before it, for conflict checks.
    retired: Option<Arc<Generation>>,
    /// Those before that, which some reader may still hold. Freeing one takes long: no reader should be the
    /// last to let go of it.
    old: Vec<Arc<Generation>>,
    closed: bool,
}

impl Checkpoints {
    /// Hands over a generation that nobody writes to any more.
    pub(super) fn start(&self, frozen: Arc<Generation>) {
        let mut state = self.state();
        assert!(state.frozen.is_none(), "one generation is checkpointed at a time");
        state.frozen = Some(frozen);
        self.changed.notify_all();
    }

    pub(super) fn is_busy(&self) -> bool {
        self.state().frozen.is_some()
    }

    pub(super) fn retired(&self) -> Option<Arc<Generation>> {
        self.state().retired.clone()
    }

    /// Waits for the running checkpoint. An error when it will not end soon: the disk is full or the engine
    /// has failed.
    pub(super) fn wait(&self, shared: &Shared) -> Result<(), CommitError> {
        let mut state = self.state();
        while state.frozen.is_some() {
            if let Some(error) = shared.failure() {
                return Err(error);
            }
            if shared.room.is_wanted() {
                return Err(CommitError::Full { reason: "a checkpoint waits for disk space".to_owned() });
            }
            // Neither of those two notifies here.
            const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(20);
            (state, _) = self.changed.wait_timeout(state, LOOK_AGAIN).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Lets the thread end once it has nothing to do.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<Arc<Generation>> {
        let mut state = self.state();
        loop {
            if let Some(frozen) = &state.frozen {
                return Some(Arc::clone(frozen));
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self) {
        let mut state = self.state();
        let frozen = state.frozen.take();
        let retired = std::mem::replace(&mut state.retired, frozen);
        state.old.extend(retired);
        self.changed.notify_all();
    }

    /// Frees what nobody needs any more, when everybody reads at `floor` or later.
    pub(super) fn sweep(&self, floor: u64) {
        let mut state = self.state();
        let unneeded = state.retired.take_if(|retired| retired.newest() <= floor);
        state.old.extend(unneeded);
        let free: Vec<_> = state.old.extract_if(.., |old| Arc::strong_count(old) == 1).collect();
        drop(state);
        drop(free);
    }
}

/// The checkpoint thread. The engine closes when it ends.
pub(super) fn run(shared: &Shared, base: Base) {
    while let Some(frozen) = shared.checkpoints.next() {
        let start = Instant::now();
        let written = base.checkpoint(&frozen).and_then(|freed| Ok((freed, base.snapshot()?)));
        let (freed, snapshot) = match written {
            Ok(written) => written,
            Err(error) => {
                // Everything is still in the log, and will be after the next opening.
                tracing::error!(%error, source = ?std::error::Error::source(&error), "checkpoint failed");
                shared.fail(Arc::new(error));
                return;
            }
        };
        shared.readers.exchange(|view| View {
            active: Arc::clone(&view.active),
            frozen: None,
            base: snapshot,
        });
        shared.checkpoints.done();
        let (version, bytes) = (frozen.newest(), frozen.bytes());
        tracing::debug!(version, bytes, "checkpoint done");
        drop(frozen);
        shared.checkpoints.sweep(shared.readers.floor());
        shared.supply.release(version);
        shared.stats.checkpoint(start, bytes);
        shared.room.freed(freed);
        shared.room.restore_reserve();
    }
}
