//! What a task has to do with others.

use super::{
    bound::{self, TEXT_MAX, WORD_MAX, cut, cut_some},
    declare::views,
};
use crate::fact::{
    Fact,
    payload::{TaskDelegated, TaskDependencyUpdated},
    time::Time,
};

views! {
    /// An edge from a task.
    Relationship {
        /// What it means: `depends_on`, `parent`, `delegated_to`, …
        kind: String,
        /// The other end.
        target_id: String,
        ..
        /// How the other end stands.
        status: Option<String>,
        /// Why there is an edge.
        reason: Option<String>,
        /// Since when.
        created_at: Option<Time>,
        /// When something was last heard of it.
        updated_at: Option<Time>,
    }
}

impl Relationship {
    /// A new edge.
    pub(super) fn new(kind: &str, target: &str, at: Time) -> Self {
        Self {
            kind: cut(kind, WORD_MAX),
            target_id: target.into(),
            status: None,
            reason: None,
            created_at: Some(at),
            updated_at: Some(at),
        }
    }

    /// Edges to whatever a task was handed on to.
    pub(super) fn delegated(fact: &Fact, delegated: &TaskDelegated) -> Vec<Self> {
        let child = delegated.child_task_id.as_ref().map(|id| id.as_str());
        let subagent = delegated.subagent_id.as_ref().map(|id| id.as_str());
        let job = delegated.job_id.as_ref().map(|id| id.as_str());
        let edge = |target: &str| Self {
            reason: cut_some(delegated.reason.as_deref(), TEXT_MAX),
            ..Self::new("delegated_to", target, bound::time(fact.at))
        };
        [child, subagent, job].into_iter().flatten().map(edge).collect()
    }

    /// Whether an edge changed.
    pub(super) fn is(&self, kind: &str, target: &str) -> bool {
        self.kind == cut(kind, WORD_MAX) && self.target_id == target
    }

    /// What changed of it.
    pub(super) fn change(&mut self, at: Time, updated: &TaskDependencyUpdated) {
        self.updated_at = Some(at);
        bound::set_text(&mut self.status, updated.status.as_deref(), WORD_MAX);
        bound::set_text(&mut self.reason, updated.reason.as_deref(), TEXT_MAX);
    }
}
