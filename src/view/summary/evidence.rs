//! Evidence, which others own.

use super::count;
use crate::{
    fact::{
        Fact, Ref,
        id::{EvidenceId, ThreadId, TurnId},
        payload::EvidenceChanged,
        time::Time,
    },
    view::{
        bound::{self, NAME_MAX, WORD_MAX, cut, cut_some, push_last},
        declare::views,
    },
};

views! {
    /// One piece of evidence.
    EvidenceEntry {
        /// Which.
        evidence_id: EvidenceId,
        /// When something was last heard of it.
        at: Time,
        ..
        /// How it stands.
        status: Option<String>,
        /// What it is.
        kind: Option<String>,
        /// The evidence.
        pack_ref: Option<Ref>,
        /// What replays it.
        replay_ref: Option<Ref>,
        /// What was said of it.
        review_ref: Option<Ref>,
        /// The thread that it is of.
        thread_id: Option<ThreadId>,
        /// The turn that it is of.
        turn_id: Option<TurnId>,
    }

    /// What a check found.
    Outcome {
        /// Which check.
        name: String,
        /// What.
        status: String,
        ..
        /// The thread that was checked.
        thread_id: Option<ThreadId>,
    }

    /// The evidence that changed last.
    #[derive(Default)]
    Evidence {
        ..
        /// How often evidence changed.
        changes: u32,
        /// The last pieces.
        recent: Vec<EvidenceEntry>,
        /// What the last checks found.
        verification_outcomes: Vec<Outcome>,
        /// How many notes for auditors there are.
        notes: u32,
        /// How often it was of the session as a whole, and so of each of its threads.
        session_wide: u32,
    }
}

impl Evidence {
    /// How many pieces are told of.
    pub const RECENT_MAX: usize = 4;
    /// How many checks are told of.
    pub const OUTCOMES_MAX: usize = 6;

    pub(super) fn changed(&mut self, fact: &Fact, changed: &EvidenceChanged) {
        count(&mut self.changes);
        if fact.ids.thread().is_none() {
            count(&mut self.session_wide);
        }
        self.notes = self.notes.saturating_add(changed.notes.len() as u32);
        for found in &changed.verification_outcomes {
            let outcome = Outcome {
                name: cut(&found.name, NAME_MAX),
                status: cut(&found.status, WORD_MAX),
                thread_id: fact.ids.thread().cloned(),
            };
            push_last(&mut self.verification_outcomes, outcome, Self::OUTCOMES_MAX);
        }
        let Some(evidence_id) = fact.ids.evidence() else { return };
        self.recent.retain(|kept| kept.evidence_id != *evidence_id);
        let entry = EvidenceEntry {
            evidence_id: evidence_id.clone(),
            at: bound::time(fact.at),
            status: cut_some(changed.status.as_deref(), WORD_MAX),
            kind: cut_some(changed.kind.as_deref(), WORD_MAX),
            pack_ref: changed.pack_ref.as_ref().and_then(bound::reference),
            replay_ref: changed.replay_ref.as_ref().and_then(bound::reference),
            review_ref: changed.review_ref.as_ref().and_then(bound::reference),
            thread_id: fact.ids.thread().cloned(),
            turn_id: fact.ids.turn().cloned(),
        };
        push_last(&mut self.recent, entry, Self::RECENT_MAX);
    }
}
