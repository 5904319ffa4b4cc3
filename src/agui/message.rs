//! Messages as clients send them.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        self, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use serde_json::{Map, Value};

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Role {
    User,
    Assistant,
    System,
    Tool,
    Developer,
    Reasoning,
    Activity,
}

/// A message of any role. What only some roles have is absent with the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its id, the client's own.
    pub id: String,
    /// Who says it.
    pub role: Role,
    /// What is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// Who says it, as people call them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The calls that an assistant asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCall>>,
    /// The call that a tool answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// How the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// A provider's own, passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_value: Option<String>,
}

/// A call that an assistant asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Which function.
    pub function: Function,
    /// A provider's own, passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encrypted_value: Option<String>,
}

/// A function with its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// What it is called.
    pub name: String,
    /// JSON, as text.
    pub arguments: String,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Content {
    /// Words.
    Text(String),
    /// Parts.
    Blocks(Vec<Block>),
    /// What an activity shows.
    Object(Map<String, Value>),
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Block {
    /// `text`, `binary`, or `image` as later versions of AG-UI say it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The words of a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What a binary is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// A binary's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where a binary is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A binary itself, which is not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Where an `image` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// Where an `image` is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// `url` or `data`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The URL, or the data.
    pub value: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// A binary, however it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binary<'a> {
    /// What it is said to be.
    pub mime_type: Option<&'a str>,
    /// Where it is.
    pub url: Option<&'a str>,
    /// Whether it brings its data along.
    pub has_data: bool,
}

impl Block {
    /// The binary that it is, if it is one.
    pub fn binary(&self) -> Option<Binary<'_>> {
        let text = Option::as_deref;
        match (self.kind.as_str(), &self.source) {
            ("image", Some(source)) => Some(Binary {
                mime_type: text(&source.mime_type).or(Some("image/*")),
                url: (source.kind == "url").then_some(source.value.as_str()),
                has_data: source.kind == "data",
            }),
            ("binary" | "image", _) => Some(Binary {
                mime_type: text(&self.mime_type),
                url: text(&self.url),
                has_data: self.data.is_some(),
            }),
            _ => None,
        }
    }
}

impl Content {
    /// All its words.
    pub fn texts(&self) -> Vec<&str> {
        match self {
            Self::Text(text) => vec![text],
            Self::Blocks(blocks) => blocks
                .iter()
                .filter(|block| block.kind == "text")
                .filter_map(|block| block.text.as_deref())
                .collect(),
            Self::Object(_) => Vec::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of parts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, blocks: A) -> Result<Content, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(blocks)).map(Content::Blocks)
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Content, A::Error> {
                Map::deserialize(MapAccessDeserializer::new(fields)).map(Content::Object)
            }
        }

        deserializer.deserialize_any(Any)
    }
}
