//! What was decided about permissions, in a turn or a session.

use super::{
    bound::{self, NAME_MAX, WORD_MAX, cut, cut_some},
    declare::views,
};
use crate::fact::{
    Fact,
    payload::{Decision, Payload},
    time::Time,
};

views! {
    /// What was decided about permissions.
    #[derive(Default)]
    PermissionState {
        ..
        /// How often it was decided at once.
        evaluated: u32,
        /// How often the answer was no, at once or by somebody.
        denied: u32,
        /// How often somebody was asked.
        requested: u32,
        /// How often somebody answered.
        resolved: u32,
        /// The last decision.
        last: Option<LastDecision>,
    }

    /// A decision about a permission.
    LastDecision {
        /// What.
        decision: Decision,
        /// By what.
        source: String,
        /// When.
        at: Time,
        ..
        /// The tool that it is about.
        tool: Option<String>,
    }
}

impl PermissionState {
    pub(super) fn apply(&mut self, fact: &Fact) {
        let (decision, source, tool) = match &fact.payload {
            Payload::PermissionEvaluated(evaluated) => {
                self.evaluated = self.evaluated.saturating_add(1);
                (evaluated.decision, &evaluated.source, &evaluated.tool)
            }
            Payload::PermissionResolved(resolved) => {
                self.resolved = self.resolved.saturating_add(1);
                (resolved.decision, &resolved.source, &resolved.tool)
            }
            Payload::PermissionRequested(_) => {
                self.requested = self.requested.saturating_add(1);
                return;
            }
            _ => return,
        };
        self.denied = self.denied.saturating_add(u32::from(decision == Decision::Deny));
        self.last = Some(LastDecision {
            decision,
            source: cut(source, WORD_MAX),
            at: bound::time(fact.at),
            tool: cut_some(tool.as_deref(), NAME_MAX),
        });
    }
}
