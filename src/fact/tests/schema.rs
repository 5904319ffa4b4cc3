//! That events are what the schemas say: ours, and the published ones when they are at hand.

use std::{env, fs, path::Path};

use jsonschema::Validator;
use serde_json::Value;

use super::sample;
use crate::fact::{EventType, Publisher, Received, event_schema};

const PUBLISHED: [&str; 2] =
    ["agentruntime-event.schema.json", "agentruntime-lime-profile-event.schema.json"];

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_schema_in_the_documentation_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas/event.schema.json");
    let current = serde_json::to_string_pretty(&event_schema()).unwrap() + "\n";
    if env::var_os("CADRE_UPDATE").is_some() {
        fs::write(&path, &current).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == current,
        "{} is out of date: CADRE_UPDATE=1 cargo test -p cadre renews it",
        path.display()
    );
}

#[test]
fn every_class_is_what_our_schema_says() {
    let ours = validator(&event_schema(), None);
    every_class_is_valid("our schema", &ours);

    let mut event = envelope(EventType::ToolStarted, 1);
    event.as_object_mut().unwrap().remove("toolCallId");
    assert!(!ours.is_valid(&event), "a tool call without its id");
    let mut event = envelope(EventType::TurnFailed, 1);
    event["payload"].as_object_mut().unwrap().remove("error");
    assert!(!ours.is_valid(&event), "a failed turn without its error");
}

#[test]
fn our_schema_takes_events_of_whatever_version_the_publisher_says() {
    let ours = validator(&event_schema(), None);
    let publisher = Publisher { schema_version: "lime-profile-9.9.9".into(), ..Publisher::default() };
    let event = sample::event(EventType::TurnStarted, 1);
    let mut event = serde_json::to_value(publisher.envelope(&event)).unwrap();
    assert!(ours.is_valid(&event), "{event:#}");
    event["schemaVersion"] = "".into();
    assert!(!ours.is_valid(&event), "a version without a name");
}

#[test]
fn every_class_is_what_the_published_schemas_say() {
    let Some(directory) = env::var_os("CADRE_CONFORMANCE_DIR") else {
        println!("the published schemas were not looked at: CADRE_CONFORMANCE_DIR is not set");
        return;
    };
    let directory = &Path::new(&directory).join("agentruntime");
    let public = read(&directory.join(PUBLISHED[0]));
    let known: Vec<_> = public["properties"]["type"]["enum"].as_array().unwrap().iter().collect();
    assert_eq!(known.len(), EventType::ALL.len());
    for name in known {
        EventType::parse(name.as_str().unwrap()).unwrap();
    }
    let fixtures: Vec<Value> = fs::read_dir(directory.join("fixtures"))
        .unwrap()
        .map(|entry| read(&entry.unwrap().path()))
        .filter(|fixture| fixture.get("type").is_some())
        .collect();
    assert!(!fixtures.is_empty());
    for name in PUBLISHED {
        let published = validator(&read(&directory.join(name)), Some(&public));
        every_class_is_valid(name, &published);
        for fixture in &fixtures {
            assert_valid(name, &published, fixture);
        }
    }
    for fixture in fixtures {
        fixture_is_understood(fixture);
    }
}

/// Nothing that a published event says is lost on us.
fn fixture_is_understood(fixture: Value) {
    let received: Received = serde_json::from_value(fixture.clone()).unwrap();
    assert_eq!(fixture["type"], received.fact.event_type().as_str());
    assert_eq!(fixture["payload"], serde_json::to_value(&received.fact.payload).unwrap());
    for (name, id) in serde_json::to_value(&received.fact.ids).unwrap().as_object().unwrap() {
        assert_eq!(fixture[name], *id);
    }
}

/// The profile refers to the public schema by a relative name, which becomes an address beside its own.
fn validator(schema: &Value, public: Option<&Value>) -> Validator {
    let mut options = jsonschema::options().should_validate_formats(true);
    if let Some(public) = public {
        let base = "https://limecloud.github.io/agentruntime/schemas/agentruntime-event.schema.json";
        options = options.with_resource(base, jsonschema::Resource::from_contents(public.clone()));
    }
    options.build(schema).unwrap()
}

fn envelope(class: EventType, seed: u64) -> Value {
    serde_json::to_value(Publisher::default().envelope(&sample::event(class, seed))).unwrap()
}

fn every_class_is_valid(name: &str, schema: &Validator) {
    for class in EventType::ALL {
        for seed in 0..8 {
            assert_valid(name, schema, &envelope(*class, seed));
        }
    }
}

fn assert_valid(name: &str, schema: &Validator, event: &Value) {
    let faults: Vec<_> =
        schema.iter_errors(event).map(|fault| format!("{} at {}", fault, fault.instance_path())).collect();
    assert!(faults.is_empty(), "by {name}: {faults:#?}\n{event:#}");
}
