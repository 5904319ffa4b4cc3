//! Decisions that are waited for.

use serde_json::Value;

use super::{
    bound::{self, NAME_MAX, WORD_MAX, cut, cut_some},
    declare::views,
};
use crate::fact::{
    Fact,
    id::{ActionId, ThreadId, TurnId},
    payload::ActionRequired,
    time::Time,
};

/// A question is cut later than other texts: somebody has to decide on it.
const PROMPT_MAX: usize = 512;
const SCHEMA_MAX: usize = 512;
const DECISIONS_MAX: usize = 8;

views! {
    /// A decision that is waited for.
    PendingRequest {
        /// Which.
        action_id: ActionId,
        /// What for: `tool_permission`, `approval`, `input`, …
        action_type: String,
        /// The question.
        prompt: String,
        /// Since when.
        since: Time,
        ..
        /// The answers that there are.
        decisions: Vec<String>,
        /// What the answer's payload must look like, unless that is long: then the fact has it.
        schema: Option<Value>,
        /// When it is decided without an answer.
        expires_at: Option<Time>,
        /// The tool that it is about.
        tool_name: Option<String>,
        /// What kind of answer is wanted.
        decision_kind: Option<String>,
        /// How bad it can get.
        risk: Option<String>,
        /// The thread that waits.
        thread_id: Option<ThreadId>,
        /// The turn that waits.
        turn_id: Option<TurnId>,
    }
}

impl PendingRequest {
    pub(super) fn new(action_id: ActionId, fact: &Fact, required: &ActionRequired) -> Self {
        Self {
            action_id,
            action_type: cut(&required.action_type, WORD_MAX),
            prompt: cut(&required.prompt, PROMPT_MAX),
            since: bound::time(fact.at),
            decisions: required
                .decisions
                .iter()
                .take(DECISIONS_MAX)
                .map(|word| cut(word, WORD_MAX))
                .collect(),
            schema: required.schema.as_ref().and_then(|schema| bound::value(schema, SCHEMA_MAX)),
            expires_at: required.expires_at.map(bound::time),
            tool_name: cut_some(required.tool_name.as_deref(), NAME_MAX),
            decision_kind: cut_some(required.decision_kind.as_deref(), WORD_MAX),
            risk: cut_some(required.risk.as_deref(), WORD_MAX),
            thread_id: fact.ids.thread().cloned(),
            turn_id: fact.ids.turn().cloned(),
        }
    }

    /// Whether something to go on with is wanted, rather than a yes or a no.
    pub fn wants_input(&self) -> bool {
        self.action_type.contains("input")
    }
}
