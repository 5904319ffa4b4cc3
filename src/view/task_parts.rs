//! The parts of a task that there are several of: attempts, edges, what it delivered and what proves it.

use super::{
    attempt::AttemptView,
    bound::{self, push_last},
    relationship::Relationship,
    summary::ArtifactEntry,
    task::{Delivered, TaskView},
};
use crate::fact::{Fact, Ref, id::RunId, payload::TaskDependencyUpdated};

impl TaskView {
    /// Whether there is such an edge, as far as is told: of very many edges only some are.
    pub fn may_have(&self, kind: &str, target: &str) -> bool {
        self.relationships_omitted > 0 || self.relationships.iter().any(|edge| edge.is(kind, target))
    }

    pub(super) fn dependency(&mut self, fact: &Fact, updated: &TaskDependencyUpdated) {
        let at = bound::time(fact.at);
        let target = updated.target.as_str();
        let depends = updated.kind == "depends_on";
        if updated.removed {
            self.relationships.retain(|edge| !edge.is(&updated.kind, target));
            if depends {
                self.depends_on.retain(|task| *task != updated.target);
            }
            return;
        }
        if let Some(edge) = self.relationships.iter_mut().find(|edge| edge.is(&updated.kind, target)) {
            edge.change(at, updated);
        } else {
            let mut edge = Relationship::new(&updated.kind, target, at);
            edge.change(at, updated);
            self.related(edge);
        }
        let room = self.depends_on.len() < Self::DEPENDS_ON_MAX;
        if depends && room && !self.depends_on.contains(&updated.target) {
            self.depends_on.push(updated.target.clone());
        }
    }

    pub(super) fn attempt(&mut self, fact: &Fact) {
        let Some(run_id) = fact.ids.run() else { return };
        let index = self.attempts.iter().position(|attempt| attempt.run_id == *run_id);
        let index = index.unwrap_or_else(|| self.new_attempt(run_id));
        self.attempts[index].apply(fact);
    }

    fn new_attempt(&mut self, run_id: &RunId) -> usize {
        self.attempts_total = self.attempts_total.saturating_add(1);
        push_last(&mut self.attempts, AttemptView::new(run_id.clone()), Self::ATTEMPTS_MAX);
        self.attempts.len() - 1
    }

    pub(super) fn related(&mut self, edge: Relationship) {
        if self.relationships.iter().any(|known| known.is(&edge.kind, &edge.target_id)) {
            return;
        }
        if self.relationships.len() < Self::RELATIONSHIPS_MAX {
            self.relationships.push(edge);
        } else {
            self.relationships_omitted = self.relationships_omitted.saturating_add(1);
        }
    }

    pub(super) fn delivered(&mut self, reference: &Ref, artifact: Option<ArtifactEntry>) {
        self.artifacts.retain(|kept| kept.reference != *reference);
        self.artifacts_total = self.artifacts_total.saturating_add(1);
        if let Some(reference) = bound::reference(reference) {
            push_last(&mut self.artifacts, Delivered { reference, artifact }, Self::ARTIFACTS_MAX);
        }
    }

    /// All that was delivered is named. Each was told of by itself before, except in feeds from before that was so.
    pub(super) fn delivered_all(&mut self, artifacts: &[Ref]) {
        if self.artifacts_total as usize >= artifacts.len() {
            return;
        }
        for reference in artifacts {
            if !self.artifacts.iter().any(|kept| kept.reference == *reference) {
                self.delivered(reference, None);
            }
        }
    }

    pub(super) fn proved(&mut self, evidence: &Ref) {
        self.evidence_total = self.evidence_total.saturating_add(1);
        if let Some(evidence) = bound::reference(evidence)
            && !self.evidence_refs.contains(&evidence)
        {
            push_last(&mut self.evidence_refs, evidence, Self::EVIDENCE_MAX);
        }
    }
}
