//! What was used and paid, and what limits say about it.

use std::collections::BTreeMap;

use super::count;
use crate::{
    fact::{
        Fact,
        payload::{Payload, Usage},
        time::Time,
    },
    view::{
        bound::{self, TEXT_MAX, WORD_MAX, cut, cut_some},
        declare::views,
    },
};

views! {
    /// How one limit or quota stands.
    LimitEntry {
        /// `ok`, `near`, `reached`, `low`, `blocked`, `rate_limited`, …
        state: String,
        /// When that was said.
        at: Time,
        ..
        /// How much is used.
        used: Option<f64>,
        /// How much there is.
        max: Option<f64>,
        /// Of what.
        unit: Option<String>,
        /// When it is counted anew.
        resets_at: Option<Time>,
        /// Why.
        reason: Option<String>,
    }

    /// Cost, use and limits.
    #[derive(Default)]
    Limits {
        ..
        /// What was paid, as far as facts say.
        cost_usd: Option<f64>,
        /// What the last estimate was.
        estimated_cost_usd: Option<f64>,
        /// What models used.
        usage: Option<Usage>,
        /// Limits and quotas by name.
        limits: BTreeMap<String, LimitEntry>,
        /// How many more there are than there is room to tell.
        limits_omitted: u32,
        /// How often somebody said: not so fast.
        rate_limit_hits: u32,
        /// How often something stopped because nothing was left.
        quota_blocks: u32,
    }
}

impl Limits {
    /// How many limits are told of.
    pub const LIMITS_MAX: usize = 8;

    pub(super) fn used(&mut self, usage: &Usage) {
        bound::add_usage(&mut self.usage, usage);
    }

    pub(super) fn apply(&mut self, fact: &Fact) {
        let at = bound::time(fact.at);
        let number = |value: Option<f64>| value.map(bound::number);
        let (name, entry) = match &fact.payload {
            Payload::CostEstimated(estimated) => {
                self.estimated_cost_usd = Some(bound::number(estimated.cost_usd));
                return;
            }
            Payload::CostRecorded(recorded) => {
                let sum = bound::number(self.cost_usd.unwrap_or(0.0) + bound::number(recorded.cost_usd));
                self.cost_usd = Some(recorded.session_cost_usd.map_or(sum, bound::number));
                return;
            }
            Payload::RateLimitHit(hit) => {
                count(&mut self.rate_limit_hits);
                let reason = cut_some(hit.source.as_deref(), TEXT_MAX);
                (&hit.limit, LimitEntry { reason, ..LimitEntry::new("rate_limited", at) })
            }
            Payload::QuotaLow(low) => (
                &low.quota,
                LimitEntry {
                    used: number(low.used),
                    max: number(low.max),
                    unit: cut_some(low.unit.as_deref(), WORD_MAX),
                    resets_at: low.resets_at.map(bound::time),
                    ..LimitEntry::new("low", at)
                },
            ),
            Payload::QuotaBlocked(blocked) => {
                count(&mut self.quota_blocks);
                let entry = LimitEntry {
                    used: number(blocked.used),
                    max: number(blocked.max),
                    unit: cut_some(blocked.unit.as_deref(), WORD_MAX),
                    resets_at: blocked.resets_at.map(bound::time),
                    reason: cut_some(blocked.reason.as_deref(), TEXT_MAX),
                    ..LimitEntry::new("blocked", at)
                };
                (&blocked.quota, entry)
            }
            Payload::LimitChanged(changed) => (
                &changed.limit,
                LimitEntry {
                    used: number(changed.used),
                    max: number(changed.max),
                    unit: cut_some(changed.unit.as_deref(), WORD_MAX),
                    resets_at: changed.resets_at.map(bound::time),
                    reason: cut_some(changed.reason.as_deref(), TEXT_MAX),
                    ..LimitEntry::new(&changed.state, at)
                },
            ),
            _ => return,
        };
        let name = cut(name, WORD_MAX);
        if self.limits.len() < Self::LIMITS_MAX || self.limits.contains_key(&name) {
            self.limits.insert(name, entry);
        } else {
            count(&mut self.limits_omitted);
        }
    }
}

impl LimitEntry {
    fn new(state: &str, at: Time) -> Self {
        let state = cut(state, WORD_MAX);
        Self { state, at, used: None, max: None, unit: None, resets_at: None, reason: None }
    }
}
