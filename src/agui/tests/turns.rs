//! What a turn is given.

use serde_json::json;

use super::bodies::{THREAD, binary, body, parse, user};
use crate::{
    agui::{
        names,
        prompt::build_tools_prompt,
        submission::{Image, Remembered, arguments, urls},
    },
    control::AnyCommand,
    fact::id::BlobRef,
};

fn tools() -> &'static str {
    r#"[
        {"name": "get_weather", "description": "Get current weather for a location", "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "City name"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}
            },
            "required": ["location"]
        }},
        {"name": "searchDocuments", "description": "Search for documents",
         "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}
    ]"#
}

const PROMPT: &str = r#"<!-- TOOLS_START -->
- get_weather: Get current weather for a location
- args_schema: {"type":"object","properties":{"location":{"type":"string","description":"City name"},"unit":{"type":"string","enum":["celsius","fahrenheit"]}},"required":["location"]}
- searchDocuments: Search for documents
- args_schema: {"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}
Note: tool arguments must strictly match args_schema.
<!-- TOOLS_END -->"#;

#[test]
fn tools_are_told_to_the_letter_and_none_are_not_told() {
    assert_eq!(
        build_tools_prompt(&serde_json::from_str::<Vec<_>>(tools()).unwrap()).as_deref(),
        Some(PROMPT)
    );
    assert_eq!(build_tools_prompt(&[]), None);
}

#[test]
fn what_the_user_says_comes_first_and_what_the_model_should_know_follows() {
    let mut text = body(json!([
        user(json!([{ "type": "text", "text": "[{\"say\":\"1\"}]" }, binary(), { "type": "text", "text": "two" }])),
        { "id": "m2", "role": "assistant", "content": "earlier" },
    ]));
    text["context"] = json!([{ "description": "place", "value": "Berlin" }]);
    text["tools"] = json!("TOOLS");
    text["parentRunId"] = json!("run-000");
    text["forwardedProps"] = json!({ "agent": "scripted" });
    let text = text.to_string().replace("\"TOOLS\"", tools());
    let input = crate::agui::RunInput::parse(text.as_bytes()).unwrap();
    assert_eq!(urls(&input), [("messages[0].content[1].url".to_owned(), "https://x/y.png?token=a")]);
    let image = Image { blob: BlobRef::parse("blob_1").unwrap(), media_type: "image/png".into() };
    let told = arguments(&input, &[image]).unwrap();
    assert_eq!(
        told["input"],
        json!([
            { "type": "text", "text": "[{\"say\":\"1\"}]" },
            { "type": "blob", "ref": "blob_1", "mediaType": "image/png" },
            { "type": "text", "text": "two" },
            { "type": "text", "text": "<!-- CONTEXT_START -->\n- place: Berlin\n<!-- CONTEXT_END -->" },
            { "type": "text", "text": "<!-- MESSAGES_START -->\n{\"id\":\"m2\",\"role\":\"assistant\",\"content\":\"earlier\"}\n<!-- MESSAGES_END -->" },
            { "type": "text", "text": PROMPT },
        ])
    );
    assert_eq!(told["sessionId"], format!("sess_{THREAD}"));
    assert_eq!(told["turnId"], names::turn(THREAD, "run-001").as_str());
    assert_eq!(told["agent"], "scripted");
    let about = &told["metadata"]["agui"];
    assert_eq!((about["parts"].as_u64(), about["parentRunId"].as_str()), (Some(3), Some("run-000")));
    let metadata = told["metadata"].as_object().unwrap().clone();
    assert_eq!(
        Remembered::of(&metadata),
        Remembered { message: Some("msg-001".into()), kept: None, parts: Some(3) }
    );
    assert!(AnyCommand::parse("submit_turn", told).is_ok());
}

#[test]
fn a_plain_question_is_nothing_but_that() {
    let told = arguments(&parse(&body(json!([user(json!("hi"))]))).unwrap(), &[]).unwrap();
    assert_eq!(told["input"], json!([{ "type": "text", "text": "hi" }]));
    assert_eq!(told.get("agent"), None);
}

#[test]
fn the_largest_body_is_a_command_within_its_bounds() {
    let words = "\u{1}".repeat(1_000);
    let long: Vec<_> = (0..150)
        .map(|id| json!({ "id": id.to_string(), "role": "system", "content": words[..200] }))
        .collect();
    let mut text = body(json!([vec![user(json!("x".repeat(10_000)))], long].concat()));
    text["parentRunId"] = json!("p".repeat(40_000));
    text["messages"][0]["id"] = json!("i".repeat(10_000));
    let told = arguments(&parse(&text).unwrap(), &[]).unwrap();
    assert!(AnyCommand::parse("submit_turn", told).is_ok(), "what is not ours does not fill the metadata");
}

#[test]
fn another_body_has_another_digest_and_what_does_not_count_changes_nothing() {
    let digest = |text: &serde_json::Value| parse(text).unwrap().digest();
    let one = body(json!([user(json!("hi"))]));
    let mut other = one.clone();
    other["unknown"] = json!(1);
    other["messages"][0]["unknown"] = json!({});
    assert_eq!(digest(&one), digest(&other));
    for (field, value) in
        [("state", json!({ "a": 1 })), ("forwardedProps", json!({ "x": 1 })), ("parentRunId", json!("p"))]
    {
        let mut other = one.clone();
        other[field] = value;
        assert_ne!(digest(&one), digest(&other), "{field}");
    }
}
