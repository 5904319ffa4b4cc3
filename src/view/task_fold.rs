//! What each fact does to its task.

use super::{
    bound::{self, NAME_MAX, TEXT_MAX, WORD_MAX, cut, cut_some, push_last, set, set_text},
    relationship::Relationship,
    summary::ArtifactEntry,
    task::{Progress, TaskView},
    turn::TurnView,
};
use crate::fact::{
    Fact, Ref,
    failure::Failure,
    payload::{Object, Payload, TaskCreated, TaskProgress, TaskUpdated},
    status::TaskStatus,
};

const OBJECT_MAX: usize = 2048;
const METADATA_MAX: usize = 4096;
const CRITERIA_MAX: usize = 16;
const CRITERION_MAX: usize = 256;
const COUNTERS_MAX: usize = 16;
const OUTPUT_REFS_MAX: usize = 4;

fn criteria(given: &[Object]) -> Vec<Object> {
    given.iter().take(CRITERIA_MAX).map(|criterion| bound::object(criterion, CRITERION_MAX)).collect()
}

impl TaskView {
    /// Takes in a fact of this task.
    pub fn apply(&mut self, fact: &Fact) {
        let at = bound::time(fact.at);
        self.updated_at = self.updated_at.max(Some(at));
        // A delegation is about the other task.
        if !matches!(fact.payload, Payload::TaskDelegated(_)) {
            set(&mut self.task_id, fact.ids.task());
        }
        set(&mut self.parent_task_id, fact.ids.parent_task());
        set(&mut self.root_task_id, fact.ids.root_task());
        match &fact.payload {
            Payload::TaskCreated(created) => self.created(fact, created),
            Payload::TaskAccepted(to) => self.stands(fact, to.status, to.reason.as_deref()),
            Payload::TaskQueued(to) => self.stands(fact, to.status, to.reason.as_deref()),
            Payload::TaskStarted(to) => {
                set_text(&mut self.agent, to.agent.as_deref(), NAME_MAX);
                self.stands(fact, to.status, None);
            }
            Payload::TaskUpdated(updated) => self.updated(fact, updated),
            Payload::TaskProgress(progress) => self.progress(fact, progress),
            Payload::TaskWaiting(to) => {
                self.stands(fact, to.status, to.reason.as_deref().or(to.resource.as_deref()));
                self.action_id.clone_from(&to.action_id);
            }
            Payload::TaskBlocked(to) => {
                self.stands(fact, to.status, Some(&to.reason));
                self.waiting_for = to.waiting_for.iter().take(Self::DEPENDS_ON_MAX).cloned().collect();
            }
            Payload::TaskPaused(to) => self.stands(fact, to.status, to.reason.as_deref()),
            Payload::TaskResumed(to) => self.stands(fact, to.status, to.reason.as_deref()),
            Payload::TaskRetrying(to) => {
                self.stands(fact, to.status, to.reason.as_deref());
                self.next_attempt_at = to.next_attempt_at.map(bound::time);
                self.failed(to.error.as_ref());
            }
            Payload::TaskCancelRequested(to) => self.stands(fact, to.status, to.reason.as_deref()),
            Payload::TaskCancelled(to) => {
                self.ended(fact, to.status, &to.reason, &to.summary, to.error.as_ref())
            }
            Payload::TaskTimedOut(to) => {
                self.ended(fact, to.status, &to.reason, &to.summary, to.error.as_ref())
            }
            Payload::TaskFailed(to) => {
                self.ended(fact, to.status, &to.reason, &to.summary, to.error.as_ref())
            }
            Payload::TaskLost(to) => self.ended(fact, to.status, &to.reason, &to.summary, to.error.as_ref()),
            Payload::TaskCompleted(to) => {
                self.ended(fact, to.status, &to.reason, &to.summary, None);
                self.last_error = None;
                self.acceptance_outcomes = to.acceptance.iter().take(CRITERIA_MAX).copied().collect();
                self.delivered_all(&to.artifacts);
                to.evidence_refs.iter().for_each(|evidence| self.proved(evidence));
                set(&mut self.delivery_state, bounded(to.delivery_state.as_ref()).as_ref());
                if !to.output_refs.is_empty() {
                    let progress = self.progress.get_or_insert_default();
                    to.output_refs.iter().filter_map(bound::output).for_each(|output| {
                        push_last(&mut progress.output_refs, output, OUTPUT_REFS_MAX);
                    });
                }
            }
            Payload::TaskArchived(to) => self.stands(fact, to.status, to.reason.as_deref()),
            Payload::TaskProfileResolved(resolved) => {
                self.task_profile = bound::object(&resolved.profile, OBJECT_MAX);
                set_text(&mut self.task_kind, resolved.task_kind.as_deref(), NAME_MAX);
            }
            Payload::TaskDelegated(delegated) => {
                Relationship::delegated(fact, delegated).into_iter().for_each(|edge| self.related(edge));
            }
            Payload::TaskDependencyUpdated(updated) => self.dependency(fact, updated),
            Payload::TaskAttemptStarted(_) => {
                self.next_attempt_at = None;
                self.current_run_id = fact.ids.run().cloned();
                self.attempt(fact);
            }
            Payload::TaskAttemptCompleted(_) | Payload::TaskAttemptFailed(_) => {
                self.attempt(fact);
                if let Payload::TaskAttemptFailed(failed) = &fact.payload {
                    self.failed(failed.error.as_ref());
                }
            }
            Payload::ArtifactChanged(changed) => {
                let entry = ArtifactEntry::new(fact, changed);
                let by_id = || fact.ids.artifact().map(|artifact| Ref::from(artifact.clone()));
                if let Some(reference) = changed.artifact_ref.clone().or_else(by_id) {
                    self.delivered(&reference, entry);
                }
            }
            Payload::EvidenceChanged(_) => {
                if let Some(evidence) = fact.ids.evidence() {
                    self.proved(&Ref::from(evidence.clone()));
                }
            }
            _ => {
                TurnView::fold(&mut self.turn, fact);
                if matches!(fact.payload, Payload::TurnSubmitted(_) | Payload::TurnStarted(_)) {
                    set(&mut self.thread_id, fact.ids.thread());
                    set(&mut self.turn_id, fact.ids.turn());
                }
            }
        }
    }

    fn created(&mut self, fact: &Fact, created: &TaskCreated) {
        let at = bound::time(fact.at);
        self.created_at = Some(at);
        self.status = created.status;
        set(&mut self.thread_id, fact.ids.thread());
        set(&mut self.turn_id, fact.ids.turn());
        self.objective = cut(&created.objective, Self::OBJECTIVE_MAX);
        self.title = cut_some(created.title.as_deref(), TEXT_MAX);
        self.task_kind = cut_some(created.task_kind.as_deref(), NAME_MAX);
        self.visibility = created.visibility;
        self.priority = cut_some(created.priority.as_deref(), WORD_MAX);
        self.assignee = bounded(created.assignee.as_ref());
        self.agent = cut_some(created.agent.as_deref(), NAME_MAX);
        self.constraints = bound::object(&created.constraints, OBJECT_MAX);
        self.task_profile = bound::object(&created.profile, OBJECT_MAX);
        self.acceptance = criteria(&created.acceptance);
        self.metadata = bound::object(&created.metadata, METADATA_MAX);
        self.depends_on = created.depends_on.iter().take(Self::DEPENDS_ON_MAX).cloned().collect();
        self.retry_policy = created.retry_policy;
        self.timeout_ms = created.timeout_ms;
        for task in &created.depends_on {
            self.related(Relationship::new("depends_on", task.as_str(), at));
        }
        if let Some(parent) = fact.ids.parent_task() {
            self.related(Relationship::new("parent", parent.as_str(), at));
        }
    }

    fn updated(&mut self, fact: &Fact, updated: &TaskUpdated) {
        if let Some(status) = updated.status {
            self.stands(fact, status, updated.reason.as_deref());
        }
        if let Some(objective) = &updated.objective {
            self.objective = cut(objective, Self::OBJECTIVE_MAX);
        }
        set_text(&mut self.title, updated.title.as_deref(), TEXT_MAX);
        set(&mut self.visibility, updated.visibility.as_ref());
        set_text(&mut self.priority, updated.priority.as_deref(), WORD_MAX);
        set(&mut self.assignee, bounded(updated.assignee.as_ref()).as_ref());
        set_text(&mut self.agent, updated.agent.as_deref(), NAME_MAX);
        if let Some(constraints) = &updated.constraints {
            self.constraints = bound::object(constraints, OBJECT_MAX);
        }
        if let Some(profile) = &updated.profile {
            self.task_profile = bound::object(profile, OBJECT_MAX);
        }
        if let Some(acceptance) = &updated.acceptance {
            self.acceptance = criteria(acceptance);
        }
        if let Some(metadata) = &updated.metadata {
            self.metadata = bound::object(metadata, METADATA_MAX);
        }
        set(&mut self.retry_policy, updated.retry_policy.as_ref());
        set(&mut self.timeout_ms, updated.timeout_ms.as_ref());
    }

    fn progress(&mut self, fact: &Fact, said: &TaskProgress) {
        if let Some(status) = said.status {
            self.stands(fact, status, None);
        }
        set(&mut self.delivery_state, bounded(said.delivery_state.as_ref()).as_ref());
        let progress: &mut Progress = self.progress.get_or_insert_default();
        progress.at = Some(bound::time(fact.at));
        set_text(&mut progress.phase, said.phase.as_deref(), NAME_MAX);
        set(&mut progress.percent, said.percent.map(bound::number).as_ref());
        set_text(&mut progress.summary, said.summary.as_deref(), TEXT_MAX);
        for (name, value) in &said.counters {
            let name = cut(name, WORD_MAX);
            if progress.counters.len() < COUNTERS_MAX || progress.counters.contains_key(&name) {
                progress.counters.insert(name, *value);
            }
        }
        for output in said.output_refs.iter().filter_map(bound::output) {
            push_last(&mut progress.output_refs, output, OUTPUT_REFS_MAX);
        }
    }

    fn stands(&mut self, fact: &Fact, status: TaskStatus, reason: Option<&str>) {
        self.status = status;
        self.status_reason = cut_some(reason, TEXT_MAX);
        self.waiting_for.clear();
        self.action_id = None;
        let at = bound::time(fact.at);
        if matches!(status, TaskStatus::Running | TaskStatus::Preparing) {
            self.started_at.get_or_insert(at);
        }
        if !status.is_terminal() {
            self.ended_at = None;
        } else if status != TaskStatus::Archived {
            self.ended_at = Some(at);
        }
    }

    fn ended(
        &mut self,
        fact: &Fact,
        status: TaskStatus,
        reason: &Option<String>,
        summary: &Option<String>,
        error: Option<&Failure>,
    ) {
        self.stands(fact, status, reason.as_deref());
        self.next_attempt_at = None;
        set_text(&mut self.summary, summary.as_deref(), TEXT_MAX);
        self.failed(error);
    }

    fn failed(&mut self, error: Option<&Failure>) {
        set(&mut self.last_error, error.map(bound::failure).as_ref());
    }
}

fn bounded(object: Option<&Object>) -> Option<Object> {
    object.map(|object| bound::object(object, OBJECT_MAX))
}
