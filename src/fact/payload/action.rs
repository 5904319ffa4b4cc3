//! Decisions that are waited for.

use serde_json::Value;

use super::{Object, declare::payloads};
use crate::fact::{status::ActionStatus, time::Time};

payloads! {
    /// Execution stops until somebody decides.
    ActionRequired {
        /// What for: `tool_permission`, `approval`, `input`, …
        action_type: String,
        /// The question.
        prompt: String,
        ..
        /// The answers that there are.
        decisions: Vec<String>,
        /// What the answer's payload must look like.
        schema: Option<Value>,
        /// When it is decided without an answer.
        expires_at: Option<Time>,
        /// The tool that it is about.
        tool_name: Option<String>,
        /// What kind of answer is wanted: `allow_or_deny`, …
        decision_kind: Option<String>,
        /// What it is about.
        scope: Object,
        /// How bad it can get: `low`, `medium`, `high`, …
        risk: Option<String>,
    }

    /// It was decided, or nobody waits any more.
    ActionResolved {
        /// Which of the two.
        status: ActionStatus,
        /// The answer.
        decision: String,
        ..
        /// Whose.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
        /// What came with it.
        payload: Option<Value>,
    }
}
