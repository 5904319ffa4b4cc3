//! What turns know, and what of it was summed up.

use super::count;
use crate::{
    fact::{
        Fact, Ref,
        failure::Failure,
        id::{ThreadId, TurnId},
        payload::{ContextBudget, ContextRef, HistoryRollbackCompleted, Payload},
        status::Availability,
        time::Time,
    },
    view::{
        bound::{self, TEXT_MAX, cut, cut_some},
        declare::views,
    },
};

const REFS_MAX: usize = 4;
const WARNINGS_MAX: usize = 2;

views! {
    /// The last summary that stands for a part of the history.
    Compaction {
        /// When.
        at: Time,
        ..
        /// The first turn that it stands for.
        first_turn_id: Option<TurnId>,
        /// The last turn that it stands for.
        last_turn_id: Option<TurnId>,
        /// How many turns.
        turns: Option<u32>,
        /// The beginning of the summary.
        summary: Option<String>,
        /// Where it is.
        summary_ref: Option<Ref>,
        /// How many tokens it took.
        tokens_before: Option<u64>,
        /// How many it takes now.
        tokens_after: Option<u64>,
        /// Why there is no number of tokens.
        tokens_availability: Option<Availability>,
        /// In which thread.
        thread_id: Option<ThreadId>,
    }

    /// The context of the last turn that chose one, and compaction.
    #[derive(Default)]
    ContextBoundary {
        ..
        /// The turn for which it was chosen.
        turn_id: Option<TurnId>,
        /// When.
        at: Option<Time>,
        /// The first few references in it.
        selected_refs: Vec<Ref>,
        /// How many are in it.
        selected: u32,
        /// How many were left out.
        omitted: u32,
        /// How many should be in it and were not found.
        missing: u32,
        /// The first few of those.
        missing_refs: Vec<Ref>,
        /// How much room there was.
        budget: Option<ContextBudget>,
        /// What readers should know.
        warnings: Vec<String>,
        /// How often history was summed up.
        compactions: u32,
        /// Whether it is being summed up now.
        compacting: bool,
        /// The last summary.
        last_compaction: Option<Compaction>,
        /// Why the last attempt failed, when none succeeded after it.
        last_error: Option<Failure>,
    }
}

fn refs(given: &[ContextRef]) -> Vec<Ref> {
    given.iter().filter_map(|context| bound::reference(&context.reference)).take(REFS_MAX).collect()
}

impl ContextBoundary {
    /// A summary that stands for a turn that was taken back stands for nothing any more.
    pub(super) fn rolled_back(&mut self, rollback: &HistoryRollbackCompleted) {
        let gone =
            |last: &Compaction| last.last_turn_id.as_ref().is_some_and(|turn| rollback.turns.contains(turn));
        if rollback.error.is_none() && self.last_compaction.as_ref().is_some_and(gone) {
            self.last_compaction = None;
        }
    }

    pub(super) fn apply(&mut self, fact: &Fact) {
        match &fact.payload {
            Payload::ContextResolved(resolved) => {
                self.turn_id = fact.ids.turn().cloned();
                self.at = Some(bound::time(fact.at));
                self.selected_refs = refs(&resolved.selected);
                self.selected = resolved.selected.len() as u32;
                self.omitted = resolved.omitted.len() as u32;
                self.missing = resolved.missing.len() as u32;
                self.missing_refs = refs(&resolved.missing);
                self.budget.clone_from(&resolved.budget);
                let warnings = resolved.warnings.iter().take(WARNINGS_MAX);
                self.warnings = warnings.map(|warning| cut(warning, TEXT_MAX)).collect();
            }
            Payload::ContextCompactionStarted(_) => self.compacting = true,
            Payload::ContextCompactionCompleted(completed) => {
                self.compacting = false;
                self.last_error = None;
                count(&mut self.compactions);
                self.last_compaction = Some(Compaction {
                    at: bound::time(fact.at),
                    first_turn_id: completed.boundary.first_turn_id.clone(),
                    last_turn_id: completed.boundary.last_turn_id.clone(),
                    turns: completed.boundary.turns,
                    summary: cut_some(completed.summary.as_deref(), TEXT_MAX),
                    summary_ref: completed.summary_ref.as_ref().and_then(bound::reference),
                    tokens_before: completed.tokens_before,
                    tokens_after: completed.tokens_after,
                    tokens_availability: completed
                        .tokens_before
                        .or(completed.tokens_after)
                        .is_none()
                        .then_some(Availability::Unknown),
                    thread_id: fact.ids.thread().cloned(),
                });
            }
            Payload::ContextCompactionFailed(failed) => {
                self.compacting = failed.will_retry;
                self.last_error = Some(bound::failure(&failed.error));
            }
            _ => {}
        }
    }
}
