//! Segments: the next one is ready before it is needed, the old ones are used again.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use super::{
    super::{files, folder::Folder, manifest::Manifest},
    segment::{Segment, draft, set_aside},
};

/// What a supply needs to know to make segments.
#[derive(Debug)]
pub(in super::super) struct Mold {
    pub(in super::super) folder: Folder,
    pub(in super::super) manifest: Manifest,
    pub(in super::super) segment_bytes: u64,
    /// More old segments than this are deleted instead of kept.
    pub(in super::super) spares_max: usize,
    pub(in super::super) durable: bool,
}

/// Between the log, which uses segments up, and the thread that makes them.
#[derive(Debug)]
pub(in super::super) struct Supply {
    mold: Mold,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The sequence of the next segment to be made.
    sequence: u64,
    next: Option<Segment>,
    /// Why the next could not be made. Cleared by whoever asks again.
    failed: Option<io::Error>,
    /// Full segments and the last version in them.
    sealed: Vec<(PathBuf, u64)>,
    spares: Vec<PathBuf>,
    closed: bool,
}

impl Supply {
    /// `sequence`: that of the next segment. `sealed`: older segments that are still needed, and the last
    /// version in them. `spares`: files to use again.
    pub(in super::super) fn new(
        mold: Mold,
        sequence: u64,
        sealed: Vec<(PathBuf, u64)>,
        spares: Vec<PathBuf>,
    ) -> Self {
        let state = State { sequence, next: None, failed: None, sealed, spares, closed: false };
        Self { mold, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Makes the first segment after opening, small because somebody waits for it.
    pub(in super::super) fn first(&self) -> io::Result<Segment> {
        const FIRST_ZEROED_BYTES: u64 = 256 << 10;
        let mut state = self.state();
        let (old, sequence) = (state.spares.pop(), state.sequence);
        let zeroed = self.mold.segment_bytes.min(FIRST_ZEROED_BYTES);
        let made = self.mold.make(sequence, old.as_deref(), zeroed);
        match &made {
            Ok(_) => state.sequence += 1,
            Err(_) => state.spares.extend(self.mold.left_of(old, sequence)),
        }
        made
    }

    /// The next segment; waits while it is being made.
    pub(super) fn take(&self) -> io::Result<Segment> {
        let mut state = self.state();
        state.failed = None;
        self.changed.notify_all();
        loop {
            if let Some(next) = state.next.take() {
                self.changed.notify_all();
                return Ok(next);
            }
            if let Some(error) = state.failed.take() {
                return Err(error);
            }
            if state.closed {
                return Err(io::Error::other("the store is closing"));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the next segment can be had without waiting.
    pub(super) fn is_ready(&self) -> bool {
        self.state().next.is_some()
    }

    /// Hands over a segment that will not be written any more. `last`: the newest version in it.
    pub(super) fn seal(&self, segment: Segment, last: u64) {
        self.state().sealed.push((segment.path, last));
    }

    /// Everything up to `version` is in the engine: takes back the segments that hold nothing newer.
    pub(in super::super) fn release(&self, version: u64) {
        let mut state = self.state();
        let released =
            state.sealed.extract_if(.., |(_, last)| *last <= version).map(|(path, _)| set_aside(path));
        let released: Vec<_> = released.collect();
        state.spares.extend(released);
        // The supply may have failed for want of room, which there is now.
        state.failed = None;
        self.changed.notify_all();
    }

    pub(in super::super) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread behind a supply: makes the next segment whenever there is none, until the supply is closed.
pub(in super::super) fn run(supply: &Supply) {
    loop {
        let mut state = supply.state();
        while !state.closed && (state.next.is_some() || state.failed.is_some()) && !supply.has_surplus(&state)
        {
            state = supply.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return;
        }
        if supply.has_surplus(&state) {
            let surplus = state.spares.swap_remove(0);
            drop(state);
            // A leftover costs room, nothing else; the next opening finds it again.
            if let Err(error) = files::remove(&surplus) {
                tracing::warn!(path = %surplus.display(), %error, "cannot delete an old log segment");
            }
            continue;
        }
        let (old, sequence) = (state.spares.pop(), state.sequence);
        drop(state);
        let made = supply.mold.make(sequence, old.as_deref(), supply.mold.segment_bytes);
        let mut state = supply.state();
        match made {
            Ok(segment) => {
                state.sequence += 1;
                state.next = Some(segment);
            }
            Err(error) => {
                tracing::warn!(%error, "cannot prepare the next log segment");
                state.spares.extend(supply.mold.left_of(old, sequence));
                state.failed = Some(error);
            }
        }
        supply.changed.notify_all();
    }
}

impl Supply {
    fn has_surplus(&self, state: &State) -> bool {
        state.spares.len() > self.mold.spares_max
    }
}

impl Mold {
    fn make(&self, sequence: u64, old: Option<&Path>, zeroed: u64) -> io::Result<Segment> {
        let (log, store) = (self.folder.log(), self.manifest.store);
        let segment = Segment::prepare(&log, store, sequence, old, zeroed, self.durable)?;
        // Only once it is there can it be missed.
        Manifest { log: sequence, ..self.manifest }.replace(&self.folder)?;
        Ok(segment)
    }

    /// The file that a failed attempt would have made a segment of. Its name may be all that says how far the
    /// sequences have come, so the next attempt does not put another one in its place.
    fn left_of(&self, old: Option<PathBuf>, sequence: u64) -> Option<PathBuf> {
        let draft = draft(&self.folder.log(), sequence);
        [old?, draft].into_iter().find(|path| path.exists())
    }
}
