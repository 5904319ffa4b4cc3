//! The boundary to tools.

use async_trait::async_trait;
use bytes::Bytes;
use cadre_cluster::host::Repeat;
use serde_json::Value;

use crate::fact::{Failure, id::SessionId};

/// What a tool says about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// What models call it.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: Value,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether it may run beside other such tools of the same answer.
    pub parallel_safe: bool,
    /// Whether a call that may have happened may be made again.
    pub repeat: Repeat,
    /// How long one call may take.
    pub deadline_ms: u64,
}

/// The circumstances of a call.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// Whose call it is.
    pub tenant: String,
    /// The session it belongs to.
    pub session: SessionId,
    /// Which attempt at this call it is, from 1.
    pub attempt: u32,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolError {
    /// It failed, and another try would fail the same way.
    Failed(Failure),
    /// Nobody knows whether it happened.
    Unsure {
        /// Why not.
        reason: String,
    },
}

/// What a call returns.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolReturn {
    /// Something with a structure.
    Value(Value),
    /// Raw output, spilled when it is large.
    Bytes {
        /// The content.
        content: Bytes,
        /// Its kind.
        media_type: String,
    },
}

/// A tool.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// What it says about itself.
    fn spec(&self) -> &ToolSpec;

    /// How long this call may take.
    fn deadline_ms(&self, args: &Value) -> u64 {
        let _ = args;
        self.spec().deadline_ms
    }

    /// Whether this call may be made again when it may have happened.
    fn repeat(&self, args: &Value) -> Repeat {
        let _ = args;
        self.spec().repeat
    }

    /// Why these arguments cannot be used, with the field in front.
    fn check(&self, args: &Value) -> Result<(), String>;

    /// Does it.
    async fn call(&self, args: Value, context: ToolContext) -> Result<ToolReturn, ToolError>;
}
