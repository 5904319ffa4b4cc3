//! The JSON Schema of events, from the types.

use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use super::{
    id::SessionId,
    ids::Ids,
    payload::{Benchmark, Comparison, CursorText, EventType, Reward, Trajectory},
    time::Time,
};

/// The schema of an event in its envelope: the ids and the payload that each class has.
///
/// `docs/schemas/event.schema.json` is this.
pub fn event_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut properties = properties(&mut generator);
    let classes: Vec<Value> = EventType::ALL.iter().map(|class| rule(*class, &mut generator)).collect();
    let id = Value::from(generator.subschema_for::<SessionId>());
    properties.extend(Ids::PLACES.iter().map(|place| (place.wire.to_owned(), id.clone())));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cadre event",
        "description": "One fact in the feed of a session, in the envelope of the Agent Runtime standard.",
        "type": "object",
        "required": [
            "type", "eventId", "timestamp", "schemaVersion", "runtimeId", "sessionId", "sequence", "streamId",
            "cursor", "payload",
        ],
        "properties": properties,
        "allOf": classes,
        "$defs": generator.take_definitions(true),
    })
}

/// What any event may have at the top.
fn properties(generator: &mut SchemaGenerator) -> Map<String, Value> {
    let text = json!({ "type": "string", "minLength": 1 });
    let entries = [
        ("type", generator.subschema_for::<EventType>().into()),
        ("eventId", text.clone()),
        ("timestamp", generator.subschema_for::<Time>().into()),
        // A setting of whoever publishes: a newer profile may have another name.
        ("schemaVersion", text.clone()),
        ("runtimeId", text.clone()),
        ("sessionId", generator.subschema_for::<SessionId>().into()),
        ("sequence", json!({ "type": "integer", "minimum": 0 })),
        ("streamId", text.clone()),
        ("cursor", generator.subschema_for::<CursorText>().into()),
        ("traceId", text.clone()),
        ("spanId", text.clone()),
        ("nativeType", text.clone()),
        ("payload", json!({ "type": "object" })),
        ("status", text),
        ("refs", json!({ "type": "object" })),
        ("benchmark", generator.subschema_for::<Benchmark>().into()),
        ("comparison", generator.subschema_for::<Comparison>().into()),
        ("reward", generator.subschema_for::<Reward>().into()),
        ("trajectory", generator.subschema_for::<Trajectory>().into()),
    ];
    entries.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

/// What an event of one class must have.
fn rule(class: EventType, generator: &mut SchemaGenerator) -> Value {
    let payload = class.payload_schema(generator);
    let name = payload.get("$ref").and_then(Value::as_str).and_then(|name| name.rsplit('/').next());
    let always: Vec<&str> = name
        .and_then(|name| generator.definitions().get(name)?.get("required")?.as_array())
        .map(|fields| fields.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mirrored = class.mirrored().iter().filter(|field| always.contains(field));
    let required: Vec<&str> = class.required_ids().iter().chain(mirrored).copied().collect();
    let mut then = Map::from_iter([("properties".to_owned(), json!({ "payload": payload }))]);
    if !required.is_empty() {
        then.insert("required".to_owned(), json!(required));
    }
    json!({ "if": { "properties": { "type": { "const": class } } }, "then": then })
}
