//! What a turn knows: what was chosen for its context, and how that was made to fit.

use super::declare::payloads;
use crate::fact::{
    failure::Failure,
    id::{StepId, TurnId},
    part::Ref,
};

payloads! {
    /// Something that is, or could be, in the context.
    ContextRef {
        /// Where it is.
        #[serde(rename = "ref")]
        reference: Ref,
        ..
        /// What it is: `memory`, `knowledge`, `source`, `policy`, `history`, …
        kind: Option<String>,
        /// How many tokens it takes.
        tokens: Option<u64>,
        /// Why it was chosen, left out or is missing.
        reason: Option<String>,
    }

    /// How much there is room for.
    ContextBudget {
        ..
        /// Tokens that there are.
        max_tokens: Option<u64>,
        /// Tokens that are taken.
        used_tokens: Option<u64>,
        /// Tokens kept for the answer.
        reserved_tokens: Option<u64>,
    }

    /// The context of a turn was chosen.
    ContextResolved {
        ..
        /// What is in it.
        selected: Vec<ContextRef>,
        /// What was left out.
        omitted: Vec<ContextRef>,
        /// What should be in it and was not found.
        missing: Vec<ContextRef>,
        /// How much room there was.
        budget: Option<ContextBudget>,
        /// What readers should know.
        warnings: Vec<String>,
    }

    /// The part of a thread that a summary stands for.
    CompactionBoundary {
        ..
        /// The first turn of it.
        first_turn_id: Option<TurnId>,
        /// The last turn of it.
        last_turn_id: Option<TurnId>,
        /// The last step of it, when the turn goes on.
        last_step_id: Option<StepId>,
        /// How many turns.
        turns: Option<u32>,
    }

    /// History is being summed up.
    ContextCompactionStarted {
        /// Why: `budget`, `command`, …
        trigger: String,
        ..
        /// What of it.
        boundary: Option<CompactionBoundary>,
        /// How many tokens it takes.
        tokens_before: Option<u64>,
        /// Why, in words.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
    }

    /// A summary stands for a part of the history.
    ContextCompactionCompleted {
        /// Which part.
        boundary: CompactionBoundary,
        ..
        /// The summary.
        summary: Option<String>,
        /// The summary, when it is kept elsewhere.
        summary_ref: Option<Ref>,
        /// How many tokens it took.
        tokens_before: Option<u64>,
        /// How many it takes now.
        tokens_after: Option<u64>,
        /// How long it took.
        duration_ms: Option<u64>,
    }

    /// History could not be summed up; it is as it was.
    ContextCompactionFailed {
        /// What happened.
        error: Failure,
        ..
        /// What was to be summed up.
        boundary: Option<CompactionBoundary>,
        /// Whether it is tried again.
        will_retry: bool,
    }
}
