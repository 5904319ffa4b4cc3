//! Tool calls: what was called, what came of it, and hashes of both.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Listed;
use crate::fact::{
    Event, Failure, OutputRef, Payload,
    id::{BlobRef, CallId, StepId, SubagentId, TaskId, TurnId},
    time::Time,
};

/// One tool call.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolEntry {
    /// Its id.
    pub tool_call_id: CallId,
    /// Of which tool.
    pub name: String,
    /// `running`, `completed`, `failed`, `denied`, `lost`, …
    pub status: String,
    /// In which turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// In which step of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_id: Option<StepId>,
    /// For which task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// By which subagent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_id: Option<SubagentId>,
    /// When it began.
    pub started_at: Time,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// How often it was begun.
    pub attempts: u32,
    /// The hash of its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_hash: Option<String>,
    /// Its arguments, when they are kept elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_ref: Option<OutputRef>,
    /// Its result, when that is kept elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<BlobRef>,
    /// The hash of its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_hash: Option<String>,
    /// How large the result is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// How much of it is kept, when that is not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_bytes: Option<u64>,
    /// What it produced beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_refs: Vec<OutputRef>,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

/// The tool calls of a pack.
#[derive(Debug, Default)]
pub struct Tools {
    calls: Listed<ToolEntry>,
    places: HashMap<CallId, usize>,
    spilled: HashMap<BlobRef, String>,
}

impl Tools {
    /// Takes in a fact.
    pub fn take(&mut self, event: &Event) {
        let ids = &event.fact.ids;
        if let (Payload::OutputSpilled(spilled), Some(output)) = (&event.fact.payload, ids.output()) {
            self.spilled.insert(output.clone(), spilled.hash.clone());
        }
        let Some(call) = ids.call() else { return };
        match &event.fact.payload {
            Payload::ToolStarted(started) => {
                let entry = self.entry(event, call, &started.name);
                let Some(entry) = entry else { return };
                entry.status = "running".into();
                entry.attempts += 1;
                entry.args_hash = started.args.as_ref().map(hash);
                entry.args_ref.clone_from(&started.args_ref);
            }
            Payload::OutputTruncated(truncated) => {
                if let Some(entry) = self.places.get(call).and_then(|at| self.calls.entries.get_mut(*at)) {
                    entry.kept_bytes = Some(truncated.kept_bytes);
                }
            }
            Payload::ToolResult(result) => {
                let content = match (&result.structured, &result.preview) {
                    (Some(structured), _) => Some(hash(structured)),
                    (None, Some(preview)) => Some(hash(&Value::from(preview.as_str()))),
                    (None, None) => None,
                };
                let Some(entry) = self.entry(event, call, &result.name) else { return };
                entry.status = "completed".into();
                entry.ended_at = Some(Time(event.fact.at));
                entry.result_ref = ids.output().cloned();
                // Of what is kept elsewhere only a beginning is here, and its hash is that of the whole.
                entry.result_hash = content.filter(|_| ids.output().is_none());
                entry.size_bytes = result.size_bytes;
                entry.output_refs.clone_from(&result.output_refs);
                entry.error = None;
            }
            Payload::ToolFailed(failed) => {
                let Some(entry) = self.entry(event, call, &failed.name) else { return };
                let status = if failed.will_retry { "retrying" } else { "failed" };
                entry.status = failed.status.clone().unwrap_or_else(|| status.into());
                entry.ended_at = Some(Time(event.fact.at));
                entry.error = Some(failed.error.clone());
            }
            _ => {}
        }
    }

    fn entry(&mut self, event: &Event, call: &CallId, name: &str) -> Option<&mut ToolEntry> {
        if !self.places.contains_key(call) {
            let ids = &event.fact.ids;
            let place = self.calls.push(ToolEntry {
                tool_call_id: call.clone(),
                name: name.to_owned(),
                status: "running".into(),
                turn_id: ids.turn().cloned(),
                step_id: ids.step().cloned(),
                task_id: ids.task().cloned(),
                subagent_id: ids.subagent().cloned(),
                started_at: Time(event.fact.at),
                ended_at: None,
                attempts: 0,
                args_hash: None,
                args_ref: None,
                result_ref: None,
                result_hash: None,
                size_bytes: None,
                kept_bytes: None,
                output_refs: Vec::new(),
                error: None,
            });
            self.places.insert(call.clone(), place.unwrap_or(usize::MAX));
        }
        self.calls.entries.get_mut(*self.places.get(call)?)
    }

    /// All of them.
    pub fn finish(mut self) -> Listed<ToolEntry> {
        for call in &mut self.calls.entries {
            if let Some(output) = &call.result_ref {
                call.result_hash = self.spilled.get(output).cloned();
            }
        }
        self.calls
    }
}

/// The hash of a value's JSON text.
fn hash(value: &Value) -> String {
    let digest = Sha256::digest(value.to_string());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
