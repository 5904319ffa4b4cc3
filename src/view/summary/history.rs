//! What of the history was loaded, put together again, or taken back.

use super::count;
use crate::{
    fact::{
        Fact,
        failure::Failure,
        id::{ThreadId, TurnId},
        payload::Payload,
        time::Time,
    },
    view::{
        bound::{self, TEXT_MAX, WORD_MAX, cut, cut_some},
        declare::views,
    },
};

views! {
    /// Turns that are being, or were, taken back.
    #[derive(Default)]
    Rollback {
        ..
        /// Whether it is over.
        completed: bool,
        /// When something was last heard of it.
        at: Option<Time>,
        /// In which thread.
        thread_id: Option<ThreadId>,
        /// The last turn that stays.
        to_turn_id: Option<TurnId>,
        /// How many turns go.
        turns: u32,
        /// Why.
        reason: Option<String>,
        /// How much could not be undone.
        irreversible: u32,
        /// Why it was not possible.
        error: Option<Failure>,
    }

    /// History.
    #[derive(Default)]
    History {
        ..
        /// How often a part was loaded.
        windows_loaded: u32,
        /// How often a thread was put together again.
        reconstructions: u32,
        /// From what, the last time.
        reconstructed_from: Option<String>,
        /// How much was not found then.
        reconstruction_missing: u32,
        /// How often turns were taken back.
        rollbacks: u32,
        /// The last time.
        last_rollback: Option<Rollback>,
        /// How often a snapshot stood for a part of the feed that is gone.
        repairs: u32,
        /// Why, the last time.
        last_repair_reason: Option<String>,
    }
}

impl History {
    pub(super) fn apply(&mut self, fact: &Fact) {
        match &fact.payload {
            Payload::HistoryWindowLoaded(_) => count(&mut self.windows_loaded),
            Payload::HistoryReconstructed(reconstructed) => {
                count(&mut self.reconstructions);
                self.reconstructed_from = Some(cut(&reconstructed.source, WORD_MAX));
                self.reconstruction_missing = reconstructed.missing.len() as u32;
            }
            Payload::HistoryRollbackStarted(started) => {
                self.last_rollback = Some(Rollback {
                    at: Some(bound::time(fact.at)),
                    thread_id: fact.ids.thread().cloned(),
                    to_turn_id: started.to_turn_id.clone(),
                    turns: started.turns.len() as u32,
                    reason: cut_some(started.reason.as_deref(), TEXT_MAX),
                    ..Rollback::default()
                });
            }
            Payload::HistoryRollbackCompleted(completed) => {
                if completed.error.is_none() {
                    count(&mut self.rollbacks);
                }
                let reason = self.last_rollback.take().and_then(|rollback| rollback.reason);
                self.last_rollback = Some(Rollback {
                    completed: true,
                    at: Some(bound::time(fact.at)),
                    thread_id: fact.ids.thread().cloned(),
                    to_turn_id: completed.to_turn_id.clone(),
                    turns: completed.turns.len() as u32,
                    reason,
                    irreversible: completed.irreversible.len() as u32,
                    error: completed.error.as_ref().map(bound::failure),
                });
            }
            Payload::SnapshotRepaired(repaired) => {
                count(&mut self.repairs);
                self.last_repair_reason = Some(cut(&repaired.reason, TEXT_MAX));
            }
            _ => {}
        }
    }
}
