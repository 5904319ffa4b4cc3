//! Benchmarks: trials, their rewards, and what a comparison decided.

use std::collections::BTreeMap;

use super::{Object, Usage, declare::payloads};
use crate::fact::{failure::Failure, id::TrialId, part::Ref, words::words};

words! {
    /// What a configuration is in a comparison.
    BenchmarkRole { Baseline = "baseline", Candidate = "candidate", Control = "control" }

    /// How the export of a trajectory stands.
    ExportStatus {
        Pending = "pending",
        Exported = "exported",
        Failed = "failed",
        Redacted = "redacted",
        NotSupported = "not-supported",
    }
}

payloads! {
    /// Which data, which task, which configuration.
    Benchmark {
        ..
        /// The data.
        dataset_id: Option<String>,
        /// Which version of it.
        dataset_version: Option<String>,
        /// Where it is.
        dataset_ref: Option<Ref>,
        /// The task as the data calls it.
        task_id: Option<String>,
        /// The trial.
        trial_id: Option<TrialId>,
        /// The configuration.
        configuration_id: Option<String>,
        /// What that is in a comparison.
        role: Option<BenchmarkRole>,
        /// The job of the harness.
        harbor_job_ref: Option<Ref>,
        /// The trial of the harness.
        harbor_trial_ref: Option<Ref>,
        /// The definition of the task.
        task_toml_ref: Option<Ref>,
        /// The one thing that is different from the baseline.
        single_changed_variable: Option<String>,
    }

    /// What an agent did, step by step, as a file.
    Trajectory {
        ..
        /// Its format.
        schema: Option<String>,
        /// Where it is.
        #[serde(rename = "ref")]
        reference: Option<Ref>,
        /// How its export stands.
        export_status: Option<ExportStatus>,
        /// Which fields that must be there are there.
        required_field_status: BTreeMap<String, bool>,
    }

    /// How good it was.
    Reward {
        ..
        /// As a number.
        value: Option<f64>,
        /// Where it is.
        #[serde(rename = "ref")]
        reference: Option<Ref>,
        /// What it was made of.
        details_ref: Option<Ref>,
        /// What was looked at.
        criteria: Vec<String>,
        /// What went wrong; `none` when nothing did.
        failure_category: Option<String>,
    }

    /// A candidate beside its baseline.
    Comparison {
        ..
        /// How much better.
        mean_reward_delta: Option<f64>,
        /// How much more often it took too long.
        timeout_rate_delta: Option<f64>,
        /// How many trials have all their evidence.
        evidence_completeness_rate: Option<f64>,
        /// How many gates that must hold no longer do.
        p0_qc_gate_regression_count: Option<u32>,
        /// What follows: `promote`, `revert`, `inconclusive`, …
        decision: Option<String>,
        /// Why.
        reason: Option<String>,
        /// The trials of the baseline.
        baseline: Vec<TrialId>,
        /// The trials of the candidate.
        candidate: Vec<TrialId>,
    }

    /// The data is known.
    BenchmarkDatasetResolved {
        /// Which.
        benchmark: Benchmark,
        ..
        /// How many tasks it has.
        tasks: Option<u32>,
        /// Where more is found.
        refs: Option<BTreeMap<String, Ref>>,
    }

    /// The configuration is known.
    BenchmarkConfigurationResolved {
        /// Which.
        benchmark: Benchmark,
        ..
        /// What it is made of.
        configuration: Object,
        /// Where more is found.
        refs: Option<BTreeMap<String, Ref>>,
    }

    /// A trial began.
    BenchmarkTrialStarted {
        /// Which.
        benchmark: Benchmark,
        /// Where more is found.
        refs: BTreeMap<String, Ref>,
    }

    /// A trial ran to its end.
    BenchmarkTrialCompleted {
        /// Which.
        benchmark: Benchmark,
        /// Where more is found.
        refs: BTreeMap<String, Ref>,
        /// `completed`.
        status: String,
        ..
        /// How good it was.
        reward: Option<Reward>,
        /// What was done.
        trajectory: Option<Trajectory>,
        /// What its models used.
        usage: Option<Usage>,
        /// How long it took.
        duration_ms: Option<u64>,
        /// What was measured.
        metrics: Object,
    }

    /// A trial did not run to its end.
    BenchmarkTrialFailed {
        /// Which.
        benchmark: Benchmark,
        /// Where more is found.
        refs: BTreeMap<String, Ref>,
        /// `failed`, `timed_out`, `cancelled`, `lost`.
        status: String,
        /// What happened.
        error: Failure,
        ..
        /// What kind of failure it is.
        failure_category: Option<String>,
        /// What was done.
        trajectory: Option<Trajectory>,
        /// How long it took.
        duration_ms: Option<u64>,
    }

    /// It is known how good a trial was.
    BenchmarkRewardRecorded {
        /// Which.
        benchmark: Benchmark,
        /// Where more is found.
        refs: BTreeMap<String, Ref>,
        /// How good.
        reward: Reward,
        ..
        /// Who says so.
        by: Option<String>,
    }

    /// A candidate was compared with its baseline.
    BenchmarkComparisonCompleted {
        /// Which.
        benchmark: Benchmark,
        /// Where more is found.
        refs: BTreeMap<String, Ref>,
        /// What came of it.
        comparison: Comparison,
    }
}
