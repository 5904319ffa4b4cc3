//! Whether something that a transaction read has changed since.

use std::sync::Arc;

use super::{overlay::Generation, view::View};
use crate::store::{CommitError, KeyRange};

/// The generations that remember recent writes.
#[derive(Debug)]
pub(super) struct History {
    generations: Vec<Arc<Generation>>,
    /// Every write after this version is in one of them.
    since: u64,
}

impl History {
    /// `retired`: the last generation that was checkpointed, kept for transactions that began before.
    pub(super) fn new(view: &View, retired: Option<Arc<Generation>>) -> Self {
        let mut generations: Vec<_> = retired.into_iter().collect();
        generations.extend(view.frozen.clone());
        generations.push(Arc::clone(&view.active));
        let since = generations.first().map_or(u64::MAX, |oldest| oldest.since);
        Self { generations, since }
    }

    /// Checks what was read at `version`.
    pub(super) fn check(&self, reads: &[KeyRange], version: u64) -> Result<(), CommitError> {
        if version < self.since {
            return Err(CommitError::TooOld);
        }
        let changed = |range| self.generations.iter().rev().any(|layer| layer.written_after(range, version));
        if reads.iter().any(changed) { Err(CommitError::Conflict) } else { Ok(()) }
    }
}
