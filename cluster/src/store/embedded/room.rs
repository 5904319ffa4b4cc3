//! Disk space: the reserve, and whether somebody waits for room.

use std::{
    fs::{self, OpenOptions},
    io,
    path::PathBuf,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::folder::fill_with_zeros;

/// A file full of nothing, deleted when a checkpoint needs the space, made again when there is plenty.
#[derive(Debug)]
pub(super) struct Room {
    path: PathBuf,
    bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    has_reserve: bool,
    /// A checkpoint waits for room.
    wanting: bool,
    closed: bool,
}

impl Room {
    pub(super) fn new(path: PathBuf, bytes: u64) -> Self {
        Self { path, bytes, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Makes the reserve if it is not there. Without room for it the store works all the same.
    pub(super) fn restore_reserve(&self) {
        if self.bytes == 0 || self.state().has_reserve {
            return;
        }
        match self.make_reserve() {
            Ok(()) => self.state().has_reserve = true,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), bytes = self.bytes, %error, "cannot set disk space aside");
                fs::remove_file(&self.path).ok();
            }
        }
    }

    fn make_reserve(&self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|found| found.len() == self.bytes) {
            return Ok(());
        }
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&self.path)?;
        fill_with_zeros(&mut file, self.bytes)?;
        // Only then is it certain that the space was there.
        file.sync_data()
    }

    /// Frees the reserve. True when there was one.
    pub(super) fn give_up_reserve(&self) -> bool {
        let mut state = self.state();
        let had_one = std::mem::take(&mut state.has_reserve) && fs::remove_file(&self.path).is_ok();
        if had_one {
            tracing::warn!(bytes = self.bytes, "disk is full; gave up the reserve to finish a checkpoint");
        }
        had_one
    }

    /// Waits a moment for room. False when the store closes and waiting makes no more sense.
    pub(super) fn wait(&self, moment: Duration) -> bool {
        let mut state = self.state();
        state.wanting = true;
        if !state.closed {
            (state, _) = self.changed.wait_timeout(state, moment).unwrap_or_else(PoisonError::into_inner);
        }
        !state.closed
    }

    /// A write found room again.
    pub(super) fn found(&self) {
        self.state().wanting = false;
    }

    /// Whether a checkpoint waits for room.
    pub(super) fn is_wanted(&self) -> bool {
        self.state().wanting
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
