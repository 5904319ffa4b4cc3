//! The bounds in which things ran.

use super::count;
use crate::{
    fact::{Fact, id::TurnId, payload::Payload, time::Time},
    view::{
        bound::{self, NAME_MAX, TEXT_MAX, WORD_MAX, cut, cut_some, push_last},
        declare::views,
    },
};

views! {
    /// Something tried to leave its bounds.
    Violation {
        /// What it tried.
        operation: String,
        /// When.
        at: Time,
        ..
        /// On what.
        target: Option<String>,
        /// The tool or process.
        subject: Option<String>,
        /// Whether it was kept from it.
        blocked: bool,
        /// In which turn.
        turn_id: Option<TurnId>,
    }

    /// The last bounds, and what tried to leave them.
    #[derive(Default)]
    Sandbox {
        ..
        /// Which set of bounds.
        profile: Option<String>,
        /// Which network.
        network: Option<String>,
        /// What keeps it within.
        enforced_by: Option<String>,
        /// How often bounds were applied.
        applied: u32,
        /// How often something tried to leave them.
        violations: u32,
        /// The last times.
        recent_violations: Vec<Violation>,
    }
}

impl Sandbox {
    /// How many violations are told of.
    pub const VIOLATIONS_MAX: usize = 4;

    pub(super) fn apply(&mut self, fact: &Fact) {
        match &fact.payload {
            Payload::SandboxApplied(applied) => {
                count(&mut self.applied);
                self.profile = Some(cut(&applied.profile, NAME_MAX));
                self.network = cut_some(applied.network.as_deref(), WORD_MAX);
                self.enforced_by = cut_some(applied.enforced_by.as_deref(), WORD_MAX);
            }
            Payload::SandboxViolation(violation) => {
                count(&mut self.violations);
                let entry = Violation {
                    operation: cut(&violation.operation, WORD_MAX),
                    at: bound::time(fact.at),
                    target: cut_some(violation.target.as_deref(), TEXT_MAX),
                    subject: cut_some(violation.subject.as_deref(), NAME_MAX),
                    blocked: violation.blocked,
                    turn_id: fact.ids.turn().cloned(),
                };
                push_last(&mut self.recent_violations, entry, Self::VIOLATIONS_MAX);
            }
            _ => {}
        }
    }
}
