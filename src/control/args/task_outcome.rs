//! Tasks: how far they are, and how they ended.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{declare::arguments, output};
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::{Failure, OutputRef, Ref, id::TaskId, payload::Object},
};

arguments! {
    /// Says how far a task is. Each call is a fact; read models show the last of each argument.
    AppendTaskProgress {
        /// The task.
        task_id: TaskId,
        ..
        /// What it is doing.
        phase: Option<String>,
        /// How much is done, 0 to 100.
        percent: Option<f64>,
        /// In words, at most 16 KiB.
        summary: Option<String>,
        /// In numbers, by name.
        counters: BTreeMap<String, i64>,
        /// What it has produced: references, or objects with one.
        #[serde(with = "output")]
        #[schemars(with = "Vec<output::Written>")]
        output_refs: Vec<OutputRef>,
        /// How far its results have come to whoever wants them, at most 16 KiB as JSON.
        delivery_state: Option<Object>,
    }

    /// Says that a task has reached its objective.
    CompleteTask {
        /// The task.
        task_id: TaskId,
        ..
        /// The result in short, at most 16 KiB.
        summary: Option<String>,
        /// What it delivered.
        artifacts: Vec<Ref>,
        /// What proves it.
        evidence_refs: Vec<Ref>,
    }

    /// Says that a task cannot reach its objective. When the error is retryable and the retry policy has attempts
    /// left, another one follows.
    FailTask {
        /// The task.
        task_id: TaskId,
        /// What happened.
        error: Failure,
    }
}

impl Arguments for AppendTaskProgress {
    fn check(&self) -> Result<(), Error> {
        check::name("phase", self.phase.as_deref())?;
        check::range("percent", self.percent, 0.0..=100.0)?;
        check::bytes("summary", self.summary.as_deref(), check::PROSE_BYTES_MAX)?;
        check::count("counters", self.counters.len(), 0..=check::ENTRIES_MAX)?;
        for name in self.counters.keys() {
            check::name(&format!("counters.{}", name.chars().take(40).collect::<String>()), Some(name))?;
        }
        check::count("outputRefs", self.output_refs.len(), 0..=check::ENTRIES_MAX)?;
        for (index, output) in self.output_refs.iter().enumerate() {
            let field = |name: &str| format!("outputRefs[{index}].{name}");
            check::name(&field("mediaType"), output.media_type.as_deref())?;
            check::line(&field("title"), output.title.as_deref(), check::LINE_CHARS_MAX)?;
        }
        check::json("deliveryState", &self.delivery_state, check::OBJECT_BYTES_MAX)?;
        check::together(self, &(), check::TASK_BYTES_MAX)
    }

    fn example() -> Value {
        json!({
            "taskId": "task_notes",
            "phase": "drafting",
            "percent": 40.0,
            "counters": { "entries": 12 },
            "outputRefs": ["blob_draft"],
        })
    }
}

impl Arguments for CompleteTask {
    fn check(&self) -> Result<(), Error> {
        check::bytes("summary", self.summary.as_deref(), check::PROSE_BYTES_MAX)?;
        check::count("artifacts", self.artifacts.len(), 0..=check::ENTRIES_MAX)?;
        check::count("evidenceRefs", self.evidence_refs.len(), 0..=check::ENTRIES_MAX)?;
        check::together(self, &(), check::TASK_BYTES_MAX)
    }

    fn example() -> Value {
        json!({ "taskId": "task_notes", "summary": "12 entries", "artifacts": ["artf_notes"] })
    }
}

impl Arguments for FailTask {
    fn check(&self) -> Result<(), Error> {
        check::name("error.code", Some(&self.error.code))?;
        check::bytes("error.message", Some(&self.error.message), check::REASON_BYTES_MAX)
    }

    fn example() -> Value {
        json!({
            "taskId": "task_notes",
            "error": { "code": "source_missing", "message": "there is no changelog", "retryable": false },
        })
    }
}
