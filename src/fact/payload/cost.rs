//! What things cost, and what stops when too much is used.

use super::{Usage, declare::payloads};
use crate::fact::time::Time;

payloads! {
    /// What something is thought to cost.
    CostEstimated {
        /// How much.
        cost_usd: f64,
        ..
        /// With which model.
        model: Option<String>,
        /// With what use.
        usage: Option<Usage>,
        /// How it was worked out.
        basis: Option<String>,
    }

    /// What something did cost.
    CostRecorded {
        /// How much.
        cost_usd: f64,
        ..
        /// With which model.
        model: Option<String>,
        /// Whose.
        provider: Option<String>,
        /// With what use.
        usage: Option<Usage>,
        /// How much the turn has cost up to now.
        turn_cost_usd: Option<f64>,
        /// How much the session has cost up to now.
        session_cost_usd: Option<f64>,
    }

    /// Somebody said: not so fast.
    RateLimitHit {
        /// Which limit.
        limit: String,
        ..
        /// Who said so: a provider, a tenant's limit, …
        source: Option<String>,
        /// How long to wait.
        retry_after_ms: Option<u64>,
        /// Whether it is tried again.
        will_retry: bool,
        /// With which model.
        model: Option<String>,
    }

    /// Little is left.
    QuotaLow {
        /// Of what.
        quota: String,
        ..
        /// How much is used.
        used: Option<f64>,
        /// How much there is.
        max: Option<f64>,
        /// Of what unit.
        unit: Option<String>,
        /// When it is counted anew.
        resets_at: Option<Time>,
    }

    /// Nothing is left, and something stopped for it.
    QuotaBlocked {
        /// Of what.
        quota: String,
        ..
        /// How much is used.
        used: Option<f64>,
        /// How much there is.
        max: Option<f64>,
        /// Of what unit.
        unit: Option<String>,
        /// When it is counted anew.
        resets_at: Option<Time>,
        /// What stopped.
        reason: Option<String>,
    }
}
