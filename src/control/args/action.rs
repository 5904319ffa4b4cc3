//! Decisions that are waited for.

use serde_json::{Value, json};

use super::declare::arguments;
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::id::ActionId,
};

arguments! {
    /// Answers an `action.required`. What waited for it goes on. The first answer counts; another one is a conflict.
    RespondAction {
        /// The action, as the fact named it.
        action_id: ActionId,
        /// One of the `decisions` that the fact listed, at most 128 characters.
        decision: String,
        ..
        /// What comes with it, in the form that the fact's `schema` asks for; at most 64 KiB as JSON.
        payload: Option<Value>,
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }
}

impl Arguments for RespondAction {
    fn check(&self) -> Result<(), Error> {
        check::name("decision", Some(&self.decision))?;
        check::json("payload", &self.payload, check::PAYLOAD_BYTES_MAX)?;
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({ "actionId": "actn_1", "decision": "allow", "reason": "read-only" })
    }
}
