//! What a model may ask for.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Source;
use crate::{
    fact::id::{ActionId, BlobRef, CallId, StepId},
    scripted::Join,
};
use cadre_cluster::{clock::Timestamp, host::Repeat};

/// Something that a model wants done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Call {
    /// A tool of the inventory.
    Tool {
        /// Which.
        name: String,
        /// With what, as JSON text.
        args: String,
    },
    /// Somebody's decision.
    Ask {
        /// What is asked.
        prompt: String,
        /// What may be answered; the first one means yes.
        decisions: Vec<String>,
        /// How long the question stands.
        expires_ms: Option<u64>,
    },
    /// Subagents.
    Spawn {
        /// How many.
        count: u32,
        /// Which agent they are.
        agent: String,
        /// Their input.
        input: Source,
        /// What to wait for.
        join: Join,
    },
    /// A task.
    Task {
        /// The arguments of `create_task`, as JSON text.
        args: String,
        /// Its input.
        input: Source,
        /// Whether to wait for its end.
        join: bool,
    },
    /// Time.
    Sleep {
        /// How much.
        ms: u64,
    },
}

impl Call {
    /// The name that facts have for it.
    pub fn name(&self) -> &str {
        match self {
            Self::Tool { name, .. } => name,
            Self::Ask { .. } => "ask_user",
            Self::Spawn { .. } => "spawn_subagents",
            Self::Task { .. } => "create_task",
            Self::Sleep { .. } => "wait",
        }
    }

    /// About how much it takes in a state.
    pub fn size(&self) -> usize {
        match self {
            Self::Tool { name, args } => name.len() + args.len(),
            Self::Ask { prompt, decisions, .. } => {
                prompt.len() + decisions.iter().map(|decision| decision.len() + 8).sum::<usize>()
            }
            Self::Spawn { agent, input, .. } => agent.len() + input.size(),
            Self::Task { args, input, .. } => args.len() + input.size(),
            Self::Sleep { .. } => 0,
        }
    }

    /// What facts say it was called with.
    pub fn args(&self) -> Value {
        match self {
            Self::Tool { args, .. } | Self::Task { args, .. } => {
                serde_json::from_str(args).unwrap_or(Value::Null)
            }
            Self::Ask { prompt, decisions, .. } => {
                serde_json::json!({ "prompt": prompt, "decisions": decisions })
            }
            Self::Spawn { count, agent, join, .. } => {
                serde_json::json!({ "count": count, "agent": agent, "join": join })
            }
            Self::Sleep { ms } => serde_json::json!({ "ms": ms }),
        }
    }
}

/// A call whose result the model waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenCall {
    /// Its step in the turn.
    pub step: StepId,
    /// Its id.
    pub id: CallId,
    /// What is asked.
    pub call: Call,
    /// How far it is.
    pub state: CallState,
    /// Whether it may run beside others.
    pub parallel: bool,
    /// What it is called with, when that is kept apart: what is waited for is part of a state, and states are small.
    pub large: Option<Large>,
}

/// What is known of arguments that are kept apart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Large {
    /// Where they are: JSON text.
    pub blob: BlobRef,
    /// How much of it there is.
    pub size_bytes: u64,
    /// How long the call may take.
    pub deadline_ms: u64,
    /// Whether it may be made again when it may have happened.
    pub repeat: Repeat,
    /// Why they cannot be used, if so.
    pub refused: Option<String>,
}

impl OpenCall {
    /// About how much of a state it takes.
    pub fn size(&self) -> usize {
        128 + self.call.size()
    }
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallState {
    /// Not begun.
    Waiting,
    /// Somebody has to decide first.
    Asking {
        /// The question.
        action: ActionId,
        /// Until when.
        expires: Option<Timestamp>,
        /// Whether the decision is about a permission, and the tool runs when it is granted.
        permission: bool,
    },
    /// An effect or a timer is on its way.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// Children are on their way.
    Joining {
        /// Which group of children.
        group: u32,
        /// Since when.
        since: Timestamp,
    },
    /// Observed.
    Done,
}
