//! The threads of an open store, and the order in which they end.

use std::{
    io,
    sync::{Arc, mpsc},
    thread::{self, Builder, JoinHandle, Scope},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

use super::{base::Base, checkpoint, committer::Committer, lock::FolderLock, log, shared::Shared};

/// How often readers that take too long are looked for.
const TICK: Duration = Duration::from_secs(1);
/// Every so many ticks a disk that was full is tried again; each try writes the whole reserve.
const RESERVE_EVERY: u64 = 5;

#[derive(Debug)]
pub(super) struct Threads {
    keeper: JoinHandle<()>,
}

impl Threads {
    /// Waits until the store is closed entirely.
    pub(super) fn join(self) {
        if self.keeper.join().is_err() {
            tracing::error!("a thread of the store panicked; the log has what was confirmed");
        }
    }
}

/// Starts everything under one thread that outlives the others and holds the lock until the last has ended.
pub(super) fn start(
    shared: &Arc<Shared>,
    committer: Committer,
    base: Base,
    lock: FolderLock,
) -> io::Result<(Threads, watch::Receiver<bool>)> {
    let (closed, is_closed) = watch::channel(false);
    let (started, is_started) = mpsc::sync_channel(1);
    let shared = Arc::clone(shared);
    let keeper = Builder::new().name("store-keeper".to_owned()).spawn(move || {
        // Dropped last, also when another thread panicked.
        let _end = (lock, OnDrop(|| _ = closed.send_replace(true)));
        thread::scope(|scope| {
            let spawned = spawn_others(scope, &shared, committer, base);
            let failed = spawned.is_err();
            started.send(spawned).ok();
            shared.room.restore_reserve();
            for second in 1u64.. {
                if failed || shared.closing.wait(TICK) {
                    break;
                }
                shared.readers.expire(Instant::now());
                shared.checkpoints.sweep(shared.readers.floor());
                if shared.room.is_short() && second % RESERVE_EVERY == 0 {
                    shared.room.restore_reserve();
                }
            }
        });
        shared.readers.close();
    })?;
    // A keeper that is gone without an answer has panicked, which joining it reports.
    is_started.recv().unwrap_or_else(|_| Err(io::Error::other("the store's first thread ended")))?;
    Ok((Threads { keeper }, is_closed))
}

fn spawn_others<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Arc<Shared>,
    committer: Committer,
    base: Base,
) -> io::Result<()> {
    shared.room.be_patient();
    let named = |name: &str| Builder::new().name(name.to_owned());
    // Ends the others when it ends, for whatever reason; created first so that a failed start does it too.
    let end = OnDrop(move || {
        shared.queue.abandon();
        shared.room.close();
        shared.checkpoints.close();
        shared.supply.close();
    });
    named("store-segments").spawn_scoped(scope, move || log::run_supply(&shared.supply))?;
    named("store-checkpoint").spawn_scoped(scope, move || {
        let _fail = OnDrop(move || {
            if thread::panicking() {
                shared.fail(Arc::new(io::Error::other("the checkpoint thread panicked")));
            }
        });
        checkpoint::run(shared, base);
    })?;
    named("store-committer").spawn_scoped(scope, move || {
        let _end = end;
        committer.run();
    })?;
    Ok(())
}

/// Runs something at the end of a scope.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
