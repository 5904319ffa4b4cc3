//! What a body may say, and what it is told when it may not.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    agui::{RunInput, rules},
    control::{Code, Error},
};

pub(super) const THREAD: &str = "550e8400-e29b-41d4-a716-446655440000";

pub(super) fn body(messages: Value) -> Value {
    json!({ "threadId": THREAD, "runId": "run-001", "state": {}, "messages": messages, "tools": [], "context": [], "forwardedProps": {} })
}

pub(super) fn user(content: Value) -> Value {
    json!({ "id": "msg-001", "role": "user", "content": content })
}

pub(super) fn binary() -> Value {
    json!({ "type": "binary", "mimeType": "image/png", "url": "https://x/y.png?token=a" })
}

pub(super) fn parse(value: &Value) -> Result<RunInput, Error> {
    RunInput::parse(value.to_string().as_bytes())
}

fn refused(value: &Value) -> (String, String) {
    let error = parse(value).unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    (error.message.clone(), error.field().unwrap_or_default().to_owned())
}

fn with(changes: Value) -> Value {
    let mut body = body(json!([user(json!("hi"))]));
    for (name, value) in changes.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

#[test]
fn the_examples_of_the_protocol_are_taken() {
    let tool = json!({ "name": "get_weather", "description": "d", "parameters": { "type": "object" } });
    for example in [
        with(json!({})),
        with(json!({ "messages": [user(json!([{ "type": "text", "text": "?" }, binary()]))] })),
        with(json!({ "tools": [tool] })),
        with(
            json!({ "runId": "r".repeat(128), "threadId": THREAD.to_uppercase(), "unknown": 1, "state": null }),
        ),
        json!({ "threadId": THREAD, "runId": "语 / \n", "messages": [user(json!("x".repeat(10_000)))] }),
        with(json!({ "messages": [
            user(json!("q")),
            { "id": "2", "role": "assistant", "content": null, "toolCalls": [
                { "id": "c", "type": "function", "function": { "name": "f", "arguments": "{}" } }] },
            { "id": "3", "role": "tool", "content": "r", "toolCallId": "c" },
            { "id": "4", "role": "system", "content": "s" }, { "id": "5", "role": "developer", "content": "d" },
            { "id": "6", "role": "reasoning", "content": "t" },
            { "id": "7", "role": "activity", "activityType": "PLAN", "content": { "a": 1 } },
        ] })),
    ] {
        assert!(parse(&example).is_ok(), "{example}: {:?}", parse(&example));
    }
}

#[test]
fn every_rule_of_the_table_is_told_to_the_letter_and_names_the_field() {
    let many = vec![user(json!("hi")); 201];
    let long = "字".repeat(10_001);
    let with_user = |content: Value| with(json!({ "messages": [user(content)] }));
    let mut data = binary();
    data["data"] = json!("aGk=");
    let table = [
        (with(json!({ "threadId": "thread-1" })), "threadId must be a valid UUID", "threadId"),
        (with(json!({ "threadId": "" })), "threadId must be a valid UUID", "threadId"),
        (with(json!({ "runId": "字".repeat(129) })), "runId exceeds length limit", "runId"),
        (with(json!({ "messages": many })), "RunAgentInput.messages exceeds limit", "messages"),
        (with_user(json!(long)), "RunAgentInput user message text exceeds limit", "messages[0].content"),
        (
            with_user(
                json!([{ "type": "text", "text": "a".repeat(9_999) }, { "type": "text", "text": "bc" }]),
            ),
            "RunAgentInput user message text exceeds limit",
            "messages[0].content",
        ),
        (
            with(json!({ "messages": [] })),
            "RunAgentInput.messages must contain exactly one user message",
            "messages",
        ),
        (
            with(json!({ "messages": [user(json!("a")), user(json!("b"))] })),
            "RunAgentInput.messages must contain exactly one user message",
            "messages",
        ),
        (
            with(json!({ "messages": [{ "id": "0", "role": "system", "content": "s" }, user(json!("a"))] })),
            "RunAgentInput.messages[0].role must be user",
            "messages[0].role",
        ),
        (
            with_user(json!([{ "type": "binary", "mimeType": "application/pdf", "url": "u" }])),
            "binary content requires image mimeType",
            "messages[0].content[0].mimeType",
        ),
        (
            with_user(
                json!([{ "type": "text", "text": "x" }, { "type": "binary", "mimeType": "image/png" }]),
            ),
            "binary content requires url",
            "messages[0].content[1].url",
        ),
        (with_user(json!([data])), "binary content data is not allowed", "messages[0].content[0].data"),
        // As later versions of the protocol write an image.
        (
            with_user(
                json!([{ "type": "image", "source": { "type": "url", "value": "", "mimeType": "image/png" } }]),
            ),
            "binary content requires url",
            "messages[0].content[0].url",
        ),
    ];
    for (body, text, field) in table {
        assert_eq!(refused(&body), (text.to_owned(), field.to_owned()));
    }
}

#[test]
fn the_rules_are_looked_at_in_the_order_of_the_table() {
    // Each breaks its own rule and all that follow.
    let bad = json!({ "type": "binary", "mimeType": "text/plain", "data": "aGk=" });
    let mut worse = with(json!({ "threadId": "x", "runId": "r".repeat(129) }));
    let system = json!({ "id": "0", "role": "system", "content": "s" });
    let text = json!({ "type": "text", "text": "x".repeat(10_001) });
    let user_twice = [user(json!([text, bad])), user(json!("b"))];
    worse["messages"] = json!([vec![system.clone(); 200], user_twice.to_vec()].concat());
    let mut told = vec![refused(&worse).0];
    worse["threadId"] = json!(THREAD);
    told.push(refused(&worse).0);
    worse["runId"] = json!("r");
    told.push(refused(&worse).0);
    worse["messages"] = json!([vec![system.clone()], user_twice.to_vec()].concat());
    told.push(refused(&worse).0);
    worse["messages"][1]["content"] = json!([bad]);
    told.push(refused(&worse).0);
    worse["messages"].as_array_mut().unwrap().pop();
    told.push(refused(&worse).0);
    worse["messages"].as_array_mut().unwrap().remove(0);
    told.push(refused(&worse).0);
    worse["messages"][0]["content"][0]["mimeType"] = json!("image/png");
    told.push(refused(&worse).0);
    worse["messages"][0]["content"][0]["url"] = json!("u");
    told.push(refused(&worse).0);
    assert_eq!(
        told,
        [
            "threadId must be a valid UUID",
            "runId exceeds length limit",
            "RunAgentInput.messages exceeds limit",
            "RunAgentInput user message text exceeds limit",
            "RunAgentInput.messages must contain exactly one user message",
            "RunAgentInput.messages[0].role must be user",
            "binary content requires image mimeType",
            "binary content requires url",
            "binary content data is not allowed",
        ]
    );
}

#[test]
fn a_body_over_256_kib_is_too_large_and_one_of_just_that_is_read() {
    let mut text = with(json!({})).to_string().into_bytes();
    text.resize(rules::BODY_BYTES_MAX, b' ');
    assert!(RunInput::parse(&text).is_ok());
    text.push(b' ');
    let error = RunInput::parse(&text).unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (Code::PayloadTooLarge, "RunAgentInput payload exceeds size limit")
    );
    assert_eq!(error.details["limit"], 262_144);
}

#[test]
fn wrong_types_and_what_is_missing_name_their_field() {
    for (changes, field) in [
        (json!({ "threadId": 7 }), "threadId"),
        (json!({ "runId": null }), "runId"),
        (json!({ "runId": "" }), "runId"),
        (json!({ "messages": {} }), "messages"),
        (json!({ "messages": [7] }), "messages[0]"),
        (json!({ "messages": [user(json!(7))] }), "messages[0].content"),
        (json!({ "messages": [user(json!({}))] }), "messages[0].content"),
        (json!({ "messages": [user(json!(""))] }), "messages[0].content"),
        (json!({ "messages": [user(json!([]))] }), "messages[0].content"),
        (json!({ "messages": [user(json!([{ "type": "text" }]))] }), "messages[0].content[0].text"),
        (json!({ "messages": [user(json!([{ "type": "sound" }]))] }), "messages[0].content[0].type"),
        (json!({ "messages": [{ "id": "1", "role": "robot", "content": "x" }] }), "messages[0].role"),
        (
            json!({ "messages": [user(json!("a")), { "id": "2", "role": "tool", "content": "x" }] }),
            "messages[1].toolCallId",
        ),
        (json!({ "tools": [{ "name": 7, "description": "" }] }), "tools[0].name"),
        (json!({ "tools": [{ "name": "n", "description": "", "parameters": [] }] }), "tools[0].parameters"),
        (json!({ "context": [{ "description": "d" }] }), "context[0].value"),
        (json!({ "forwardedProps": { "agent": 7 } }), "forwardedProps.agent"),
    ] {
        assert_eq!(refused(&with(changes.clone())).1, field, "{changes}");
    }
    for text in ["", "{", "[]", "7", "null", "\"x\"", "{\"threadId\": \"\u{0}\"}"] {
        assert_eq!(RunInput::parse(text.as_bytes()).unwrap_err().code, Code::InvalidArgument, "{text}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-zA-Z]{0,9}", inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Puts something else at a random place.
fn mutate(value: &mut Value, path: &[prop::sample::Index], other: Value) {
    match (value, path.split_first()) {
        (Value::Object(fields), Some((at, rest))) if !fields.is_empty() => {
            let at = at.index(fields.len());
            mutate(fields.values_mut().nth(at).unwrap(), rest, other);
        }
        (Value::Array(values), Some((at, rest))) if !values.is_empty() => {
            let at = at.index(values.len());
            mutate(&mut values[at], rest, other);
        }
        (place, _) => *place = other,
    }
}

proptest! {
    #[test]
    fn no_json_makes_it_panic_and_a_refusal_is_an_envelope(value in any_json(), bytes: Vec<u8>) {
        for body in [value.to_string().into_bytes(), bytes] {
            if let Err(error) = RunInput::parse(&body) {
                prop_assert!(matches!(error.code, Code::InvalidArgument | Code::PayloadTooLarge));
                prop_assert!(error.to_json()["error"]["message"].is_string());
            }
        }
    }

    #[test]
    fn a_good_body_with_something_else_in_it_is_taken_or_refused_with_a_field(
        path in prop::collection::vec(any::<prop::sample::Index>(), 1..5), other in any_json(),
    ) {
        let mut body = with(json!({
            "messages": [user(json!([{ "type": "text", "text": "x" }, binary()])), { "id": "2", "role": "tool", "content": "r", "toolCallId": "c" }],
            "tools": [{ "name": "n", "description": "d", "parameters": { "b": 1, "a": [1.5] } }],
            "context": [{ "description": "d", "value": "v" }],
        }));
        mutate(&mut body, &path, other);
        match parse(&body) {
            Ok(input) => {
                let images = vec![crate::agui::submission::Image {
                    blob: crate::fact::id::BlobRef::parse("blob_1").unwrap(),
                    media_type: "image/png".into(),
                }; 2];
                prop_assert!(crate::agui::submission::arguments(&input, &images).is_ok());
            }
            Err(error) => prop_assert!(error.field().is_some(), "{error}"),
        }
    }
}
