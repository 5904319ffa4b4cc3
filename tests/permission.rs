//! Judgements about permissions that somebody asks for.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use cadre::replay::{ReplayCase, Verdict, fold};
use common::{Rig, count, input};
use serde_json::{Value, json};

fn evaluated(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| event["type"] == "permission.evaluated").collect()
}

#[tokio::test]
async fn p3_a_judgement_that_was_asked_for_is_a_fact_of_its_session_once_for_each_key() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_p" })).await;
    let ask = json!({ "sessionId": "sess_p", "tool": "echo", "args": { "secret": "hush" } });
    let first = rig.keyed("key-of-this", "evaluate_permission", ask.clone()).await.unwrap();
    let again = rig.keyed("key-of-this", "evaluate_permission", ask.clone()).await.unwrap();
    assert_eq!((&again.result, again.cursor), (&first.result, first.cursor));
    assert_eq!(first.result["decision"], "allow");
    let events = rig.checked("sess_p").await;
    let told = evaluated(&events);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["cursor"], first.cursor.unwrap().to_string());
    let payload = &told[0]["payload"];
    assert_eq!((&payload["tool"], &payload["decision"]), (&json!("echo"), &json!("allow")));
    for field in ["source", "reason", "mode"] {
        assert_eq!(payload[field], first.result[field], "{field}");
    }
    assert_eq!(payload["rules"][0]["rule"], first.result["rules"][0]["rule"]);
    assert!(!told[0].to_string().contains("hush"), "what it would be called with is nobody's business");
    assert_eq!(told[0]["streamId"], "session:sess_p");

    rig.call("evaluate_permission", json!({ "sessionId": "sess_p", "process": "ls -l" })).await;
    rig.call("evaluate_permission", json!({ "sessionId": "sess_p", "action": "deploy" })).await;
    let rig = rig.crash().await;
    let again = rig.keyed("key-of-this", "evaluate_permission", ask).await.unwrap();
    assert_eq!((again.result, again.cursor), (first.result, first.cursor));
    let events = rig.checked("sess_p").await;
    let told = evaluated(&events);
    assert_eq!(told.len(), 3);
    assert_eq!(
        (&told[1]["payload"]["process"], &told[1]["payload"]["decision"]),
        (&json!("ls -l"), &json!("ask"))
    );
    assert_eq!(told[2]["payload"]["action"], "deploy");
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_p" })).await;
    assert!(snapshot.to_string().contains("\"evaluated\":3"), "{snapshot:#}");
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_judgement_is_told_in_a_turn_that_goes_on_and_never_in_one_that_is_over() {
    let rig = Rig::start().await;
    let submit = async |turn: &str, script: Value| {
        let args =
            json!({ "sessionId": "sess_t", "turnId": turn, "agent": "scripted", "input": input(&script) });
        rig.call("submit_turn", args).await
    };
    submit("turn_over", json!([{ "say": "x" }])).await;
    rig.turn_over("sess_t", "turn_over").await;
    let runs = submit("turn_runs", json!([{ "approve": { "prompt": "?", "decisions": ["yes"] } }])).await;
    submit("turn_waits", json!([{ "say": "x" }])).await;
    let thread = runs["threadId"].clone();
    let ask = |args: Value| {
        let mut ask = json!({ "sessionId": "sess_t", "tool": "echo" });
        ask.as_object_mut().unwrap().extend(args.as_object().unwrap().clone());
        ask
    };
    rig.call("evaluate_permission", ask(json!({ "turnId": "turn_runs" }))).await;
    rig.call("evaluate_permission", ask(json!({ "turnId": "turn_waits", "threadId": thread }))).await;
    rig.call("evaluate_permission", ask(json!({ "threadId": thread }))).await;
    let events = rig.checked("sess_t").await;
    let told = evaluated(&events);
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|event| event["threadId"] == thread));
    assert_eq!((&told[0]["turnId"], &told[1]["turnId"]), (&json!("turn_runs"), &json!("turn_waits")));
    let own = told[2]["turnId"].as_str().unwrap();
    assert!(own.starts_with("turn_") && own != "turn_runs", "{own}");
    let read = rig.call("get_thread_read", json!({ "sessionId": "sess_t", "threadId": thread })).await;
    assert!(read.to_string().contains("\"evaluated\":1"), "the turn knows of it: {read:#}");
    assert!(!read.to_string().contains(own), "a turn that never is is not listed: {read:#}");

    let refused = async |args: Value| {
        let error = rig.refused("evaluate_permission", ask(args)).await;
        (error["code"].clone(), error["details"].clone())
    };
    let over = refused(json!({ "turnId": "turn_over" })).await;
    assert_eq!(over, (json!("conflict"), json!({ "status": "completed", "field": "turnId" })));
    assert_eq!(
        refused(json!({ "turnId": "turn_none" })).await,
        (json!("not_found"), json!({ "field": "turnId" }))
    );
    let unknown = (json!("not_found"), json!({ "field": "threadId" }));
    assert_eq!(refused(json!({ "threadId": "thrd_none" })).await, unknown);
    let (code, details) = refused(json!({ "threadId": "thrd_none", "turnId": "turn_runs" })).await;
    assert_eq!((code, details["field"].clone()), (json!("invalid_argument"), json!("threadId")));
    let error = rig.refused("evaluate_permission", json!({ "sessionId": "sess_t", "tool": "none" })).await;
    assert_eq!((&error["code"], &error["details"]["field"]), (&json!("not_found"), &json!("tool")));
    let error = rig.refused("evaluate_permission", json!({ "sessionId": "sess_none", "tool": "echo" })).await;
    assert_eq!(error["code"], "not_found");
    assert_eq!(count(&rig.served("sess_t").await, "permission.evaluated"), 3, "a refusal tells nothing");

    let exported = rig.call("export_replay", json!({ "sessionId": "sess_t" })).await;
    let blob = cadre::fact::id::BlobRef::parse(exported["ref"].as_str().unwrap()).unwrap();
    let (content, _) = rig.runtime.blobs().read_all("local", &blob).await.unwrap();
    let report = fold(&ReplayCase::parse(&content).unwrap());
    assert_eq!(report.verdict, Verdict::Equal, "{report}");
    rig.stop().await;
}
