//! Permissions and processes.

use super::declare::results;
use crate::{
    control::args::PermissionScope,
    fact::{
        id::{ActionId, ProcessId},
        payload::Decision,
        status::{ActionStatus, ProcessStatus},
    },
};

results! {
    /// Whether something may be done.
    PermissionVerdict {
        /// `allow`, `deny`, or `ask` when somebody would have to be asked.
        decision: Decision,
        /// What decided: `mode`, `rule`, `hook`, `classifier`, `human`, `host`.
        source: String,
        ..
        /// Why.
        reason: Option<String>,
        /// The mode that holds.
        mode: Option<String>,
        /// The rules that were looked at, in their order.
        rules: Vec<VerdictRule>,
    }

    /// One rule that was looked at.
    VerdictRule {
        /// Which.
        rule: String,
        /// What it says.
        decision: Decision,
        /// Whether it decided.
        decisive: bool,
        ..
        /// Where it is from: `tenant`, `agent`, `session`, …
        source: Option<String>,
    }

    /// A permission that was decided.
    PermissionState {
        /// The action.
        action_id: ActionId,
        /// Resolved.
        status: ActionStatus,
        /// What was decided.
        decision: Decision,
        /// How far it reaches.
        scope: PermissionScope,
    }

    /// How a process stands.
    ProcessState {
        /// The process.
        process_id: ProcessId,
        /// Where it stands.
        status: ProcessStatus,
        ..
        /// How much it was given.
        written_bytes: Option<u64>,
    }
}
