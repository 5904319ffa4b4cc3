//! What later turns of a thread see of its past: taking turns back, and summing them up.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};

use super::declare::arguments;
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::id::{BlobRef, SessionId, ThreadId, TurnId},
};

arguments! {
    /// Takes the last turns of a thread back: later turns do not see them. They stay in the feed and in the pages of the
    /// history, where they say so, and what their tools did stays done. Exactly one of `toTurnId` and `turns` says how
    /// many. A thread in which a turn runs or waits is a conflict, and so is a turn that was taken back before: further
    /// back is possible, forward again is not.
    RollbackThread {
        /// The session.
        session_id: SessionId,
        ..
        /// The thread: the session's first when absent.
        thread_id: Option<ThreadId>,
        /// The turn that is the last one then, one of the last 257.
        to_turn_id: Option<TurnId>,
        /// How many turns are taken back, at most 256.
        turns: Option<u32>,
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }

    /// Lets a summary stand for the beginning of a thread: later turns see it in place of the turns up to a certain one.
    /// The turns stay in the feed and in the pages of the history. Taking that turn back takes the summary back, too. A
    /// thread in which a turn runs or waits is a conflict, and so is a turn that a summary stands for already.
    CompactContext {
        /// The session.
        session_id: SessionId,
        /// The summary: a text of at most 16 KiB, or `{"ref": "…"}` for one that is kept as a blob. That it is still
        /// there when it is needed is up to the caller.
        summary: SummaryText,
        ..
        /// The thread: the session's first when absent.
        thread_id: Option<ThreadId>,
        /// The last turn that it stands for, one of the last 257: the last of the history when absent.
        up_to_turn_id: Option<TurnId>,
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }
}

impl Arguments for RollbackThread {
    fn check(&self) -> Result<(), Error> {
        check::exactly_one(&[("toTurnId", self.to_turn_id.is_some()), ("turns", self.turns.is_some())])?;
        check::range("turns", self.turns, check::ROLLBACK_TURNS)?;
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "turns": 2, "reason": "the question was put wrongly" })
    }
}

impl Arguments for CompactContext {
    fn check(&self) -> Result<(), Error> {
        if let SummaryText::Text(text) = &self.summary {
            check::prose("summary", text)?;
        }
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({
            "sessionId": "sess_demo",
            "upToTurnId": "turn_2",
            "summary": "The user plans a trip to Lisbon in May and has booked the flights.",
        })
    }
}

/// A summary: here, or where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryText {
    /// All of it.
    Text(String),
    /// Where it is.
    Blob(BlobRef),
}

#[derive(Serialize, Deserialize)]
struct Elsewhere {
    #[serde(rename = "ref")]
    blob: BlobRef,
}

/// As it is stored: every field has its place, because a stored struct is an array.
type Plain = (Option<String>, Option<BlobRef>);

impl Serialize for SummaryText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) if serializer.is_human_readable() => text.serialize(serializer),
            Self::Text(text) => (Some(text), None::<BlobRef>).serialize(serializer),
            Self::Blob(blob) if serializer.is_human_readable() => {
                Elsewhere { blob: blob.clone() }.serialize(serializer)
            }
            Self::Blob(blob) => (None::<String>, Some(blob)).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SummaryText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> de::Visitor<'de> for Either {
            type Value = SummaryText;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text, or an object with a ref")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SummaryText, E> {
                Ok(SummaryText::Text(text.to_owned()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<SummaryText, A::Error> {
                let elsewhere = Elsewhere::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(SummaryText::Blob(elsewhere.blob))
            }
        }

        if deserializer.is_human_readable() {
            return deserializer.deserialize_any(Either);
        }
        match Plain::deserialize(deserializer)? {
            (_, Some(blob)) => Ok(Self::Blob(blob)),
            (Some(text), None) => Ok(Self::Text(text)),
            (None, None) => Err(de::Error::custom("neither a text nor a ref")),
        }
    }
}

impl JsonSchema for SummaryText {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SummaryText".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let blob = generator.subschema_for::<BlobRef>();
        json_schema!({
            "anyOf": [
                { "type": "string", "minLength": 1 },
                { "type": "object", "properties": { "ref": blob }, "required": ["ref"] },
            ],
        })
    }
}
