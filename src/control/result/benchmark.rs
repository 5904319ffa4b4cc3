//! Benchmarks.

use super::declare::results;
use crate::fact::id::{SessionId, TrialId};

results! {
    /// How a trial stands.
    TrialState {
        /// The trial.
        trial_id: TrialId,
        /// `running`, `completed`, `failed`, …
        status: String,
        ..
        /// The session in which it runs.
        session_id: Option<SessionId>,
        /// How good it was.
        value: Option<f64>,
    }

    /// A candidate beside its baseline.
    Compared {
        /// What follows: `promote`, `revert`, `inconclusive`, …
        decision: String,
        /// How many trials of the baseline counted.
        baseline: u32,
        /// How many trials of the candidate counted.
        candidate: u32,
        ..
        /// Why.
        reason: Option<String>,
        /// How much better the candidate is.
        mean_reward_delta: Option<f64>,
        /// How much more often it took too long.
        timeout_rate_delta: Option<f64>,
        /// How many trials have all their evidence.
        evidence_completeness_rate: Option<f64>,
        /// How many gates that must hold no longer do.
        p0_qc_gate_regression_count: Option<u32>,
    }
}
