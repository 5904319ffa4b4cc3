//! A run stops when it has used up what it may.

use super::{Ending, Run};
use crate::{
    exec::Draft,
    fact::{Failure, payload::LimitChanged, scope::SessionScope},
};

impl Run {
    pub(super) fn over_budget(&mut self, draft: &mut Draft<'_>) -> Option<Ending> {
        let (limit, used, max) = self.used.over(&self.budget)?;
        let changed = LimitChanged {
            limit: limit.to_owned(),
            state: "blocked".into(),
            used: Some(used),
            max: Some(max),
            ..Default::default()
        };
        let around = self.ids();
        draft.tell_within(&around, SessionScope {}, changed);
        let message = format!("the budget of {max} {limit} is used up");
        Some(Ending::failed(Failure::new("budget_exceeded", message)))
    }
}
