//! What a model is told besides what the user says: tools of the client, context, and what was said before.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::Number;

use super::{
    input::{Context, Tool},
    message::Message,
};

/// JSON whose fields keep the order in which they were written.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the kinds of JSON")]
pub enum Ordered {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Ordered>),
    Object(Vec<(String, Ordered)>),
}

impl Default for Ordered {
    fn default() -> Self {
        Self::Object(Vec::new())
    }
}

/// The tools of a client, as the model reads them; none when there are none. The format is a contract.
pub fn build_tools_prompt(tools: &[Tool]) -> Option<String> {
    if tools.is_empty() {
        return None;
    }
    let mut text = String::from("<!-- TOOLS_START -->\n");
    for Tool { name, description, parameters } in tools {
        let schema = serde_json::to_string(parameters).expect("JSON serializes into memory without fail");
        text.push_str(&format!("- {name}: {description}\n- args_schema: {schema}\n"));
    }
    text.push_str("Note: tool arguments must strictly match args_schema.\n<!-- TOOLS_END -->");
    Some(text)
}

/// What the model should know, in the same manner.
pub fn build_context_prompt(context: &[Context]) -> Option<String> {
    let lines: Vec<_> =
        context.iter().map(|Context { description, value }| format!("- {description}: {value}\n")).collect();
    (!lines.is_empty()).then(|| format!("<!-- CONTEXT_START -->\n{}<!-- CONTEXT_END -->", lines.concat()))
}

/// The other messages, one line of JSON each.
pub fn build_messages_prompt(messages: &[Message]) -> Option<String> {
    let lines: Vec<_> = messages
        .iter()
        .map(|message| {
            serde_json::to_string(message).expect("JSON serializes into memory without fail") + "\n"
        })
        .collect();
    (!lines.is_empty()).then(|| format!("<!-- MESSAGES_START -->\n{}<!-- MESSAGES_END -->", lines.concat()))
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(values) => values.serialize(serializer),
            Self::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Ordered, E> {
                Ok(Ordered::Null)
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Ordered, E> {
                Ok(Ordered::Bool(value))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Ordered, E> {
                Ok(Ordered::Number(number.into()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Ordered, E> {
                Ok(Ordered::Number(number.into()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Ordered, E> {
                Number::from_f64(number).map(Ordered::Number).ok_or_else(|| E::custom("must be a number"))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Ordered, E> {
                Ok(Ordered::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ordered, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = seq.next_element()? {
                    values.push(value);
                }
                Ok(Ordered::List(values))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut fields: Vec<(String, Ordered)> = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Ordered::Object(fields))
            }
        }

        deserializer.deserialize_any(Any)
    }
}
