//! A trial of a benchmark: what is remembered of it, what is measured, and the pack that is made of it.

use cadre_cluster::{clock::Timestamp, feed::Cursor};
use serde::{Deserialize, Serialize};

use super::{Checks, evidence::Costs};
use crate::{
    control::args::{RecordBenchmarkReward, StartBenchmarkTrial},
    entity::Named,
    fact::{
        Event, Id, Payload, Ref,
        id::{RunId, SessionId, TaskId, ThreadId, TrialId, TurnId},
        payload::{Benchmark, Comparison, Decision, Reward},
        scope::{AttemptScope, TrialScope},
        status::TurnStatus,
    },
};

/// A trial, as it is stored under `(TRIAL, id)`.
///
/// Commands name a trial by its id alone, so something has to say in which session its facts are; and a reward that is
/// recorded twice with two values has to be refused, also when two nodes are asked at once, which a transaction over
/// one record decides. Everything else of it is told in facts, made from this record alone, so that one that was not
/// told because a node died is told when the command comes again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Its id.
    pub id: TrialId,
    /// The session in which it runs.
    pub session: SessionId,
    /// A hash of what it was started with, to recognise the same request.
    pub fingerprint: u128,
    /// What it was started with.
    pub spec: Named<StartBenchmarkTrial>,
    /// When.
    pub started: Timestamp,
    /// The thread in which it runs, and where its facts begin, once they were told.
    pub told: Option<(ThreadId, Cursor)>,
    /// How it ended.
    pub result: Option<TrialResult>,
    /// What the last comparison that named it came to.
    #[serde(default)]
    pub comparison: Option<TrialComparison>,
}

/// What a comparison came to, as a trial remembers it. Which trials were compared is in the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialComparison {
    /// The report.
    pub reference: Ref,
    /// The decision, and what it rests on.
    pub comparison: Named<Comparison>,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// What was said of it.
    pub reward: Named<RecordBenchmarkReward>,
    /// When.
    pub ended: Timestamp,
    /// Who said so.
    pub by: String,
    /// `completed`, `failed`, `timed_out`, `cancelled`, `lost`.
    pub status: String,
    /// What went wrong; `none` when nothing did.
    pub failure_category: String,
    /// What was measured.
    pub measured: Named<Measured>,
    /// Where that was told.
    pub told: Option<Cursor>,
}

cadre_cluster::stored! { Trial: "benchmark trial" }

/// What of a trial is measured from its facts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Measured {
    /// How many facts.
    pub events: u64,
    /// How many turns of the session itself.
    pub turns: u64,
    /// How many tool calls began.
    pub tool_calls: u64,
    /// How often something was not allowed.
    pub denied_side_effects: u64,
    /// How many artifacts changed.
    pub artifacts: u64,
    /// Tokens that models read.
    pub input_tokens: u64,
    /// Tokens that models wrote.
    pub output_tokens: u64,
    /// What it cost, if anybody said so.
    pub cost_usd: Option<f64>,
    /// The trace of its first fact that has one.
    pub trace_id: Option<String>,
    /// The first turn.
    pub turn_id: Option<TurnId>,
    /// How the last turn ended.
    pub last_outcome: Option<TurnStatus>,
    /// Whether everything that shows what was done is there.
    pub evidence_complete: bool,
}

/// Measures a trial, fact by fact.
#[derive(Debug, Default)]
pub struct Measure {
    measured: Measured,
    costs: Costs,
    checks: Checks,
}

impl Measure {
    /// Takes in a fact.
    pub fn take(&mut self, event: &Event) {
        let (measured, ids) = (&mut self.measured, &event.fact.ids);
        self.checks.take(event);
        self.costs.take(&event.fact.payload);
        measured.events += 1;
        if measured.trace_id.is_none() {
            measured.trace_id = event.trace.as_ref().map(|trace| trace.trace_id.to_string());
        }
        let own = event.stream.starts_with("session:");
        match &event.fact.payload {
            Payload::TurnSubmitted(_) if own => {
                measured.turns += 1;
                measured.turn_id = measured.turn_id.take().or_else(|| ids.turn().cloned());
            }
            Payload::TurnCompleted(_) if own => measured.last_outcome = Some(TurnStatus::Completed),
            Payload::TurnFailed(failed) if own => measured.last_outcome = Some(failed.status),
            Payload::ToolStarted(_) => measured.tool_calls += 1,
            // Whoever asks what would be decided has no call, and has had nothing denied.
            Payload::PermissionEvaluated(evaluated)
                if ids.call().is_some() && evaluated.decision == Decision::Deny =>
            {
                measured.denied_side_effects += 1;
            }
            Payload::PermissionResolved(resolved)
                if ids.call().is_some() && resolved.decision == Decision::Deny =>
            {
                measured.denied_side_effects += 1;
            }
            Payload::ArtifactChanged(_) => measured.artifacts += 1,
            _ => {}
        }
    }

    /// What was measured. A trial whose agent ran elsewhere has its evidence when it says where that is.
    pub fn finish(mut self, trimmed: bool, trajectory_elsewhere: bool) -> Measured {
        let kept = self.checks.outcomes(trimmed).iter().all(|outcome| outcome.status == "passed");
        let shown = self.measured.turns > 0 || trajectory_elsewhere;
        self.measured.evidence_complete = kept && shown && self.checks.open_turns() == 0;
        self.measured.input_tokens = self.costs.usage.input_tokens;
        self.measured.output_tokens = self.costs.usage.output_tokens;
        self.measured.cost_usd = self.costs.usd();
        self.measured
    }
}

/// How a trial ended: its status and what went wrong. What the caller does not say is taken from its last turn.
pub fn outcome(category: Option<&str>, last: Option<TurnStatus>) -> (&'static str, String) {
    let status = match category {
        Some("timeout" | "timed_out") => "timed_out",
        Some("cancelled") => "cancelled",
        Some("lost") => "lost",
        Some("crash" | "error" | "infrastructure") => "failed",
        // The agent did what it could; that it was not good enough is what the reward says.
        Some(_) => "completed",
        None => match last {
            Some(TurnStatus::TimedOut) => "timed_out",
            Some(TurnStatus::Cancelled) => "cancelled",
            Some(TurnStatus::Lost) => "lost",
            Some(TurnStatus::Failed) => "failed",
            _ => "completed",
        },
    };
    let category = category.unwrap_or(match status {
        "completed" => "none",
        "timed_out" => "timeout",
        other => other,
    });
    (status, category.to_owned())
}

impl Trial {
    /// `running`, or how it ended.
    pub fn status(&self) -> &str {
        self.result.as_ref().map_or("running", |result| &result.status)
    }

    /// The turn that is the trial's own: whoever submits its input under this id runs the trial.
    pub fn turn(&self) -> TurnId {
        TurnId::with_suffix(self.id.suffix())
    }

    /// The trial as a run of a task, which is how facts name it. The ids share the rest of the trial's.
    pub fn attempt(&self) -> AttemptScope {
        let suffix = self.id.suffix();
        AttemptScope { task: TaskId::with_suffix(suffix), run: RunId::with_suffix(suffix) }
    }

    /// The same, with the turn in which it runs.
    pub fn scope(&self, thread: ThreadId) -> TrialScope {
        let AttemptScope { task, run } = self.attempt();
        TrialScope { thread, turn: self.turn(), task, run }
    }

    /// Which data, which task, which configuration.
    pub fn benchmark(&self) -> Benchmark {
        let spec = &self.spec;
        let named = |name: &str| spec.refs.get(name).cloned();
        Benchmark {
            dataset_id: Some(spec.dataset_id.clone()),
            dataset_version: Some(spec.dataset_version.clone()),
            dataset_ref: named("datasetRef"),
            task_id: Some(spec.task_id.clone()),
            trial_id: Some(self.id.clone()),
            configuration_id: Some(spec.configuration_id.clone()),
            role: Some(spec.role),
            harbor_job_ref: named("harborJobRef"),
            harbor_trial_ref: named("harborTrialRef"),
            task_toml_ref: named("taskTomlRef"),
            single_changed_variable: named("singleChangedVariable").map(|variable| variable.to_string()),
        }
    }

    /// How good it was.
    pub fn reward(&self) -> Option<Reward> {
        let result = self.result.as_ref()?;
        Some(Reward {
            value: Some(result.reward.value),
            reference: self.spec.refs.get("rewardRef").cloned(),
            details_ref: self.details(),
            criteria: result.reward.criteria.clone(),
            failure_category: Some(result.failure_category.clone()),
        })
    }

    fn details(&self) -> Option<Ref> {
        let said = self.result.as_ref().and_then(|result| result.reward.details_ref.clone());
        said.or_else(|| self.spec.refs.get("rewardDetailsRef").cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{
        Fact,
        id::CallId,
        payload::{PermissionEvaluated, PermissionResolved},
        scope::TurnScope,
    };

    #[test]
    fn only_what_a_call_was_denied_counts_as_denied() {
        let scope = || TurnScope { thread: ThreadId::with_suffix("1"), turn: TurnId::with_suffix("1") };
        let evaluated = PermissionEvaluated { decision: Decision::Deny, ..Default::default() };
        let resolved = PermissionResolved { decision: Decision::Deny, ..Default::default() };
        let facts = [
            Fact::new(Timestamp(1), scope(), evaluated.clone()),
            Fact::new(Timestamp(1), scope(), resolved.clone()),
            Fact::new(Timestamp(1), scope(), evaluated).with(CallId::with_suffix("1")),
            Fact::new(Timestamp(1), scope(), resolved).with(CallId::with_suffix("2")),
        ];
        let mut measure = Measure::default();
        for fact in facts {
            let (session, stream) = (SessionId::with_suffix("1"), "session:sess_1".to_owned());
            measure.take(&Event { cursor: Cursor::START, session, stream, sequence: 1, trace: None, fact });
        }
        assert_eq!(measure.finish(false, false).denied_side_effects, 2);
    }
}
