//! What was committed and is not in the engine yet, in memory, with every version that somebody may still
//! read.
//!
//! A [`Generation`] collects the writes between two checkpoints. Only the committer writes to it, at versions
//! that are not visible yet, so readers and the committer share it behind a lock that is held for one key or
//! one small chunk of keys at a time.

mod entry;
mod generation;
mod masks;

pub(super) use generation::{Generation, Lookup};
pub(super) use masks::Undo;
