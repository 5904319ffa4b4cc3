//! What holds for every class.

mod producers;
mod sample;
mod schema;

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Event, EventType, Publisher, Received, StoredEvent};

/// Every class, and more than one shape of each.
fn events() -> impl Strategy<Value = Event> {
    (0..EventType::ALL.len(), any::<u64>())
        .prop_map(|(class, seed)| sample::event(EventType::ALL[class], seed))
}

fn json(event: &Event) -> String {
    serde_json::to_string(&Publisher::default().envelope(event)).unwrap()
}

#[test]
fn every_class_has_one_name_and_one_payload() {
    let names: BTreeSet<_> = EventType::ALL.iter().map(|class| class.as_str()).collect();
    assert_eq!(names.len(), EventType::ALL.len());
    assert_eq!(names.len(), 120);
    for class in EventType::ALL {
        assert_eq!(EventType::parse(class.as_str()), Ok(*class));
        assert_eq!(sample::event(*class, 0).fact.event_type(), *class);
    }
    assert!(EventType::parse("turn.cancelled").is_err(), "a cancelled turn is turn.failed");
}

#[test]
fn every_class_survives_every_encoding() {
    for class in EventType::ALL {
        for seed in 0..4 {
            survives(&sample::event(*class, seed));
        }
    }
}

fn survives(event: &Event) {
    let publisher = Publisher::default();
    let envelope = publisher.envelope(event);
    assert_eq!(serde_json::from_str::<Event>(&json(event)).unwrap(), *event, "as JSON");
    let packed = rmp_serde::to_vec_named(&envelope).unwrap();
    assert_eq!(rmp_serde::from_slice::<Event>(&packed).unwrap(), *event, "as MessagePack");
    let as_value: serde_json::Value = rmp_serde::from_slice(&packed).unwrap();
    assert_eq!(as_value, serde_json::to_value(envelope).unwrap(), "both have the same shape");

    let Event { cursor, session, stream, sequence, trace, fact } = event.clone();
    let stored = StoredEvent { stream, sequence, trace, fact };
    let decoded = StoredEvent::decode(&stored.encode()).unwrap();
    assert_eq!(decoded.at(session, cursor), *event, "as it is stored");
}

#[test]
fn the_class_may_come_after_the_payload() {
    for class in EventType::ALL {
        let event = sample::event(*class, 1);
        // A Value sorts its names: payload comes before type.
        let text = serde_json::to_value(Publisher::default().envelope(&event)).unwrap().to_string();
        assert!(text.find("\"payload\":") < text.find("\"type\":"));
        assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    }
}

#[test]
fn unknown_fields_are_ignored_and_unknown_classes_refused() {
    let event = sample::event(EventType::TurnStarted, 1);
    let mut value = serde_json::to_value(Publisher::default().envelope(&event)).unwrap();
    value["later"] = 1.into();
    value["payload"]["later"] = serde_json::json!({ "a": [1] });
    assert_eq!(serde_json::from_value::<Event>(value.clone()).unwrap(), event);
    value["type"] = "turn.imagined".into();
    let refused = serde_json::from_value::<Received>(value).unwrap_err();
    assert!(refused.to_string().contains("turn.imagined"), "{refused}");
}

#[test]
fn what_readers_look_for_at_the_top_is_there() {
    let event = sample::event(EventType::BenchmarkComparisonCompleted, 1);
    let value = serde_json::to_value(Publisher::default().envelope(&event)).unwrap();
    for name in ["benchmark", "refs", "comparison"] {
        assert_eq!(value[name], value["payload"][name], "{name}");
    }
    let event = sample::event(EventType::TurnFailed, 1);
    let value = serde_json::to_value(Publisher::default().envelope(&event)).unwrap();
    assert!(value["status"].is_string() && value["status"] == value["payload"]["status"]);
    assert_eq!(value["eventId"], format!("evt_{}", event.cursor));
    assert_eq!(value["schemaVersion"], "lime-profile-0.4.0");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn generated_facts_survive_every_encoding(event in events()) {
        survives(&event);
    }

    #[test]
    fn stored_bytes_that_were_damaged_never_panic(event in events(), at in any::<prop::sample::Index>(), byte: u8) {
        let Event { stream, sequence, trace, fact, .. } = event;
        let mut bytes = StoredEvent { stream, sequence, trace, fact }.encode().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = StoredEvent::decode(&bytes);
    }
}
