//! What a run uses up: what it pays is told, and it stops when it has used what it may.

use super::{Ending, Run};
use crate::{
    exec::{Budget, Draft, Engine, Reached, label},
    fact::{
        Failure,
        payload::{CostRecorded, LimitChanged},
        scope::SessionScope,
    },
};

impl Run {
    /// What binds whatever this run starts, when that is less than the node's own bound.
    pub fn budget(&self, engine: &Engine) -> Option<Budget> {
        (self.budget != engine.budget).then_some(self.budget)
    }

    pub(super) fn over_budget(&mut self, draft: &mut Draft<'_>) -> Option<Ending> {
        let reached = self.used.over(&self.budget, self.request.is_some())?;
        let Reached { limit, unit, used, max } = reached;
        let message = format!("the budget of {max} {} is used up", unit.unwrap_or(limit));
        let changed = LimitChanged {
            limit: limit.to_owned(),
            state: "blocked".into(),
            used: Some(used),
            max: Some(max),
            unit: unit.map(str::to_owned),
            reason: Some(message.clone()),
            ..Default::default()
        };
        let around = self.ids();
        draft.tell_within(&around, SessionScope {}, changed);
        metrics::counter!("cadre_budgets_exceeded_total", "limit" => limit).increment(1);
        Some(Ending::failed(Failure::new("budget_exceeded", message)))
    }

    /// Says what the request of this moment has cost, before it is closed. What is free is not told, only counted.
    pub(super) fn tell_cost(&self, draft: &mut Draft<'_>) {
        let Some(used) = self.request.as_ref().map(|request| request.used) else { return };
        let tenant = label::of_tenant(draft.address.tenant());
        for (kind, tokens) in [("input", used.input_tokens), ("output", used.output_tokens)] {
            if tokens > 0 {
                metrics::counter!("cadre_tokens_total", "tenant" => tenant.clone(), "kind" => kind)
                    .increment(tokens);
            }
        }
        if used.cost_usd <= 0.0 {
            return;
        }
        let recorded = CostRecorded {
            cost_usd: used.cost_usd,
            model: self.model.clone(),
            provider: self.provider.clone(),
            usage: Some(used.usage()),
            turn_cost_usd: Some(self.used.cost_usd),
            session_cost_usd: None,
        };
        self.tell(draft, recorded);
        let micros = (used.cost_usd * 1e6).round() as u64;
        metrics::counter!("cadre_cost_microdollars_total", "tenant" => tenant).increment(micros);
    }
}
