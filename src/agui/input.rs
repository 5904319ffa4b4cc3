//! The body of a run, as types: what is there, not yet whether it may be.
//!
//! The body is read twice. Once into values, whose reader says which field is wrong; and once more for the parameters
//! of tools, whose fields must come to the model in the order in which the client wrote them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{message::Message, prompt::Ordered, rules};
use crate::control::{Error, read};

/// What a run is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInput {
    /// The conversation.
    pub thread_id: String,
    /// The run.
    pub run_id: String,
    /// The run that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// What the client shows besides messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Value>,
    /// What was said.
    pub messages: Vec<Message>,
    /// What the client can do for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<Tool>>,
    /// What the model should know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<Context>>,
    /// The client's own: `agent` says who answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_props: Option<Value>,
}

/// A tool of the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments, fields in the order in which they were written.
    #[serde(default)]
    pub parameters: Ordered,
}

/// Something that the model should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// What it is.
    pub description: String,
    /// The thing itself.
    pub value: String,
}

/// Only what has an order.
#[derive(Deserialize)]
struct Tools {
    #[serde(default)]
    tools: Option<Vec<Tool>>,
}

impl RunInput {
    /// Reads a body and holds it against all [`rules`].
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        rules::size(body.len())?;
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| Error::invalid("", format_args!("the body is not JSON: {error}")))?;
        if !value.is_object() {
            return Err(Error::invalid("", "the body must be a JSON object, a RunAgentInput"));
        }
        let mut input: Self = read::from_value(value)?;
        if input.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
            let tools: Tools =
                serde_json::from_slice(body).map_err(|error| Error::invalid("tools", error))?;
            input.tools = tools.tools;
            // As elsewhere, `null` is the same as absent.
            let parameters = input.tools.iter_mut().flatten().map(|tool| &mut tool.parameters);
            parameters
                .filter(|parameters| **parameters == Ordered::Null)
                .for_each(|one| *one = Ordered::default());
        }
        rules::check(&input)?;
        Ok(input)
    }

    /// What was asked: the one message of the user, which the rules promise.
    pub fn asked(&self) -> Option<&Message> {
        self.messages.first()
    }

    /// Who shall answer.
    pub fn agent(&self) -> Option<&str> {
        self.forwarded_props.as_ref()?.get("agent")?.as_str()
    }

    /// The state that the client begins with, when it says something.
    pub fn state(&self) -> Option<&Value> {
        self.state.as_ref().filter(|state| state.as_object().is_none_or(|fields| !fields.is_empty()))
    }

    /// A hash of all that counts, by which the same body is recognised.
    pub fn digest(&self) -> String {
        let json = serde_json::to_vec(self).expect("what was read from JSON can be written as JSON");
        Sha256::digest(&json).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}
