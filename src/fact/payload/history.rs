//! Old sessions: what was loaded of them, how they were put together again, and what was taken back.

use cadre_cluster::feed::Cursor;

use super::declare::{CursorText, payloads};
use crate::fact::{failure::Failure, id::TurnId};

payloads! {
    /// A part of the history was loaded.
    HistoryWindowLoaded {
        /// How many turns.
        turns: u32,
        ..
        /// Where it begins.
        #[schemars(with = "Option<CursorText>")]
        from: Option<Cursor>,
        /// Where it ends.
        #[schemars(with = "Option<CursorText>")]
        to: Option<Cursor>,
        /// Whether there is more before it.
        has_more: bool,
    }

    /// A thread was put together again from what is stored.
    HistoryReconstructed {
        /// From what: `snapshot`, `feed`, `summary`.
        source: String,
        ..
        /// How many turns.
        turns: Option<u32>,
        /// Up to where it is true.
        #[schemars(with = "Option<CursorText>")]
        upto: Option<Cursor>,
        /// What was not found.
        missing: Vec<String>,
    }

    /// Turns are being taken back.
    HistoryRollbackStarted {
        /// The last turn that stays.
        to_turn_id: Option<TurnId>,
        ..
        /// The turns that go.
        turns: Vec<TurnId>,
        /// Why.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
    }

    /// Turns were taken back. The feed still has them.
    HistoryRollbackCompleted {
        /// The last turn that stays.
        to_turn_id: Option<TurnId>,
        ..
        /// The turns that went.
        turns: Vec<TurnId>,
        /// What could not be undone.
        irreversible: Vec<String>,
        /// What happened, when it was not possible.
        error: Option<Failure>,
    }
}
