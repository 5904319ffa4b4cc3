//! Who may do what, and who said so.

use serde_json::Value;

use super::{Object, declare::payloads};
use crate::fact::{id::ActionId, time::Time, words::words};

words! {
    /// What a rule, a hook, a policy or a person says.
    Decision { Deny = "deny", Ask = "ask", Allow = "allow" }
}

payloads! {
    /// One rule that was looked at.
    PermissionRule {
        /// Which.
        rule: String,
        /// What it says.
        decision: Decision,
        ..
        /// Where it is from: `tenant`, `agent`, `session`, …
        source: Option<String>,
        /// Whether it decided.
        decisive: bool,
    }

    /// It was decided whether something may be done.
    PermissionEvaluated {
        /// What was decided.
        decision: Decision,
        /// By what: `mode`, `rule`, `hook`, `classifier`, `human`, `host`.
        source: String,
        ..
        /// The tool that wants to.
        tool: Option<String>,
        /// The process that wants to.
        process: Option<String>,
        /// What it wants to do.
        action: Option<String>,
        /// Why.
        reason: Option<String>,
        /// The rules that were looked at.
        rules: Vec<PermissionRule>,
        /// The mode that holds.
        mode: Option<String>,
        /// Whether it cannot be undone.
        destructive: bool,
    }

    /// Somebody must say whether something may be done.
    PermissionRequested {
        /// Why it is asked.
        reason: String,
        ..
        /// The tool that wants to.
        tool: Option<String>,
        /// With what.
        args: Option<Value>,
        /// The decision that is waited for.
        action_id: Option<ActionId>,
        /// How far a yes would reach.
        scopes: Vec<String>,
        /// Until when it is waited.
        expires_at: Option<Time>,
        /// Whether it cannot be undone.
        destructive: bool,
    }

    /// Somebody said so.
    PermissionResolved {
        /// What.
        decision: Decision,
        /// Who or what: `human`, `policy`, `host`, `expiry`.
        source: String,
        ..
        /// The tool that it is about.
        tool: Option<String>,
        /// The decision that was waited for.
        action_id: Option<ActionId>,
        /// How far it reaches: `once`, `turn`, `session`, …
        scope: Option<String>,
        /// Who.
        by: Option<String>,
        /// Why.
        reason: Option<String>,
        /// What came with it.
        payload: Object,
    }
}
