//! Reading events: our own, and those of other runtimes that follow the standard.

use std::{borrow::Cow, fmt};

use cadre_cluster::feed::Cursor;
use serde::{Deserialize, Deserializer, de};

use super::{
    Fact,
    event::Event,
    id::SessionId,
    ids::{Ids, Place},
    payload::{EventType, Payload, PayloadOf},
    time::Time,
    trace::Trace,
};

/// An event of any runtime that follows the standard, with what the standard leaves open left open.
#[derive(Debug, Clone, PartialEq)]
pub struct Received {
    /// `eventId`
    pub event_id: String,
    /// `runtimeId`
    pub runtime_id: Option<String>,
    /// `schemaVersion`
    pub schema_version: Option<String>,
    /// `cursor`
    pub cursor: Option<Cursor>,
    /// `sessionId`
    pub session: Option<SessionId>,
    /// `streamId`
    pub stream: Option<String>,
    /// `sequence`
    pub sequence: Option<u64>,
    /// `traceId` and `spanId`
    pub trace: Option<Trace>,
    /// What it says.
    pub fact: Fact,
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Received { cursor, session, stream, sequence, trace, fact, .. } =
            Received::deserialize(deserializer)?;
        let missing = de::Error::missing_field;
        Ok(Self {
            cursor: cursor.ok_or_else(|| missing("cursor"))?,
            session: session.ok_or_else(|| missing("sessionId"))?,
            stream: stream.ok_or_else(|| missing("streamId"))?,
            sequence: sequence.ok_or_else(|| missing("sequence"))?,
            trace,
            fact,
        })
    }
}

/// The names at the top of an envelope.
enum Key {
    Type,
    EventId,
    Timestamp,
    SchemaVersion,
    RuntimeId,
    SessionId,
    Sequence,
    StreamId,
    Cursor,
    TraceId,
    SpanId,
    NativeType,
    Payload,
    Id(Place),
    Other,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl de::Visitor<'_> for Name {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Key, E> {
                Ok(match name {
                    "type" => Key::Type,
                    "eventId" => Key::EventId,
                    "timestamp" => Key::Timestamp,
                    "schemaVersion" => Key::SchemaVersion,
                    "runtimeId" => Key::RuntimeId,
                    "sessionId" => Key::SessionId,
                    "sequence" => Key::Sequence,
                    "streamId" => Key::StreamId,
                    "cursor" => Key::Cursor,
                    "traceId" => Key::TraceId,
                    "spanId" => Key::SpanId,
                    "nativeType" => Key::NativeType,
                    "payload" => Key::Payload,
                    _ => Ids::place(name).map_or(Key::Other, Key::Id),
                })
            }
        }

        deserializer.deserialize_identifier(Name)
    }
}

/// A payload whose class is not known yet, because its name came later, or a read one.
enum Content {
    Waiting(serde_json::Value),
    Read(Payload),
}

impl<'de> Deserialize<'de> for Received {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Top)
    }
}

struct Top;

impl<'de> de::Visitor<'de> for Top {
    type Value = Received;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Received, A::Error> {
        let (mut class, mut event_id, mut time, mut content) = (None::<EventType>, None, None::<Time>, None);
        let (mut runtime_id, mut schema_version, mut cursor, mut session) = (None, None, None, None);
        let (mut stream, mut sequence, mut trace_id, mut span_id) = (None, None, None, None);
        let (mut native, mut ids) = (None, Ids::default());
        while let Some(key) = map.next_key()? {
            match key {
                Key::Type => class = Some(map.next_value()?),
                Key::EventId => event_id = Some(map.next_value()?),
                Key::Timestamp => time = Some(map.next_value()?),
                Key::SchemaVersion => schema_version = map.next_value()?,
                Key::RuntimeId => runtime_id = map.next_value()?,
                Key::SessionId => session = map.next_value()?,
                Key::Sequence => sequence = map.next_value()?,
                Key::StreamId => stream = map.next_value()?,
                Key::Cursor => cursor = map.next_value()?,
                Key::TraceId => trace_id = map.next_value()?,
                Key::SpanId => span_id = map.next_value()?,
                Key::NativeType => native = map.next_value()?,
                Key::Payload => {
                    content = Some(match class {
                        Some(class) => Content::Read(map.next_value_seed(PayloadOf(class))?),
                        None => Content::Waiting(map.next_value()?),
                    });
                }
                Key::Id(place) => {
                    if let Some(id) = map.next_value::<Option<Cow<'de, str>>>()? {
                        ids.set(place, &id).map_err(de::Error::custom)?;
                    }
                }
                Key::Other => drop(map.next_value::<de::IgnoredAny>()?),
            }
        }
        let missing = de::Error::missing_field;
        let class = class.ok_or_else(|| missing("type"))?;
        let payload = match content.ok_or_else(|| missing("payload"))? {
            Content::Read(payload) => payload,
            Content::Waiting(value) => Payload::deserialize(class, value).map_err(de::Error::custom)?,
        };
        let Time(at) = time.ok_or_else(|| missing("timestamp"))?;
        Ok(Received {
            event_id: event_id.ok_or_else(|| missing("eventId"))?,
            runtime_id,
            schema_version,
            cursor,
            session,
            stream,
            sequence,
            trace: trace_id.map(|trace_id| Trace { trace_id, span_id }),
            fact: Fact { at, ids, native, payload },
        })
    }
}
