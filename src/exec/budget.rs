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
        self.input_tokens += used.input_tokens;
        self.output_tokens += used.output_tokens;
        self.cost_usd += used.cost_usd;
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

    /// The bound that is reached: its name, what was used and what was allowed.
    pub fn over(&self, budget: &Budget) -> Option<(&'static str, f64, f64)> {
        let tokens = self.input_tokens + self.output_tokens;
        if self.steps >= budget.steps {
            return Some(("steps", f64::from(self.steps), f64::from(budget.steps)));
        }
        if let Some(max) = budget.tokens.filter(|max| tokens >= *max) {
            return Some(("tokens", tokens as f64, max as f64));
        }
        let cost = budget.cost_usd.filter(|max| self.cost_usd > *max || *max <= 0.0);
        cost.map(|max| ("cost_usd", self.cost_usd, max))
    }
}
