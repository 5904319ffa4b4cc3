//! What a run may use up, as callers say it.

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde_json::json;

use super::declare::arguments;
use crate::{
    control::{check, error::Error, read},
    exec::Budget,
    fact::payload::Object,
};

arguments! {
    /// What a run may use up itself. It can only be less than what the node allows, and whatever the run starts is bound
    /// by the same, each for itself. A run that reaches a bound does not ask its model again: it ends as failed with
    /// `budget_exceeded`. At least one bound must be there; how long it may take is a deadline, not a budget.
    #[derive(Copy)]
    RunBudget {
        ..
        /// How often it may ask its model, 1 to 1,000,000. Tries that failed count.
        steps: Option<u32>,
        /// How many tokens, in and out, 1 to 1,000,000,000,000.
        tokens: Option<u64>,
        /// How much it may cost, in US dollars, 0.000001 to 1,000,000.
        cost_usd: Option<f64>,
    }
}

/// How often a model may be asked.
const STEPS: RangeInclusive<u32> = 1..=1_000_000;
/// Tokens in and out.
const TOKENS: RangeInclusive<u64> = 1..=1_000_000_000_000;
/// US dollars.
const COST_USD: RangeInclusive<f64> = 0.000_001..=1_000_000.0;

impl RunBudget {
    /// Checks it where it stands: `field` is its path.
    pub(super) fn check(self, field: &str) -> Result<(), Error> {
        if self.steps.is_none() && self.tokens.is_none() && self.cost_usd.is_none() {
            return Err(Error::invalid(field, "must have at least one of steps, tokens, costUsd"));
        }
        check::range(&format!("{field}.steps"), self.steps, STEPS)?;
        check::range(&format!("{field}.tokens"), self.tokens, TOKENS)?;
        check::range(&format!("{field}.costUsd"), self.cost_usd, COST_USD)
    }

    /// The one among the constraints of a task.
    pub(super) fn check_in(constraints: &Object) -> Result<(), Error> {
        let Some(budget) = constraints.get(IN_CONSTRAINTS) else { return Ok(()) };
        let named = json!({ "constraints": { IN_CONSTRAINTS: budget } });
        let Named { constraints } = read::from_value(named)?;
        constraints.budget.map_or(Ok(()), |budget| budget.check("constraints.budget"))
    }

    /// What the constraints of a task say, once they are checked.
    pub fn of_constraints(constraints: &Object) -> Option<Budget> {
        Self::deserialize(constraints.get(IN_CONSTRAINTS)?).ok().map(Budget::from)
    }
}

/// Where a task's constraints have it.
const IN_CONSTRAINTS: &str = "budget";

/// The path by which errors name it.
#[derive(Deserialize)]
struct Named {
    constraints: Constraints,
}

#[derive(Deserialize)]
struct Constraints {
    budget: Option<RunBudget>,
}

impl From<RunBudget> for Budget {
    fn from(asked: RunBudget) -> Self {
        Self { steps: asked.steps.unwrap_or(u32::MAX), tokens: asked.tokens, cost_usd: asked.cost_usd }
    }
}
