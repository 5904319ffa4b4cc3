//! Disk space: the reserve, and whether somebody waits for room.
//!
//! The reserve is what gets a store out of a full disk: a checkpoint that finds no room takes it, and from then
//! on only clears are accepted, and writes for half of what they freed in the engine's file, so that what the
//! reserve gave is not filled up again. When the room for it is back, so is everything else.

use std::{
    fs, io,
    path::PathBuf,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    files::{self, fill_with_zeros},
    folder::is_full,
};

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
    /// There was no room for the reserve, or it was needed.
    short: bool,
    /// What may be written all the same.
    allowance: u64,
    /// A checkpoint waits for room.
    wanting: bool,
    impatient: bool,
}

impl Room {
    pub(super) fn new(path: PathBuf, bytes: u64) -> Self {
        let has_reserve = fs::metadata(&path).is_ok_and(|found| bytes > 0 && found.len() == bytes);
        // Whoever opens the store wants to know at once that there is no room.
        let state = State { has_reserve, impatient: true, ..State::default() };
        Self { path, bytes, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// From now on it makes sense to wait for room.
    pub(super) fn be_patient(&self) {
        self.state().impatient = false;
    }

    /// Makes the reserve if it is not there. Without room for it the store works all the same.
    pub(super) fn restore_reserve(&self) {
        if self.bytes == 0 || self.state().has_reserve {
            return;
        }
        match self.make_reserve() {
            Ok(()) => {
                let mut state = self.state();
                state.has_reserve = true;
                if std::mem::take(&mut state.short) {
                    tracing::info!(bytes = self.bytes, "disk has room again; the reserve is back");
                }
            }
            Err(error) => {
                files::remove(&self.path).ok();
                let mut state = self.state();
                let known = state.short;
                state.short |= is_full(&error);
                if !known {
                    let path = self.path.display();
                    tracing::warn!(%path, bytes = self.bytes, %error, "cannot set disk space aside");
                }
            }
        }
    }

    fn make_reserve(&self) -> io::Result<()> {
        let file = files::create(&self.path)?;
        fill_with_zeros(&file, self.bytes)?;
        // Only then is it certain that the space was there.
        files::sync_data(&file)
    }

    /// Frees the reserve. True when there was one.
    pub(super) fn give_up_reserve(&self) -> bool {
        let mut state = self.state();
        let had_one = std::mem::take(&mut state.has_reserve) && files::remove(&self.path).is_ok();
        state.short |= had_one;
        if had_one {
            tracing::warn!(bytes = self.bytes, "disk is full; gave up the reserve to finish a checkpoint");
        }
        had_one
    }

    /// Waits a moment for room. False when the store opens or closes and waiting makes no sense.
    pub(super) fn wait(&self, moment: Duration) -> bool {
        let mut state = self.state();
        state.wanting = true;
        if !state.impatient {
            (state, _) = self.changed.wait_timeout(state, moment).unwrap_or_else(PoisonError::into_inner);
        }
        !state.impatient
    }

    /// A write found room again.
    pub(super) fn found(&self) {
        self.state().wanting = false;
    }

    /// Whether the reserve is in use: only what makes room should be accepted.
    pub(super) fn is_short(&self) -> bool {
        self.state().short
    }

    /// A checkpoint removed so many bytes from the engine, which can use their room again.
    pub(super) fn freed(&self, bytes: u64) {
        let mut state = self.state();
        // Half: pages are copied before they are freed, and what is freed is in pieces.
        state.allowance = if state.short { state.allowance + bytes / 2 } else { 0 };
    }

    /// Whether so many bytes may be written while the reserve is in use.
    pub(super) fn allows(&self, bytes: u64) -> bool {
        let mut state = self.state();
        let left = state.allowance.checked_sub(bytes);
        state.allowance = left.unwrap_or(state.allowance);
        left.is_some()
    }

    /// Whether a checkpoint waits for room.
    pub(super) fn is_wanted(&self) -> bool {
        self.state().wanting
    }

    pub(super) fn close(&self) {
        self.state().impatient = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
