//! How a run ends.

use serde::{Deserialize, Serialize};

use crate::fact::{Failure, status::TurnStatus};

/// How a run ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    /// The terminal status.
    pub status: TurnStatus,
    /// What went wrong, if anything.
    pub error: Option<Failure>,
    /// Why it was ended, if somebody did.
    pub reason: Option<String>,
    /// Who did.
    pub by: Option<String>,
}

impl Ending {
    /// As it should.
    pub fn completed() -> Self {
        Self { status: TurnStatus::Completed, error: None, reason: None, by: None }
    }

    /// With an error.
    pub fn failed(error: Failure) -> Self {
        Self { status: TurnStatus::Failed, error: Some(error), reason: None, by: None }
    }

    /// Because somebody said so.
    pub fn cancelled(reason: Option<String>, by: &str) -> Self {
        let message = reason.clone().unwrap_or_else(|| "it was cancelled".into());
        Self {
            status: TurnStatus::Cancelled,
            error: Some(Failure::new("cancelled", message)),
            reason,
            by: Some(by.to_owned()),
        }
    }

    /// Because its time was over.
    pub fn timed_out() -> Self {
        let error = Failure::new("deadline_exceeded", "the deadline passed").retryable();
        Self { status: TurnStatus::TimedOut, error: Some(error), reason: None, by: Some("deadline".into()) }
    }

    /// Nobody knows.
    pub fn lost(error: Failure) -> Self {
        Self { status: TurnStatus::Lost, error: Some(error), reason: None, by: None }
    }
}
