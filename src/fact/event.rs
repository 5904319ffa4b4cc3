//! Facts as they are read: with their place in the feed of a session, and in the envelope of the standard.

use cadre_cluster::feed::Cursor;
use serde::{Serialize, Serializer, ser::SerializeMap};

use super::{Fact, id::SessionId, time::Time, trace::Trace};

/// A fact in the feed of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Where it stands in the feed.
    pub cursor: Cursor,
    /// Whose feed.
    pub session: SessionId,
    /// The entity that says it, as `kind:id`.
    pub stream: String,
    /// Which of that entity's facts it is.
    pub sequence: u64,
    /// The trace that it belongs to.
    pub trace: Option<Trace>,
    /// What it says.
    pub fact: Fact,
}

impl Event {
    /// Its id: unique, and in the order of the feed.
    pub fn event_id(&self) -> String {
        format!("evt_{}", self.cursor)
    }
}

/// Who publishes events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publisher {
    /// Which installation of which runtime.
    pub runtime_id: String,
    /// By which version of which schema.
    pub schema_version: String,
}

impl Publisher {
    /// The version of the Agent Runtime profile that events follow.
    pub const SCHEMA_VERSION: &'static str = "lime-profile-0.4.0";

    /// A publisher of events of [that version](Self::SCHEMA_VERSION).
    pub fn new(runtime_id: impl Into<String>) -> Self {
        Self { runtime_id: runtime_id.into(), schema_version: Self::SCHEMA_VERSION.into() }
    }

    /// An event in its envelope, to be serialized.
    pub fn envelope<'a>(&'a self, event: &'a Event) -> Envelope<'a> {
        Envelope { publisher: self, event }
    }
}

impl Default for Publisher {
    fn default() -> Self {
        Self::new("cadre")
    }
}

/// An event as it is sent. What readers of the standard look for at the top is repeated there.
#[derive(Debug, Clone, Copy)]
pub struct Envelope<'a> {
    publisher: &'a Publisher,
    event: &'a Event,
}

impl Serialize for Envelope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Event { cursor, session, stream, sequence, trace, fact } = self.event;
        let mut map = serializer.serialize_map(None)?;
        // First, so that a reader knows the class when it comes to the payload.
        map.serialize_entry("type", &fact.event_type())?;
        map.serialize_entry("eventId", &self.event.event_id())?;
        map.serialize_entry("timestamp", &Time(fact.at))?;
        map.serialize_entry("schemaVersion", &self.publisher.schema_version)?;
        map.serialize_entry("runtimeId", &self.publisher.runtime_id)?;
        map.serialize_entry("sessionId", session)?;
        fact.ids.visit(|place, id| map.serialize_entry(place.wire, id))?;
        map.serialize_entry("sequence", sequence)?;
        map.serialize_entry("streamId", stream)?;
        map.serialize_entry("cursor", cursor)?;
        if let Some(trace) = trace {
            map.serialize_entry("traceId", &trace.trace_id)?;
            optional(&mut map, "spanId", trace.span_id.as_ref())?;
        }
        optional(&mut map, "nativeType", fact.native.as_ref())?;
        let mirror = fact.payload.mirror();
        optional(&mut map, "status", mirror.status)?;
        optional(&mut map, "refs", mirror.refs)?;
        optional(&mut map, "benchmark", mirror.benchmark)?;
        optional(&mut map, "comparison", mirror.comparison)?;
        optional(&mut map, "reward", mirror.reward)?;
        optional(&mut map, "trajectory", mirror.trajectory)?;
        map.serialize_entry("payload", &fact.payload)?;
        map.end()
    }
}

fn optional<M: SerializeMap>(
    map: &mut M,
    key: &'static str,
    value: Option<impl Serialize>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, &value))
}
