//! One execution of a task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    bound::{self, NAME_MAX, TEXT_MAX, WORD_MAX, cut, cut_some, set},
    declare::views,
};
use crate::fact::{
    Fact, OutputRef,
    failure::Failure,
    id::{AttemptId, RunId},
    payload::{Payload, Worker},
    status::AttemptStatus,
    time::Time,
};

/// How an execution stands, in the words that the standard has for it. Where these are too few, `nativeStatus` says
/// more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// It waits.
    #[default]
    Queued,
    /// It is being made ready.
    Preparing,
    /// It is at work.
    Running,
    /// It reached the objective.
    Completed,
    /// It failed, took too long, or is lost.
    Failed,
    /// It was stopped.
    Cancelled,
}

views! {
    /// One execution of a task.
    AttemptView {
        /// Its id.
        run_id: RunId,
        /// How it stands.
        status: AttemptState,
        ..
        /// How it stands in Cadre's words, when those say more.
        native_status: Option<AttemptStatus>,
        /// Its id as an attempt, where that is counted apart.
        attempt_id: Option<AttemptId>,
        /// Which, from 1.
        attempt_count: u32,
        /// Who works on it.
        worker: Option<Worker>,
        /// Which agent does it.
        agent: Option<String>,
        /// When it began.
        started_at: Option<Time>,
        /// When it must have ended.
        deadline_at: Option<Time>,
        /// When it ended.
        ended_at: Option<Time>,
        /// The first of what it produced.
        output_refs: Vec<OutputRef>,
        /// What went wrong.
        last_error: Option<Failure>,
        /// What kind of failure it was.
        failure_category: Option<String>,
        /// Whether trying again may help.
        retryable: Option<bool>,
        /// The result in short.
        completion_summary: Option<String>,
    }
}

impl AttemptView {
    const OUTPUT_REFS_MAX: usize = 2;

    /// An execution of which nothing is known but its id.
    pub fn new(run_id: RunId) -> Self {
        Self {
            run_id,
            status: AttemptState::Queued,
            native_status: None,
            attempt_id: None,
            attempt_count: 0,
            worker: None,
            agent: None,
            started_at: None,
            deadline_at: None,
            ended_at: None,
            output_refs: Vec::new(),
            last_error: None,
            failure_category: None,
            retryable: None,
            completion_summary: None,
        }
    }

    /// Takes in a fact of this execution.
    pub fn apply(&mut self, fact: &Fact) {
        set(&mut self.attempt_id, fact.ids.attempt());
        match &fact.payload {
            Payload::TaskAttemptStarted(started) => {
                self.stands(started.status);
                self.attempt_count = started.attempt;
                self.started_at = Some(bound::time(fact.at));
                self.agent = cut_some(started.agent.as_deref(), NAME_MAX);
                self.deadline_at = started.deadline_at.map(bound::time);
                self.worker = started.worker.as_ref().map(|worker| Worker {
                    id: cut(&worker.id, NAME_MAX),
                    kind: cut_some(worker.kind.as_deref(), WORD_MAX),
                });
            }
            Payload::TaskAttemptCompleted(completed) => {
                self.stands(completed.status);
                self.attempt_count = completed.attempt;
                self.ended_at = Some(bound::time(fact.at));
                self.completion_summary = cut_some(completed.summary.as_deref(), TEXT_MAX);
                let outputs = completed.output_refs.iter().filter_map(bound::output);
                self.output_refs = outputs.take(Self::OUTPUT_REFS_MAX).collect();
            }
            Payload::TaskAttemptFailed(failed) => {
                self.stands(failed.status);
                self.attempt_count = failed.attempt.unwrap_or(self.attempt_count);
                self.ended_at = Some(bound::time(fact.at));
                self.last_error = failed.error.as_ref().map(bound::failure);
                self.failure_category = cut_some(failed.failure_category.as_deref(), WORD_MAX);
                self.retryable = Some(failed.retryable);
            }
            _ => {}
        }
    }

    fn stands(&mut self, status: AttemptStatus) {
        self.status = match status {
            AttemptStatus::Queued => AttemptState::Queued,
            AttemptStatus::Preparing => AttemptState::Preparing,
            AttemptStatus::Running => AttemptState::Running,
            AttemptStatus::Completed => AttemptState::Completed,
            AttemptStatus::Failed | AttemptStatus::TimedOut | AttemptStatus::Lost => AttemptState::Failed,
            AttemptStatus::Cancelled => AttemptState::Cancelled,
        };
        let says_more = matches!(status, AttemptStatus::TimedOut | AttemptStatus::Lost);
        self.native_status = says_more.then_some(status);
    }
}
