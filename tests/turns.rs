//! Turns: submitted, queued, approved, interrupted, and what is said of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Rig, turn};
use serde_json::{Value, json};

#[tokio::test]
async fn submit_shows_accepted_before_any_model_output() {
    let rig = Rig::start().await;
    let answer = rig.submit("sess_a", json!([{ "say": "hello", "chunks": 2 }])).await;
    assert_eq!(answer["status"], "accepted");
    let ended = rig.turn_over("sess_a", answer["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["type"], "turn.completed");
    assert_eq!(
        rig.types("sess_a").await,
        [
            "session.created",
            "thread.started",
            "turn.submitted",
            "turn.started",
            "tool.catalog.resolved",
            "routing.single_candidate",
            "model.requested",
            "model.delta",
            "model.delta",
            "model.completed",
            "turn.completed"
        ]
    );
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_a" })).await;
    println!("{snapshot:#}");
    assert_eq!(snapshot["threads"][0]["status"], "completed");
    rig.stop().await;
}

#[tokio::test]
async fn a_tool_runs_and_its_large_result_is_kept_by_reference() {
    let rig = Rig::start().await;
    let script = json!([{ "tool": "echo", "args": { "a": 1 } }, { "tool": "big", "args": { "bytes": 100_000 } },
        { "tool": "fail", "args": { "message": "no" } }, { "tool": "unknown" }]);
    let answer = rig.submit("sess_b", script).await;
    rig.turn_over("sess_b", answer["turnId"].as_str().unwrap()).await;
    let events = rig.served("sess_b").await;
    let results: Vec<&Value> = events.iter().filter(|event| event["type"] == "tool.result").collect();
    assert_eq!(results[0]["payload"]["structured"], json!({ "a": 1 }));
    assert!(results[1]["outputRef"].as_str().unwrap().starts_with("blob_"), "{:#}", results[1]);
    assert_eq!(events.iter().filter(|event| event["type"] == "tool.failed").count(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn an_approval_pauses_the_turn_and_only_an_answer_resolves_it() {
    let rig = Rig::start().await;
    let script =
        json!([{ "approve": { "prompt": "ok?", "decisions": ["allow", "deny"] } }, { "say": "went on" }]);
    let answer = rig.submit("sess_c", script.clone()).await;
    let asked = rig.until("sess_c", |event| event["type"] == "action.required").await;
    let action = asked["actionId"].as_str().unwrap();
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_c" })).await;
    assert_eq!(snapshot["threads"][0]["status"], "blocked", "{snapshot:#}");
    let wrong = rig.refused("respond_action", json!({ "actionId": action, "decision": "perhaps" })).await;
    assert_eq!(
        (&wrong["code"], &wrong["details"]["field"]),
        (&json!("invalid_argument"), &json!("decision"))
    );
    rig.call("respond_action", json!({ "actionId": action, "decision": "allow" })).await;
    let ended = rig.turn_over("sess_c", answer["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["type"], "turn.completed");
    let again = rig.refused("respond_action", json!({ "actionId": action, "decision": "allow" })).await;
    assert_eq!(again["code"], "conflict");

    let denied = rig.call("submit_turn", turn("sess_c", script)).await;
    let asked = rig
        .until("sess_c", |event| event["type"] == "action.required" && event["turnId"] == denied["turnId"])
        .await;
    rig.call("respond_action", json!({ "actionId": asked["actionId"], "decision": "deny" })).await;
    let ended = rig.turn_over("sess_c", denied["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["payload"]["status"], "cancelled");
    rig.stop().await;
}

#[tokio::test]
async fn subagents_are_spawned_and_joined_in_one_result() {
    let rig = Rig::start().await;
    let script = json!([{ "spawn": { "count": 20, "script": [{ "say": "child" }], "join": "all" } }, { "say": "done" }]);
    let answer = rig.submit("sess_d", script).await;
    let ended = rig.turn_over("sess_d", answer["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["type"], "turn.completed");
    let listed = rig.call("list_subagents", json!({ "sessionId": "sess_d" })).await;
    assert_eq!(listed["subagents"].as_array().unwrap().len(), 20);
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_d" })).await;
    println!("{:#}", snapshot["subagentJobSummary"]);
    rig.stop().await;
}
