//! Which model, and why.

use super::declare::payloads;
use crate::fact::failure::Failure;

payloads! {
    /// A model that could be used.
    Candidate {
        /// Which.
        model: String,
        ..
        /// Whose.
        provider: Option<String>,
        /// How well it fits.
        score: Option<f64>,
        /// Whether it cannot be used after all.
        excluded: bool,
        /// Why it fits, or not.
        reason: Option<String>,
    }

    /// The models that could be used are known.
    RoutingCandidatesResolved {
        /// How many can be used.
        candidate_count: u32,
        ..
        /// All that were looked at.
        candidates: Vec<Candidate>,
        /// What kind of work it is.
        task_kind: Option<String>,
        /// What they must be able to do.
        capabilities: Vec<String>,
    }

    /// A model was chosen.
    RoutingDecided {
        /// Which.
        selected_model: String,
        /// By what: `request`, `agent`, `policy`, `score`, `explicit_default`, …
        decision_source: String,
        ..
        /// Whose.
        provider: Option<String>,
        /// Of how many.
        candidate_count: Option<u32>,
        /// What kind of work it is.
        task_kind: Option<String>,
        /// Why.
        reason: Option<String>,
        /// What it is thought to cost.
        estimated_cost_usd: Option<f64>,
    }

    /// Another model takes over.
    RoutingFallbackApplied {
        /// From which.
        from_model: String,
        /// To which.
        selected_model: String,
        ..
        /// Why.
        reason: Option<String>,
        /// What happened to the first.
        error: Option<Failure>,
        /// How often this turn fell back, this time included.
        fallbacks: Option<u32>,
    }

    /// There is no model that could be used.
    RoutingNotPossible {
        /// Why.
        reason: String,
        ..
        /// How many were looked at.
        candidate_count: Option<u32>,
        /// All that were looked at.
        candidates: Vec<Candidate>,
        /// What kind of work it is.
        task_kind: Option<String>,
        /// What none of them can do.
        capability_gap: Option<String>,
    }

    /// There is one model that could be used, so nothing was chosen.
    RoutingSingleCandidate {
        /// Which.
        selected_model: String,
        /// One.
        candidate_count: u32,
        /// By what: `explicit_default`, …
        decision_source: String,
        ..
        /// What kind of work it is.
        task_kind: Option<String>,
        /// What it cannot do; `none` when it can do all.
        capability_gap: Option<String>,
    }
}
