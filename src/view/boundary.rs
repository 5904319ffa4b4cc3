//! What later turns of a thread see of its past: the turns that were not taken back, the older ones as a summary.

use super::{bound, declare::views, thread::ThreadView, turn::TurnView};
use crate::fact::{
    Fact, Ref,
    id::TurnId,
    payload::{ContextCompactionCompleted, HistoryRollbackCompleted},
    time::Time,
};

views! {
    /// The turns up to which a summary stands for the history of a thread.
    Boundary {
        /// The last turn that it stands for.
        last_turn_id: TurnId,
        /// Since when.
        at: Time,
        ..
        /// For how many turns it stands.
        turns: Option<u32>,
        /// Where the summary is, when it is kept elsewhere.
        summary_ref: Option<Ref>,
        /// How long the summary is, when it is kept here.
        summary_bytes: u64,
    }

    /// What later turns of a thread see of its past.
    #[derive(Default)]
    ThreadContext {
        /// How many turns its history has. Those that were taken back are not among them, those that a summary stands for
        /// are.
        turns: u64,
        ..
        /// How many turns were taken back.
        rolled_back: u64,
        /// Up to where a summary stands for the history.
        boundary: Option<Boundary>,
        /// The summary, whole, where one thread is read.
        summary: Option<String>,
    }
}

impl ThreadContext {
    /// That of a thread.
    pub fn of(thread: &ThreadView) -> Self {
        Self {
            turns: thread.history_turns(),
            rolled_back: thread.rolled_back,
            boundary: thread.boundaries.last().cloned(),
            summary: None,
        }
    }
}

impl ThreadView {
    /// How many boundaries are remembered. After a rollback to before the last one the one before it stands again; those
    /// that are forgotten do not, and the turns themselves are seen.
    pub const BOUNDARIES_MAX: usize = 4;

    /// How many turns are in the history that later turns see.
    pub fn history_turns(&self) -> u64 {
        self.turn_count.saturating_sub(self.rolled_back)
    }

    /// Turns were taken back: they are not in the history any more, and neither is a summary that stands for one of them.
    pub(super) fn rolled_back(&mut self, rollback: &HistoryRollbackCompleted) {
        if rollback.error.is_some() || rollback.turns.is_empty() {
            return;
        }
        self.rolled_back = self.rolled_back.saturating_add(rollback.turns.len() as u64);
        self.boundaries.retain(|boundary| !rollback.turns.contains(&boundary.last_turn_id));
        if self.last_outcome.as_ref().is_some_and(|last| rollback.turns.contains(&last.turn_id)) {
            self.last_outcome = None;
        }
        self.reconsider();
    }

    /// A summary stands for what came up to a turn.
    pub(super) fn compacted(&mut self, fact: &Fact, completed: &ContextCompactionCompleted) {
        let Some(last_turn_id) = completed.boundary.last_turn_id.clone() else { return };
        self.boundaries.retain(|boundary| boundary.last_turn_id != last_turn_id);
        let boundary = Boundary {
            last_turn_id,
            at: bound::time(fact.at),
            turns: completed.boundary.turns,
            summary_ref: completed.summary_ref.as_ref().and_then(bound::reference),
            summary_bytes: completed.summary.as_ref().map_or(0, |summary| summary.len() as u64),
        };
        bound::push_last(&mut self.boundaries, boundary, Self::BOUNDARIES_MAX);
    }

    /// The oldest of several boundaries is not remembered any more; false when there are not several.
    pub(super) fn forget_boundary(&mut self) -> bool {
        let several = self.boundaries.len() > 1;
        if several {
            self.boundaries.remove(0);
        }
        several
    }
}

impl TurnView {
    /// It was taken back: it stays to be read, and later turns do not see it.
    pub fn roll_back(&mut self, at: crate::fact::Timestamp) {
        self.rolled_back_at = Some(bound::time(at));
    }
}
