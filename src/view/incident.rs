//! What went wrong, or nearly, for people who look at a thread.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    bound::{self, TEXT_MAX, WORD_MAX, cut},
    declare::views,
};
use crate::fact::{
    Fact,
    id::{ThreadId, TurnId},
    payload::{EventType, FailurePolicy, Payload},
    status::TurnStatus,
    time::Time,
};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Work went on.
    Warning,
    /// Work stopped.
    Error,
}

views! {
    /// Something that people should know.
    Incident {
        /// The class of the fact that says so.
        kind: EventType,
        /// How bad it is.
        severity: Severity,
        /// One word that programs act on.
        code: String,
        /// What people read.
        message: String,
        /// When.
        at: Time,
        ..
        /// In which thread.
        thread_id: Option<ThreadId>,
        /// In which turn.
        turn_id: Option<TurnId>,
    }
}

impl Incident {
    /// What of a fact people should know; most facts are no incident.
    pub fn of(fact: &Fact) -> Option<Self> {
        use Severity::{Error, Warning};
        let (severity, code, message) = match &fact.payload {
            Payload::RuntimeWarning(warning) => (Warning, warning.code.as_str(), warning.message.as_str()),
            Payload::RuntimeError(error) => (Error, error.error.code.as_str(), error.error.message.as_str()),
            Payload::TurnFailed(failed) if failed.status != TurnStatus::Cancelled => {
                (Error, failed.error.code.as_str(), failed.error.message.as_str())
            }
            Payload::ToolFailed(failed) if failed.status.as_deref() == Some("lost") => {
                (Warning, "lost", failed.error.message.as_str())
            }
            Payload::ProcessFailed(failed) => {
                (Warning, failed.error.code.as_str(), failed.error.message.as_str())
            }
            Payload::ContextCompactionFailed(failed) => {
                (Warning, failed.error.code.as_str(), failed.error.message.as_str())
            }
            Payload::HookFailed(failed) => {
                let severity = if failed.failure_policy == FailurePolicy::Closed { Error } else { Warning };
                (severity, failed.error.code.as_str(), failed.error.message.as_str())
            }
            Payload::SandboxViolation(violation) => {
                let words = violation.detail.as_deref().or(violation.target.as_deref());
                (Warning, violation.operation.as_str(), words.unwrap_or_default())
            }
            Payload::RoutingNotPossible(routing) => (Error, "no_candidate", routing.reason.as_str()),
            Payload::RateLimitHit(hit) => {
                let severity = if hit.will_retry { Warning } else { Error };
                (severity, hit.limit.as_str(), hit.source.as_deref().unwrap_or_default())
            }
            Payload::QuotaBlocked(blocked) => {
                (Error, blocked.quota.as_str(), blocked.reason.as_deref().unwrap_or_default())
            }
            Payload::LimitChanged(changed) if changed.state != "ok" => {
                (Warning, changed.limit.as_str(), changed.reason.as_deref().unwrap_or(&changed.state))
            }
            Payload::HistoryRollbackCompleted(rollback) => {
                let error = rollback.error.as_ref()?;
                (Error, error.code.as_str(), error.message.as_str())
            }
            Payload::SnapshotRepaired(repaired) => (Warning, "snapshot_repaired", repaired.reason.as_str()),
            _ => return None,
        };
        Some(Self {
            kind: fact.event_type(),
            severity,
            code: cut(code, WORD_MAX),
            message: cut(message, TEXT_MAX),
            at: bound::time(fact.at),
            thread_id: fact.ids.thread().cloned(),
            turn_id: fact.ids.turn().cloned(),
        })
    }
}
