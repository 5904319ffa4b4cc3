//! Facts out of a seed, made after the schemas of their classes, so that a new class or field is covered by itself.

use std::sync::OnceLock;

use cadre_cluster::{
    clock::Timestamp,
    feed::Cursor,
    store::{Stamp, Version},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::fact::{Event, EventType, Fact, Ids, Payload, Time, Trace, id::SessionId};

struct Schemas {
    payloads: Vec<Value>,
    definitions: Map<String, Value>,
}

fn schemas() -> &'static Schemas {
    static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let mut generator = SchemaSettings::draft2020_12().into_generator();
        let payloads =
            EventType::ALL.iter().map(|class| class.payload_schema(&mut generator).into()).collect();
        Schemas { payloads, definitions: generator.take_definitions(true) }
    })
}

/// An event of a class.
pub(super) fn event(class: EventType, seed: u64) -> Event {
    let random = &mut StdRng::seed_from_u64(seed);
    let index = EventType::ALL.iter().position(|other| *other == class).unwrap();
    let payload = value(&schemas().payloads[index], random);
    let payload = Payload::deserialize(class, payload.clone())
        .unwrap_or_else(|error| panic!("{class} does not read its own schema: {error}: {payload}"));
    let mut ids = Ids::default();
    for place in Ids::PLACES {
        if class.required_ids().contains(&place.wire) || random.random_ratio(1, 4) {
            ids.set(*place, &id(random)).unwrap();
        }
    }
    let native = random.random_bool(0.25).then(|| text(random).into());
    let at = Timestamp(random.random_range(0..4_000_000_000_000));
    let trace = random.random_bool(0.5).then(|| Trace {
        trace_id: format!("{:032x}", random.random::<u128>()).into(),
        span_id: random.random_bool(0.5).then(|| format!("{:016x}", random.random::<u64>()).into()),
    });
    Event {
        cursor: Cursor::new(
            random.random(),
            Stamp::new(Version(random.random()), random.random()),
            random.random(),
        ),
        session: SessionId::parse(&id(random)).unwrap(),
        stream: format!("session:{}", id(random)),
        sequence: random.random(),
        trace,
        fact: Fact { at, ids, native, payload },
    }
}

/// Something that a schema allows.
fn value(schema: &Value, random: &mut StdRng) -> Value {
    let Value::Object(schema) = schema else { return free(random) };
    if let Some(Value::String(name)) = schema.get("$ref") {
        return value(&schemas().definitions[name.rsplit('/').next().unwrap()], random);
    }
    if let Some(one) = schema.get("const") {
        return one.clone();
    }
    for choice in ["enum", "oneOf", "anyOf"] {
        if let Some(Value::Array(choices)) = schema.get(choice) {
            let chosen = &choices[random.random_range(0..choices.len())];
            return if choice == "enum" { chosen.clone() } else { value(chosen, random) };
        }
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds[0].as_str().unwrap(),
        Some(kind) => kind.as_str().unwrap(),
        None => return free(random),
    };
    match kind {
        "object" => object(schema, random),
        "array" => (0..random.random_range(0..3)).map(|_| value(&schema["items"], random)).collect(),
        "string" => match (schema.get("pattern"), schema.get("format")) {
            (Some(pattern), _) if pattern == "^[0-9a-f]{32}$" => {
                format!("{:032x}", random.random::<u128>()).into()
            }
            (Some(_), _) => id(random).into(),
            (_, Some(_)) => Time(Timestamp(random.random_range(0..4_000_000_000_000))).to_string().into(),
            _ => text(random).into(),
        },
        "integer" => match schema.get("format").and_then(Value::as_str) {
            Some("uint32") => random.random::<u32>().into(),
            Some("uint64") => random.random::<u64>().into(),
            Some("int32") => random.random::<i32>().into(),
            Some("int64") => random.random::<i64>().into(),
            other => panic!("no samples of {other:?}"),
        },
        "number" => number(random),
        "boolean" => random.random::<bool>().into(),
        "null" => Value::Null,
        other => panic!("no samples of {other}"),
    }
}

fn object(schema: &Map<String, Value>, random: &mut StdRng) -> Value {
    let mut object = Map::new();
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for (name, schema) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if required.iter().any(|required| required == name) || random.random() {
            object.insert(name.clone(), value(schema, random));
        }
    }
    if let Some(schema) = schema.get("additionalProperties") {
        for _ in 0..random.random_range(0..3) {
            object.insert(text(random), value(schema, random));
        }
    }
    object.into()
}

/// Content of any shape.
fn free(random: &mut StdRng) -> Value {
    match random.random_range(0..5) {
        0 => json!({ "a": [1, -1, null, true], "b": { "c": text(random) } }),
        1 => text(random).into(),
        2 => number(random),
        3 => random.random::<u64>().into(),
        _ => json!([]),
    }
}

/// Eighths, which every encoding keeps exactly.
fn number(random: &mut StdRng) -> Value {
    (f64::from(random.random_range(-80_000..80_000)) / 8.0).into()
}

fn id(random: &mut StdRng) -> String {
    let letters = b"abcXYZ019._:-";
    (0..random.random_range(1..40))
        .map(|_| char::from(letters[random.random_range(0..letters.len())]))
        .collect()
}

fn text(random: &mut StdRng) -> String {
    let letters = ['a', 'Z', ' ', '"', '\\', '/', 'é', '語', '🦀'];
    (0..random.random_range(1..12)).map(|_| letters[random.random_range(0..letters.len())]).collect()
}
