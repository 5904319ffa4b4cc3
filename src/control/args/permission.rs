//! Who may do what.

use serde_json::{Value, json};

use super::declare::arguments;
use crate::{
    control::{check, command::Arguments, error::Error, words::words},
    fact::{
        id::{ActionId, SessionId, ThreadId, TurnId},
        payload::Decision,
    },
};

words! {
    /// How far a permission reaches.
    PermissionScope {
        /// This one time.
        Once = "once",
        /// For the rest of the turn.
        Turn = "turn",
        /// For the rest of the thread.
        Thread = "thread",
        /// For the rest of the session.
        Session = "session",
    }
}

arguments! {
    /// Asks whether something may be done, as if it were about to be: by rules, modes, hooks and policy. Nothing is
    /// done, and nobody is asked; the session keeps the judgement as `permission.evaluated`. Exactly one of `tool`,
    /// `process` and `action` must be there.
    EvaluatePermission {
        /// The session, whose policy counts.
        session_id: SessionId,
        ..
        /// The thread; by default the session's first, or that of the turn.
        thread_id: Option<ThreadId>,
        /// The turn in which it would be done, while it runs or waits. Without one, the judgement belongs to no turn.
        turn_id: Option<TurnId>,
        /// The tool that would be called.
        tool: Option<String>,
        /// The program that would be run.
        process: Option<String>,
        /// What else would be done.
        action: Option<String>,
        /// With what, at most 64 KiB as JSON.
        args: Option<Value>,
    }

    /// Answers a request for permission. A deny beats every allow. An answer reaches this one time: a `scope` that is
    /// wider is refused, because nothing would apply it.
    ResolvePermission {
        /// The action, as `permission.requested` named it.
        action_id: ActionId,
        /// `allow` or `deny`.
        decision: Decision,
        ..
        /// How far it reaches: `once`.
        scope: PermissionScope,
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }
}

impl Arguments for EvaluatePermission {
    fn check(&self) -> Result<(), Error> {
        check::exactly_one(&[
            ("tool", self.tool.is_some()),
            ("process", self.process.is_some()),
            ("action", self.action.is_some()),
        ])?;
        check::name("tool", self.tool.as_deref())?;
        check::line("process", self.process.as_deref(), check::REASON_BYTES_MAX)?;
        check::name("action", self.action.as_deref())?;
        check::json("args", &self.args, check::PAYLOAD_BYTES_MAX)
    }

    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "tool": "write_file", "args": { "path": "notes.md" } })
    }
}

impl Arguments for ResolvePermission {
    fn check(&self) -> Result<(), Error> {
        if self.decision == Decision::Ask {
            return Err(Error::invalid("decision", "must be allow or deny: to ask again decides nothing"));
        }
        if self.scope != PermissionScope::Once {
            return Err(Error::invalid("scope", "must be once: nothing applies a wider one yet"));
        }
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({ "actionId": "actn_1", "decision": "allow", "scope": "once" })
    }
}
