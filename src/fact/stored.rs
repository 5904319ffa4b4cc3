//! Facts as feeds keep them.
//!
//! One byte of version, then a MessagePack array: time, class, stream, sequence, trace, native name, ids by number,
//! payload. Session, runtime, schema version, cursor and event id are not in it: whoever reads it knows them. The
//! payload is a map with names, so that a class can gain fields without a new version.

use std::fmt;

use bytes::Bytes;
use cadre_cluster::{clock::Timestamp, codec::DecodeError, feed::Cursor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};

use super::{
    Fact,
    event::Event,
    id::SessionId,
    ids::{Ids, Place},
    payload::{EventType, PayloadOf},
    trace::Trace,
};

/// A fact with its place in its stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// The entity that says it, as `kind:id`.
    pub stream: String,
    /// Which of that entity's facts it is.
    pub sequence: u64,
    /// The trace that it belongs to.
    pub trace: Option<Trace>,
    /// What it says.
    pub fact: Fact,
}

impl StoredEvent {
    const NAME: &'static str = "fact";
    const VERSION: u8 = 1;
    const FIELDS: usize = 8;

    /// The bytes that are kept.
    pub fn encode(&self) -> Bytes {
        let Self { stream, sequence, trace, fact } = self;
        let trace = trace.as_ref().map(|trace| (&trace.trace_id, &trace.span_id));
        let fields = (
            fact.at,
            fact.event_type(),
            stream,
            sequence,
            trace,
            &fact.native,
            Numbered(&fact.ids),
            &fact.payload,
        );
        let mut bytes = Vec::with_capacity(256);
        bytes.push(Self::VERSION);
        let mut serializer = rmp_serde::Serializer::new(&mut bytes).with_struct_map();
        fields.serialize(&mut serializer).expect("facts serialize into memory without fail");
        bytes.into()
    }

    /// What was kept.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let name = Self::NAME;
        let (version, body) = bytes.split_first().ok_or(DecodeError::Empty { name })?;
        if *version != Self::VERSION {
            return Err(DecodeError::Version { name, found: *version, known: Self::VERSION });
        }
        let mut deserializer = rmp_serde::Deserializer::from_read_ref(body);
        deserializer
            .deserialize_tuple(Self::FIELDS, Fields)
            .map_err(|error| DecodeError::Malformed { name, reason: error.to_string() })
    }

    /// As it is read, from the feed of a session.
    pub fn at(self, session: SessionId, cursor: Cursor) -> Event {
        let Self { stream, sequence, trace, fact } = self;
        Event { cursor, session, stream, sequence, trace, fact }
    }
}

struct Fields;

impl<'de> de::Visitor<'de> for Fields {
    type Value = StoredEvent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of {} fields", StoredEvent::FIELDS)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut fields: A) -> Result<StoredEvent, A::Error> {
        fn next<'de, T: Deserialize<'de>, A: de::SeqAccess<'de>>(
            fields: &mut A,
            index: usize,
        ) -> Result<T, A::Error> {
            fields.next_element()?.ok_or_else(|| de::Error::invalid_length(index, &Fields))
        }
        let at: Timestamp = next(&mut fields, 0)?;
        let class: EventType = next(&mut fields, 1)?;
        let stream = next(&mut fields, 2)?;
        let sequence = next(&mut fields, 3)?;
        let trace: Option<(Box<str>, Option<Box<str>>)> = next(&mut fields, 4)?;
        let native = next(&mut fields, 5)?;
        let OwnNumbered(ids) = next(&mut fields, 6)?;
        let payload = fields.next_element_seed(PayloadOf(class))?;
        let payload = payload.ok_or_else(|| de::Error::invalid_length(7, &self))?;
        let trace = trace.map(|(trace_id, span_id)| Trace { trace_id, span_id });
        Ok(StoredEvent { stream, sequence, trace, fact: Fact { at, ids, native, payload } })
    }
}

/// Ids under the numbers of their places.
struct Numbered<'a>(&'a Ids);

impl Serialize for Numbered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.count()))?;
        self.0.visit(|place, id| map.serialize_entry(&place.number, id))?;
        map.end()
    }
}

struct OwnNumbered(Ids);

impl<'de> Deserialize<'de> for OwnNumbered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;

        impl<'de> de::Visitor<'de> for Map {
            type Value = OwnNumbered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("ids by number")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<OwnNumbered, A::Error> {
                let mut ids = Ids::default();
                while let Some((number, id)) = map.next_entry::<u8, std::borrow::Cow<'de, str>>()? {
                    ids.set(Place { number, wire: "" }, &id).map_err(de::Error::custom)?;
                }
                Ok(OwnNumbered(ids))
            }
        }

        deserializer.deserialize_map(Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::{id::*, payload::ModelDelta, scope::TurnScope};

    fn delta() -> StoredEvent {
        let scope =
            TurnScope { thread: ThreadId::parse("thrd_1").unwrap(), turn: TurnId::parse("turn_1").unwrap() };
        let fact = Fact::new(Timestamp(1), scope, ModelDelta { text: "hi".into(), ..ModelDelta::default() });
        let fact = fact.with(RequestId::parse("mreq_1").unwrap());
        StoredEvent { stream: "session:s".into(), sequence: 7, trace: None, fact }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// An array of 8: 1, "model.delta", "session:s", 7, nil, nil, ids by number, the payload by name.
    const GOLDEN: &str = "019801ab6d6f64656c2e64656c7461a973657373696f6e3a7307c0c0\
                          8301a6746872645f3102a67475726e5f3112a66d7265715f3181a474657874a26869";

    #[test]
    fn stored_facts_never_change_their_layout() {
        let bytes = delta().encode();
        assert_eq!(hex(&bytes), GOLDEN, "the layout of stored facts has changed: it needs a new version");
        assert_eq!(StoredEvent::decode(&bytes), Ok(delta()));
    }

    #[test]
    fn every_part_of_a_stored_fact_comes_back() {
        let mut event = delta();
        event.fact.native = Some("acme.delta".into());
        event.trace = Some(Trace { trace_id: "t".into(), span_id: Some("s".into()) });
        assert_eq!(StoredEvent::decode(&event.encode()), Ok(event.clone()));
        event.trace = Some(Trace { trace_id: "t".into(), span_id: None });
        assert_eq!(StoredEvent::decode(&event.encode()), Ok(event));
    }

    #[test]
    fn what_is_not_a_stored_fact_is_refused_and_a_newer_one_named() {
        let bytes = delta().encode();
        assert!((0..bytes.len()).all(|len| StoredEvent::decode(&bytes[..len]).is_err()));
        let newer = [&[2], &bytes[1..]].concat();
        assert!(matches!(StoredEvent::decode(&newer), Err(DecodeError::Version { found: 2, known: 1, .. })));
    }
}
