//! The steps of a turn, in short.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::declare::views;
use crate::fact::{
    failure::Failure,
    id::{ActionId, BlobRef, CallId, StepId},
    time::Time,
};

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A model was asked.
    Message,
    /// A tool was called.
    Tool,
    /// A decision was waited for.
    Action,
    /// The run said how it stands.
    Status,
}

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// It is at work.
    Running,
    /// It waits for a decision.
    Waiting,
    /// It failed and is tried again.
    Retrying,
    /// It is done.
    Completed,
    /// It failed.
    Failed,
    /// It was not allowed.
    Denied,
    /// Nobody decided in time.
    Expired,
    /// It was stopped.
    Cancelled,
    /// It took too long.
    TimedOut,
    /// It cannot be known how it ended.
    Lost,
    /// Its turn ended and nothing was said of it.
    Unknown,
}

impl StepStatus {
    /// Whether it may still change.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Waiting | Self::Retrying)
    }

    /// How a failed call ended, in the words of its fact.
    pub(super) fn of_failure(word: Option<&str>) -> Self {
        match word {
            Some("lost") => Self::Lost,
            Some("cancelled") => Self::Cancelled,
            Some("timed_out") => Self::TimedOut,
            Some("denied") => Self::Denied,
            _ => Self::Failed,
        }
    }
}

views! {
    /// One step of a turn.
    StepView {
        /// What it is.
        kind: StepKind,
        /// How it stands.
        status: StepStatus,
        /// When it began.
        at: Time,
        ..
        /// Its id.
        step_id: Option<StepId>,
        /// The tool call that it is.
        tool_call_id: Option<CallId>,
        /// The decision that it is.
        action_id: Option<ActionId>,
        /// The tool, the model, the kind of decision or the phase.
        name: Option<String>,
        /// The beginning of what came of it, or of what it was given.
        preview: Option<String>,
        /// Where all of its output is.
        output_ref: Option<BlobRef>,
        /// How large its output was, when only a part of it is kept.
        truncated_from_bytes: Option<u64>,
        /// What went wrong.
        error: Option<Failure>,
        /// When it ended.
        ended_at: Option<Time>,
    }
}

impl StepView {
    /// A step that begins.
    pub(super) fn new(kind: StepKind, status: StepStatus, at: Time) -> Self {
        Self {
            kind,
            status,
            at,
            step_id: None,
            tool_call_id: None,
            action_id: None,
            name: None,
            preview: None,
            output_ref: None,
            truncated_from_bytes: None,
            error: None,
            ended_at: None,
        }
    }

    /// It ended so.
    pub(super) fn end(&mut self, status: StepStatus, at: Time) {
        self.status = status;
        self.ended_at = Some(at);
    }
}
