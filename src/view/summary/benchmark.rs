//! Benchmarks: which data, which trials, and what a comparison decided.

use super::count;
use crate::{
    fact::{
        Fact, Ref,
        id::TrialId,
        payload::{Benchmark, BenchmarkRole, EvidenceChanged, Payload, Reward, Trajectory},
    },
    view::{
        bound::{self, NAME_MAX, TEXT_MAX, WORD_MAX, cut_some, push_last, set_text},
        declare::views,
    },
};

views! {
    /// One trial.
    #[derive(Default)]
    BenchmarkTrial {
        ..
        /// Which.
        trial_id: Option<TrialId>,
        /// The task as the data calls it.
        task_id: Option<String>,
        /// The configuration.
        configuration_id: Option<String>,
        /// What that is in a comparison.
        role: Option<BenchmarkRole>,
        /// `running`, `completed`, `failed`, `timed_out`, …
        status: Option<String>,
        /// How good it was.
        reward: Option<f64>,
        /// Where that is told in full.
        reward_ref: Option<Ref>,
        /// What was done.
        trajectory_ref: Option<Ref>,
        /// What kind of failure it was.
        failure_category: Option<String>,
    }

    /// Benchmarks.
    #[derive(Default)]
    Benchmarks {
        ..
        /// The data.
        dataset_id: Option<String>,
        /// Which version of it.
        dataset_version: Option<String>,
        /// The configuration.
        configuration_id: Option<String>,
        /// How many trials began.
        trials_started: u32,
        /// How many ran to their end.
        trials_completed: u32,
        /// How many did not.
        trials_failed: u32,
        /// How many rewards were recorded.
        rewards: u32,
        /// The last trials.
        recent_trials: Vec<BenchmarkTrial>,
        /// How many comparisons were made.
        comparisons: u32,
        /// What the last one decided.
        decision: Option<String>,
        /// Why.
        decision_reason: Option<String>,
        /// How much better the candidate was.
        mean_reward_delta: Option<f64>,
    }
}

impl Benchmarks {
    /// How many trials are told of.
    pub const TRIALS_MAX: usize = 3;

    pub(super) fn apply(&mut self, fact: &Fact) {
        match &fact.payload {
            Payload::BenchmarkDatasetResolved(resolved) => self.about(&resolved.benchmark),
            Payload::BenchmarkConfigurationResolved(resolved) => self.about(&resolved.benchmark),
            Payload::BenchmarkTrialStarted(started) => {
                count(&mut self.trials_started);
                self.about(&started.benchmark);
                self.trial(&started.benchmark, |trial| trial.status = Some("running".into()));
            }
            Payload::BenchmarkTrialCompleted(completed) => {
                count(&mut self.trials_completed);
                self.trial(&completed.benchmark, |trial| {
                    set_text(&mut trial.status, Some(&completed.status), WORD_MAX);
                    trial.rewarded(completed.reward.as_ref());
                    trial.did(completed.trajectory.as_ref());
                });
            }
            Payload::BenchmarkTrialFailed(failed) => {
                count(&mut self.trials_failed);
                self.trial(&failed.benchmark, |trial| {
                    set_text(&mut trial.status, Some(&failed.status), WORD_MAX);
                    set_text(&mut trial.failure_category, failed.failure_category.as_deref(), WORD_MAX);
                    trial.did(failed.trajectory.as_ref());
                });
            }
            Payload::BenchmarkRewardRecorded(recorded) => {
                count(&mut self.rewards);
                self.trial(&recorded.benchmark, |trial| trial.rewarded(Some(&recorded.reward)));
            }
            Payload::BenchmarkComparisonCompleted(completed) => {
                count(&mut self.comparisons);
                let comparison = &completed.comparison;
                self.decision = cut_some(comparison.decision.as_deref(), WORD_MAX);
                self.decision_reason = cut_some(comparison.reason.as_deref(), TEXT_MAX);
                self.mean_reward_delta = comparison.mean_reward_delta.map(bound::number);
            }
            _ => {}
        }
    }

    /// A trial was packed: that says where its trajectory is.
    pub(super) fn packed(&mut self, changed: &EvidenceChanged) {
        let Some(name) = changed.scope.get("trialId").and_then(|name| name.as_str()) else { return };
        let is_it =
            |trial: &&mut BenchmarkTrial| trial.trial_id.as_ref().is_some_and(|id| id.as_str() == name);
        let Some(trial) = self.recent_trials.iter_mut().find(is_it) else { return };
        let reference = changed.trajectory_ref.as_ref().and_then(bound::reference);
        bound::set(&mut trial.trajectory_ref, reference.as_ref());
    }

    fn about(&mut self, benchmark: &Benchmark) {
        set_text(&mut self.dataset_id, benchmark.dataset_id.as_deref(), NAME_MAX);
        set_text(&mut self.dataset_version, benchmark.dataset_version.as_deref(), NAME_MAX);
        set_text(&mut self.configuration_id, benchmark.configuration_id.as_deref(), NAME_MAX);
    }

    fn trial(&mut self, benchmark: &Benchmark, change: impl FnOnce(&mut BenchmarkTrial)) {
        let Some(trial_id) = &benchmark.trial_id else { return };
        let known = self.recent_trials.iter().position(|trial| trial.trial_id.as_ref() == Some(trial_id));
        let mut trial = known.map(|index| self.recent_trials.remove(index)).unwrap_or_default();
        trial.trial_id = Some(trial_id.clone());
        set_text(&mut trial.task_id, benchmark.task_id.as_deref(), NAME_MAX);
        set_text(&mut trial.configuration_id, benchmark.configuration_id.as_deref(), NAME_MAX);
        bound::set(&mut trial.role, benchmark.role.as_ref());
        change(&mut trial);
        push_last(&mut self.recent_trials, trial, Self::TRIALS_MAX);
    }
}

impl BenchmarkTrial {
    fn rewarded(&mut self, reward: Option<&Reward>) {
        let Some(reward) = reward else { return };
        bound::set(&mut self.reward, reward.value.map(bound::number).as_ref());
        let reference = reward.details_ref.as_ref().or(reward.reference.as_ref());
        bound::set(&mut self.reward_ref, reference.and_then(bound::reference).as_ref());
        set_text(&mut self.failure_category, reward.failure_category.as_deref(), WORD_MAX);
    }

    fn did(&mut self, trajectory: Option<&Trajectory>) {
        let reference = trajectory.and_then(|trajectory| trajectory.reference.as_ref());
        bound::set(&mut self.trajectory_ref, reference.and_then(bound::reference).as_ref());
    }
}
