//! The span around a command, joined to the facts that come of it by the ids of their envelope.
//!
//! It says which command, whose and about what; never an argument, an input or a credential.

use serde_json::Value;
use tracing::{Span, field::Empty};

use super::Caller;
use crate::control::{self, Error, result::Answer};

/// The ids of the envelope that an answer may name, and what they are called in a span.
const IDS: [(&str, &str); 7] = [
    ("sessionId", "session_id"),
    ("threadId", "thread_id"),
    ("turnId", "turn_id"),
    ("taskId", "task_id"),
    ("subagentId", "subagent_id"),
    ("jobId", "job_id"),
    ("actionId", "action_id"),
];

/// Names that do not exist are not told: anybody can make up others.
pub(super) fn of_command(caller: &Caller, name: &str) -> Span {
    let name = control::registry().find(name).map_or("unknown", |spec| spec.name);
    tracing::info_span!(
        "command",
        otel.name = name,
        otel.kind = "server",
        otel.status_code = Empty,
        command = name,
        tenant = caller.tenant,
        session_id = Empty,
        thread_id = Empty,
        turn_id = Empty,
        task_id = Empty,
        subagent_id = Empty,
        job_id = Empty,
        action_id = Empty,
        error = Empty,
    )
}

/// Says what it was about, and whether it failed.
pub(super) fn end(span: &Span, answer: &Result<Answer, Error>) {
    if span.is_disabled() {
        return;
    }
    match answer {
        Ok(answer) => {
            for (name, field) in IDS {
                if let Some(id) = answer.result.get(name).and_then(Value::as_str) {
                    span.record(field, id);
                }
            }
        }
        Err(error) => {
            span.record("error", error.code.as_str());
            span.record("otel.status_code", "ERROR");
        }
    }
}
