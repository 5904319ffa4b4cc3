//! Which model answers, in a turn or a session.

use super::{
    bound::{NAME_MAX, TEXT_MAX, WORD_MAX, cut, cut_some, set, set_text},
    declare::views,
};
use crate::fact::{Fact, payload::Payload};

views! {
    /// Which model answers, and why that one.
    #[derive(Default)]
    RoutingDecision {
        ..
        /// Which.
        selected_model: Option<String>,
        /// Whose.
        provider: Option<String>,
        /// Of how many.
        candidate_count: Option<u32>,
        /// Whether there was nothing to choose from.
        single_candidate: Option<bool>,
        /// By what it was chosen.
        decision_source: Option<String>,
        /// What kind of work it is.
        task_kind: Option<String>,
        /// How often another model took over.
        fallbacks: u32,
        /// Why there is none.
        not_possible: Option<String>,
    }
}

impl RoutingDecision {
    pub(super) fn concerns(fact: &Fact) -> bool {
        matches!(
            fact.payload,
            Payload::RoutingCandidatesResolved(_)
                | Payload::RoutingDecided(_)
                | Payload::RoutingFallbackApplied(_)
                | Payload::RoutingNotPossible(_)
                | Payload::RoutingSingleCandidate(_)
        )
    }

    pub(super) fn apply(&mut self, fact: &Fact) {
        match &fact.payload {
            Payload::RoutingCandidatesResolved(resolved) => {
                self.candidate_count = Some(resolved.candidate_count);
                self.single_candidate = Some(resolved.candidate_count == 1);
                set_text(&mut self.task_kind, resolved.task_kind.as_deref(), WORD_MAX);
            }
            Payload::RoutingDecided(decided) => {
                self.selected_model = Some(cut(&decided.selected_model, NAME_MAX));
                self.provider = cut_some(decided.provider.as_deref(), NAME_MAX);
                self.decision_source = Some(cut(&decided.decision_source, WORD_MAX));
                set(&mut self.candidate_count, decided.candidate_count.as_ref());
                set(&mut self.single_candidate, decided.candidate_count.map(|count| count == 1).as_ref());
                set_text(&mut self.task_kind, decided.task_kind.as_deref(), WORD_MAX);
                self.not_possible = None;
            }
            Payload::RoutingFallbackApplied(fallback) => {
                self.selected_model = Some(cut(&fallback.selected_model, NAME_MAX));
                self.provider = None;
                self.fallbacks = self.fallbacks.saturating_add(1);
            }
            Payload::RoutingNotPossible(not_possible) => {
                self.selected_model = None;
                self.provider = None;
                set(&mut self.candidate_count, not_possible.candidate_count.as_ref());
                self.not_possible = Some(cut(&not_possible.reason, TEXT_MAX));
            }
            Payload::RoutingSingleCandidate(single) => {
                self.selected_model = Some(cut(&single.selected_model, NAME_MAX));
                self.candidate_count = Some(single.candidate_count);
                self.single_candidate = Some(true);
                self.decision_source = Some(cut(&single.decision_source, WORD_MAX));
                set_text(&mut self.task_kind, single.task_kind.as_deref(), WORD_MAX);
                self.not_possible = None;
            }
            _ => {}
        }
    }
}
