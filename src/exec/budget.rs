//! What a run may use up.

use serde::{Deserialize, Serialize};

use crate::fact::payload::Usage;

/// The bounds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// How often the model may be asked.
    pub steps: u32,
    /// Tokens in and out, if bounded.
    pub tokens: Option<u64>,
    /// Money, if bounded.
    pub cost_usd: Option<f64>,
}

impl Default for Budget {
    fn default() -> Self {
        // A script of the largest size asks for a call in each of its 10,000 steps.
        Self { steps: 20_000, tokens: None, cost_usd: None }
    }
}

impl Budget {
    /// The lower bound of each two: nobody grants more than they have.
    #[must_use]
    pub fn within(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        Self {
            steps: self.steps.min(other.steps),
            tokens: self.tokens.into_iter().chain(other.tokens).min(),
            cost_usd: self.cost_usd.into_iter().chain(other.cost_usd).reduce(f64::min),
        }
    }

    /// The same for two that need not be there.
    pub fn lower(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.map_or(other, |one| Some(one.within(other)))
    }
}

/// What a run has used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// How often the model was asked.
    pub steps: u32,
    /// Tokens in.
    pub input_tokens: u64,
    /// Tokens out.
    pub output_tokens: u64,
    /// Money.
    pub cost_usd: f64,
}

impl Used {
    /// Adds what an answer cost.
    pub fn add(&mut self, used: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(used.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(used.output_tokens);
        // What a provider cannot say is not subtracted, and makes no sum unknown.
        if used.cost_usd.is_finite() && used.cost_usd > 0.0 {
            self.cost_usd += used.cost_usd;
        }
    }

    /// As facts say it.
    pub fn usage(&self) -> Usage {
        Usage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cost_usd: (self.cost_usd > 0.0).then_some(self.cost_usd),
            cached_tokens: None,
        }
    }

    /// The bound that is reached. A step that has begun (`is_asking`) is not another one: it may end, as far as tokens and
    /// money last.
    pub fn over(&self, budget: &Budget, is_asking: bool) -> Option<Reached> {
        let tokens = self.input_tokens.saturating_add(self.output_tokens);
        if !is_asking && self.steps >= budget.steps {
            let (used, max) = (f64::from(self.steps), f64::from(budget.steps));
            return Some(Reached { limit: "steps", unit: None, used, max });
        }
        if let Some(max) = budget.tokens.filter(|max| tokens >= *max) {
            return Some(Reached { limit: "tokens", unit: None, used: tokens as f64, max: max as f64 });
        }
        let max = budget.cost_usd.filter(|max| self.cost_usd >= *max)?;
        Some(Reached { limit: "cost", unit: Some("USD"), used: self.cost_usd, max })
    }
}

/// A bound that is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// Which.
    pub limit: &'static str,
    /// Of what it is.
    pub unit: Option<&'static str>,
    /// What was used.
    pub used: f64,
    /// What was allowed.
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_a_budget_can_only_be_lowered() {
        let host = Budget { steps: 10, tokens: Some(100), cost_usd: None };
        let asked = Budget { steps: u32::MAX, tokens: Some(1_000), cost_usd: Some(0.5) };
        let both = Budget { steps: 10, tokens: Some(100), cost_usd: Some(0.5) };
        assert_eq!((host.within(Some(asked)), asked.within(Some(host))), (both, both));
        assert_eq!(host.within(None), host);
        assert_eq!(Budget::lower(None, Some(asked)), Some(asked));
        assert_eq!(Budget::lower(Some(host), Some(asked)), Some(both));
        assert_eq!(Budget::lower(None, None), None);
    }

    #[test]
    fn a_bound_is_reached_when_nothing_is_left_of_it() {
        let budget = Budget { steps: 3, tokens: Some(10), cost_usd: Some(0.25) };
        let limit = |used: Used, is_asking| used.over(&budget, is_asking).map(|reached| reached.limit);
        let used = Used { steps: 2, input_tokens: 4, output_tokens: 5, cost_usd: 0.2 };
        assert_eq!(limit(used, false), None);
        assert_eq!(limit(Used { steps: 3, ..used }, false), Some("steps"));
        assert_eq!(limit(Used { steps: 3, ..used }, true), None, "the third step may end");
        assert_eq!(limit(Used { output_tokens: 6, ..used }, true), Some("tokens"));
        assert_eq!(limit(Used { cost_usd: 0.25, ..used }, true), Some("cost"));
    }

    #[test]
    fn what_a_provider_cannot_say_does_not_make_money() {
        let mut used = Used { cost_usd: 1.0, input_tokens: u64::MAX, ..Used::default() };
        for cost_usd in [f64::NAN, f64::INFINITY, -5.0] {
            used.add(&Used { cost_usd, input_tokens: 1, ..Used::default() });
        }
        assert_eq!((used.cost_usd, used.input_tokens), (1.0, u64::MAX));
        assert!(used.over(&Budget { tokens: Some(5), ..Budget::default() }, false).is_some());
    }
}
