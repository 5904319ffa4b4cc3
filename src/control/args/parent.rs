//! What subagents were made by.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::fact::id::{Id, InvalidId, SubagentId};

/// The id of what made subagents: a subagent, a turn or a task. Which of them it is, only their owner knows.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ParentId(SubagentId);

impl ParentId {
    /// The id that a text is.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        match SubagentId::parse(text) {
            Ok(id) => Ok(Self(id)),
            Err(refused) => Err(InvalidId { kind: "ParentId", ..refused }),
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The same text as an id of a kind.
    pub fn of<I: Id>(&self) -> I {
        I::parse(self.as_str()).expect("ids of all kinds have the same form")
    }
}

impl fmt::Display for ParentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ParentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ParentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for ParentId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ParentId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$" })
    }
}
