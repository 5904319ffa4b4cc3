//! What is served against the published schemas, when they are at hand: events and snapshots, public and profile.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use jsonschema::Validator;
use serde_json::Value;

/// How many events of one class are looked at in one feed: of a thousand children, all say the same.
const OF_A_CLASS_MAX: usize = 200;

struct Published {
    events: [(&'static str, Validator); 2],
    snapshots: [(&'static str, Validator); 2],
}

/// The schemas, or nothing where nobody has them.
fn published() -> Option<&'static Published> {
    static PUBLISHED: OnceLock<Option<Published>> = OnceLock::new();
    let read = || {
        let folder = std::env::var_os("CADRE_CONFORMANCE_DIR")?;
        let folder = PathBuf::from(folder).join("agentruntime");
        let both = |public, profile| {
            [(public, validator(&folder, public, public)), (profile, validator(&folder, profile, public))]
        };
        Some(Published {
            events: both("agentruntime-event.schema.json", "agentruntime-lime-profile-event.schema.json"),
            snapshots: both(
                "agentruntime-snapshot.schema.json",
                "agentruntime-lime-profile-snapshot.schema.json",
            ),
        })
    };
    PUBLISHED.get_or_init(read).as_ref()
}

/// The profile refers to the public schema by a relative name, which becomes an address beside its own.
fn validator(folder: &Path, name: &str, public: &str) -> Validator {
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let base = format!("https://limecloud.github.io/agentruntime/schemas/{public}");
    let resource = jsonschema::Resource::from_contents(read(public));
    let options = jsonschema::options().should_validate_formats(true).with_resource(base, resource);
    options.build(&read(name)).unwrap()
}

/// That the events of a feed are what both schemas say.
pub fn conform_events(events: &[Value]) {
    let Some(published) = published() else { return };
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        let seen = seen.entry(event["type"].as_str().unwrap()).or_default();
        *seen += 1;
        if *seen <= OF_A_CLASS_MAX {
            hold(&published.events, event);
        }
    }
}

/// That a snapshot of a session is what both schemas say.
pub fn conform_snapshot(snapshot: &Value) {
    if let Some(published) = published() {
        hold(&published.snapshots, snapshot);
    }
}

fn hold(schemas: &[(&str, Validator)], value: &Value) {
    for (name, schema) in schemas {
        if !schema.is_valid(value) {
            let faults: Vec<_> = schema
                .iter_errors(value)
                .map(|fault| format!("{fault} at {}", fault.instance_path()))
                .collect();
            panic!("by {name}: {faults:#?}\n{value:#}");
        }
    }
}
