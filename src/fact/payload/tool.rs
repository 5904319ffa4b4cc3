//! Tools: which there are, and what became of each call.

use serde_json::Value;

use super::declare::payloads;
use crate::fact::{failure::Failure, part::OutputRef};

payloads! {
    /// One tool that a turn may call.
    ToolInfo {
        /// What it is called.
        name: String,
        ..
        /// What it does.
        description: Option<String>,
        /// Whether it changes nothing.
        read_only: bool,
        /// Whether several calls may run at once.
        parallel_safe: bool,
        /// Who provides it: `builtin`, an MCP server, a runner.
        source: Option<String>,
    }

    /// The tools of a turn were chosen.
    ToolCatalogResolved {
        /// How many there are.
        count: u32,
        ..
        /// Which.
        tools: Vec<ToolInfo>,
        /// Which were left out, and why.
        omitted: Vec<String>,
    }

    /// A call began.
    ToolStarted {
        /// Of which tool.
        name: String,
        ..
        /// With what.
        args: Option<Value>,
        /// With what, when it is kept elsewhere.
        args_ref: Option<OutputRef>,
        /// Which attempt, from 1.
        attempt: Option<u32>,
    }

    /// The arguments of a call, as they come or when they were changed.
    ToolArgs {
        ..
        /// The tool.
        name: Option<String>,
        /// All of them.
        args: Option<Value>,
        /// A piece of their text.
        delta: Option<String>,
        /// Who changed them.
        by: Option<String>,
    }

    /// How far a call is.
    ToolProgress {
        ..
        /// The tool.
        name: Option<String>,
        /// In words.
        message: Option<String>,
        /// A piece of its output.
        output: Option<String>,
        /// How much is done, 0 to 100.
        percent: Option<f64>,
    }

    /// A call gave a result. When it is large it is spilled: `outputRef` says where.
    ToolResult {
        /// The tool.
        name: String,
        ..
        /// The result, or the beginning of a large one.
        preview: Option<String>,
        /// The result for programs.
        structured: Option<Value>,
        /// How large the result is.
        size_bytes: Option<u64>,
        /// How long it took.
        duration_ms: Option<u64>,
        /// What it produced beside it.
        output_refs: Vec<OutputRef>,
    }

    /// A call gave no result.
    ToolFailed {
        /// The tool.
        name: String,
        /// What happened.
        error: Failure,
        ..
        /// How it ended, when it did not just fail: `lost`, `cancelled`, `timed_out`, `denied`.
        status: Option<String>,
        /// What it said before.
        preview: Option<String>,
        /// How long it took.
        duration_ms: Option<u64>,
        /// Which attempt, from 1.
        attempt: Option<u32>,
        /// Whether another attempt follows.
        will_retry: bool,
    }
}
