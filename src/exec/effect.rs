//! What a run asks of the world, and what it is told.

use serde::{Deserialize, Serialize};

use super::provider::{Answer, ModelRequest};
use crate::{
    entity::job::Loaded,
    fact::{
        Failure, Ids,
        id::{BlobRef, CallId, JobId, RequestId, SessionId, TaskId},
    },
};

/// Work outside the step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Ask a model.
    Model {
        /// Which provider.
        provider: String,
        /// What.
        request: ModelRequest,
        /// The request's id in facts.
        id: RequestId,
    },
    /// Call a tool.
    Tool {
        /// Which call.
        call: CallId,
        /// Which tool.
        name: String,
        /// With what, as JSON text.
        args: String,
        /// For whom.
        session: SessionId,
        /// Where the arguments are, when they are not here.
        #[serde(default)]
        stored: Option<BlobRef>,
        /// Where in the session the call is.
        #[serde(default)]
        about: Ids,
    },
    /// Fetch items of a job, as many as it can hold.
    Items {
        /// Which job.
        job: JobId,
        /// Which items: from, and up to but not including.
        ranges: Vec<(u32, u32)>,
        /// Whether they ran before, and what that left matters.
        again: bool,
        /// What the ids of their attempts come from.
        #[serde(default)]
        base: Option<String>,
    },
    /// Look for those who wait for a task.
    Watchers {
        /// Which task.
        task: TaskId,
        /// Only those that come after this one.
        after: Option<TaskId>,
    },
    /// Look whether a task waits for itself.
    Cycle {
        /// Which task.
        task: TaskId,
    },
    /// Look whether a session takes new work.
    IsOpen {
        /// Which session.
        session: SessionId,
    },
    /// Remove what is kept apart for items of a job, and say which attempts were made at them.
    Remove {
        /// Which job.
        job: JobId,
        /// The first.
        from: u32,
        /// Up to but not including.
        to: u32,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// Part of what a model says, while it says it.
    Said {
        /// Which attempt at the request.
        attempt: u32,
        /// The text.
        text: String,
    },
    /// A model's answer, without what it said before.
    Answered {
        /// Which attempt at the request.
        attempt: u32,
        /// The answer.
        answer: Result<Answer, Failure>,
    },
    /// A tool's result.
    Returned(Result<ToolOutput, Failure>),
    /// The first of the items that were asked for: at least one.
    Items(Vec<Loaded>),
    /// Some of those who wait for a task, in the order of their ids.
    Watchers {
        /// Who.
        tasks: Vec<TaskId>,
        /// Whether there are more.
        more: bool,
    },
    /// Whether a task waits for itself.
    Cycle {
        /// Whether it does.
        found: bool,
    },
    /// Whether a session takes new work.
    IsOpen {
        /// Whether it does.
        open: bool,
    },
    /// Nothing is kept apart for the items below `to` any more.
    Removed {
        /// Up to but not including.
        to: u32,
        /// The last attempts at them, by item.
        attempts: Vec<(u32, u32)>,
    },
}

/// What a tool returned, small enough for a fact.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Text, or the beginning of it.
    pub preview: Option<String>,
    /// JSON text.
    pub structured: Option<String>,
    /// How much there is in all.
    pub size_bytes: u64,
    /// Where the whole is, when it is not here.
    pub spilled: Option<Spilled>,
    /// How much of it is kept, when that is not all.
    #[serde(default)]
    pub kept_bytes: Option<u64>,
}

/// Output that is kept apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spilled {
    /// Where.
    pub blob: BlobRef,
    /// What it is.
    pub media_type: String,
    /// SHA-256 of it, in hex.
    pub hash: String,
    /// When it may be gone.
    pub expires_ms: u64,
}

cadre_cluster::stored! { Effect: "effect" }
