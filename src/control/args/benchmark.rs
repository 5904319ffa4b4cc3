//! Benchmarks: trials, their rewards, and comparisons.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::declare::arguments;
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::{
        Ref,
        id::{SessionId, TrialId},
        payload::BenchmarkRole,
    },
};

arguments! {
    /// Begins a trial: one task of a dataset with one configuration. What happens in its session belongs to it.
    StartBenchmarkTrial {
        /// The dataset.
        dataset_id: String,
        /// Which version of it.
        dataset_version: String,
        /// The task, as the dataset calls it.
        task_id: String,
        /// The configuration.
        configuration_id: String,
        /// What that is in a comparison.
        role: BenchmarkRole,
        ..
        /// The id that it shall have. The same id with the same arguments is the same trial.
        trial_id: Option<TrialId>,
        /// The session in which it runs. A new one is made when absent.
        session_id: Option<SessionId>,
        /// Where more is found, by name.
        refs: BTreeMap<String, Ref>,
    }

    /// Says how good a trial was, and ends it.
    RecordBenchmarkReward {
        /// The trial.
        trial_id: TrialId,
        /// As a number.
        value: f64,
        ..
        /// What it was made of.
        details_ref: Option<Ref>,
        /// What was looked at.
        criteria: Vec<String>,
        /// What went wrong; `none` when nothing did.
        failure_category: Option<String>,
    }

    /// Packs a trial: what was done step by step, its reward, and the ids that join it to the runtime's facts.
    ExportBenchmarkTrial {
        /// The trial.
        trial_id: TrialId,
    }

    /// Compares the trials of a candidate with those of a baseline, and says what follows: promote, revert, or that
    /// nothing can be said.
    CompareBenchmarkRuns {
        /// The trials of the baseline: 1 to 10,000, none twice.
        baseline: Vec<TrialId>,
        /// The trials of the candidate: 1 to 10,000, none twice.
        candidate: Vec<TrialId>,
    }
}

impl Arguments for StartBenchmarkTrial {
    fn check(&self) -> Result<(), Error> {
        for (field, text) in [
            ("datasetId", &self.dataset_id),
            ("datasetVersion", &self.dataset_version),
            ("taskId", &self.task_id),
            ("configurationId", &self.configuration_id),
        ] {
            check::line(field, Some(text), check::LINE_CHARS_MAX)?;
        }
        check::count("refs", self.refs.len(), 0..=check::ENTRIES_MAX)?;
        check::json("refs", &self.refs, check::PAYLOAD_BYTES_MAX)
    }

    fn example() -> Value {
        json!({
            "datasetId": "terminal-tasks",
            "datasetVersion": "2.0",
            "taskId": "fix-the-build",
            "configurationId": "planner-v3",
            "role": "candidate",
            "trialId": "tria_1",
        })
    }
}

impl Arguments for RecordBenchmarkReward {
    fn check(&self) -> Result<(), Error> {
        if !self.value.is_finite() {
            return Err(Error::invalid("value", "must be a finite number"));
        }
        check::count("criteria", self.criteria.len(), 0..=check::ENTRIES_MAX)?;
        for (index, criterion) in self.criteria.iter().enumerate() {
            check::line(&format!("criteria[{index}]"), Some(criterion), check::LINE_CHARS_MAX)?;
        }
        check::name("failureCategory", self.failure_category.as_deref())
    }

    fn example() -> Value {
        json!({ "trialId": "tria_1", "value": 0.75, "criteria": ["tests pass"], "failureCategory": "none" })
    }
}

impl Arguments for ExportBenchmarkTrial {
    fn example() -> Value {
        json!({ "trialId": "tria_1" })
    }
}

impl Arguments for CompareBenchmarkRuns {
    fn check(&self) -> Result<(), Error> {
        for (field, trials) in [("baseline", &self.baseline), ("candidate", &self.candidate)] {
            check::count(field, trials.len(), check::TRIALS)?;
            check::distinct(field, trials)?;
        }
        Ok(())
    }

    fn example() -> Value {
        json!({ "baseline": ["tria_1", "tria_2"], "candidate": ["tria_3", "tria_4"] })
    }
}
