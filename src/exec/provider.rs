//! The boundary to models.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Call, History, Used};
use crate::fact::{
    Failure, Part,
    id::{BlobRef, TurnId},
};

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The turn, for what the model says about itself.
    pub turn: TurnId,
    /// Which model of the provider.
    pub model: String,
    /// What the turn was given.
    pub input: Vec<Part>,
    /// Where that is, when it is not here.
    pub stored: Option<BlobRef>,
    /// Where the conversation stands, as the provider's last answer left it; empty at first.
    pub position: Vec<u32>,
    /// Which attempt at the whole run this is, from 1.
    pub attempt: u32,
    /// How often this very request has failed before, in all attempts.
    pub failures: u32,
    /// The turns before this one that belong to its context, as `context.resolved` tells of them.
    #[serde(default)]
    pub history: Option<History>,
}

/// What a model says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Text, in the pieces it came in.
    pub deltas: Vec<String>,
    /// What it wants done.
    pub calls: Vec<Call>,
    /// Why it stopped.
    pub stop: Stop,
    /// What it cost.
    pub used: Used,
    /// Where the conversation stands now.
    pub position: Vec<u32>,
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// It has said everything.
    #[default]
    End,
    /// It waits for the results of its calls.
    Calls,
    /// It goes on after so long: the same request is asked again with the new position.
    Pause {
        /// How long.
        ms: u64,
    },
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", .failure.message)]
pub struct ModelError {
    /// What the facts will say.
    pub failure: Failure,
}

/// A model provider.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// The provider's name in facts.
    fn name(&self) -> &str;

    /// The answer, when it takes no I/O to find it. Pure: the same request has the same answer.
    fn answer(&self, request: &ModelRequest) -> Option<Result<Answer, ModelError>> {
        let _ = request;
        None
    }

    /// The answer, asked for outside the step. Text goes to `said` as it comes; the answer's own deltas are what was
    /// not handed over yet.
    async fn stream(
        &self,
        request: &ModelRequest,
        said: tokio::sync::mpsc::Sender<String>,
    ) -> Result<Answer, ModelError> {
        let _ = said;
        self.answer(request).unwrap_or_else(|| {
            let failure = Failure::new("unavailable", "this provider cannot stream");
            Err(ModelError { failure })
        })
    }
}
