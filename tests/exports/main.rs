//! Exports: made from the facts of a session, and from nothing else.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod benchmarks;
#[path = "../common/mod.rs"]
mod common;
mod evidence;
mod replays;

use cadre::{
    fact::id::BlobRef,
    replay::{ReplayCase, Verdict, fold},
    runtime::Caller,
};
use common::{PATIENCE, Rig, count};
use serde_json::{Value, json};

/// The content of an export.
async fn content(rig: &Rig, exported: &Value) -> Vec<u8> {
    let blob = BlobRef::parse(exported["ref"].as_str().unwrap()).unwrap();
    let (content, meta) = rig.runtime.blobs().read_all("local", &blob).await.unwrap();
    assert_eq!(exported["sizeBytes"], meta.size_bytes);
    assert_eq!(exported["hash"], format!("sha256:{}", meta.hash));
    assert_eq!(exported["mediaType"], "application/json");
    content.to_vec()
}

async fn pack(rig: &Rig, command: &str, args: Value) -> (Value, Value) {
    let exported = rig.call(command, args).await;
    let content = content(rig, &exported).await;
    (exported, serde_json::from_slice(&content).unwrap())
}

async fn case(rig: &Rig, args: Value) -> ReplayCase {
    let exported = rig.call("export_replay", args).await;
    ReplayCase::parse(&content(rig, &exported).await).unwrap()
}

/// A session in which much has happened: tools, an approval, subagents of subagents, a task with a failed attempt.
async fn busy(rig: &Rig, session: &str) -> Vec<Value> {
    let script = json!([
        { "say": "I will look first", "chunks": 3 },
        { "tool": "echo", "args": { "a": 1 } },
        { "tool": "big", "args": { "bytes": 100_000 } },
        { "tool": "fail", "args": { "message": "no" } },
        { "approve": { "prompt": "go on?", "decisions": ["allow", "deny"] } },
        { "spawn": { "count": 5, "script": [{ "say": "child" }, { "tool": "echo", "args": {} },
            { "spawn": { "count": 2, "script": [{ "say": "grandchild" }], "join": "all" } }], "join": "all" } },
        { "task": { "objective": "try twice", "retryPolicy": { "maxAttempts": 2, "backoffMs": 1, "maxBackoffMs": 1 },
            "script": [{ "fail": { "message": "not yet", "retryable": true, "times": 1 } }, { "say": "done" }],
            "join": true } },
        { "say": "all done" }
    ]);
    let first = rig.submit(session, script).await;
    let asked = rig.until(session, |event| event["type"] == "action.required").await;
    let answer = json!({ "actionId": asked["actionId"], "decision": "allow", "reason": "looks fine" });
    rig.call("respond_action", answer).await;
    rig.turn_over(session, first["turnId"].as_str().unwrap()).await;
    let second = rig.submit(session, json!([{ "say": "again" }, { "tool": "unknown" }])).await;
    rig.turn_over(session, second["turnId"].as_str().unwrap()).await;
    let third = rig.submit(session, json!([{ "fail": { "message": "broken", "retryable": false } }])).await;
    rig.turn_over(session, third["turnId"].as_str().unwrap()).await;
    vec![first, second, third]
}

#[tokio::test]
async fn a_review_tells_people_what_was_done() {
    let rig = Rig::start().await;
    let turns = busy(&rig, "sess_v").await;
    let open = json!([{ "approve": { "prompt": "and now?", "decisions": ["yes", "no"] } }]);
    let open = rig.submit("sess_v", open).await;
    rig.until("sess_v", |event| event["type"] == "action.required" && event["turnId"] == open["turnId"])
        .await;
    let (_, review) = pack(&rig, "export_review", json!({ "sessionId": "sess_v" })).await;
    let told = review["turns"]["entries"].as_array().unwrap();
    let first = told.iter().find(|turn| turn["turnId"] == turns[0]["turnId"]).unwrap();
    assert_eq!(first["outcome"], "completed");
    assert!(first["answer"].as_str().unwrap().starts_with("I will look first"));
    assert!(first["objective"].as_str().unwrap().contains("go on?"));
    assert_eq!(first["tools"]["fail"], json!({ "calls": 1, "failed": 1 }));
    assert_eq!(first["approvals"][0]["decision"], "allow");
    let task = &review["tasks"]["entries"][0];
    assert_eq!((&task["objective"], &task["outcome"]), (&json!("try twice"), &json!("completed")));
    assert_eq!(task["attempts"][0]["outcome"], "failed");
    assert_eq!(task["attempts"][1]["outcome"], "completed");
    assert_eq!(review["openQuestions"][0]["prompt"], "and now?");
    assert_eq!(review["knownGaps"][0]["state"], "stale");

    let one = json!({ "sessionId": "sess_v", "turnId": turns[1]["turnId"] });
    let (exported, review) = pack(&rig, "export_review", one).await;
    assert_eq!(review["turns"]["total"], 1);
    assert_eq!(review["scope"]["threadId"], turns[1]["threadId"]);
    let told = rig.until("sess_v", |event| event["evidenceId"] == exported["evidenceId"]).await;
    assert_eq!((&told["turnId"], &told["threadId"]), (&turns[1]["turnId"], &turns[1]["threadId"]));
    rig.stop().await;
}

#[tokio::test]
async fn an_export_under_a_key_is_one_export() {
    let rig = Rig::start().await;
    let turn = rig.submit("sess_k", json!([{ "say": "hello" }])).await;
    rig.turn_over("sess_k", turn["turnId"].as_str().unwrap()).await;
    let ask = async || {
        let args = json!({ "sessionId": "sess_k" });
        rig.runtime.call(&Caller::local(), "export_evidence", args, Some("key-of-mine"), PATIENCE).await
    };
    let first = ask().await.unwrap();
    let turn = rig.submit("sess_k", json!([{ "say": "more" }])).await;
    rig.turn_over("sess_k", turn["turnId"].as_str().unwrap()).await;
    let again = ask().await.unwrap();
    assert_eq!(first, again);
    let types = rig.types("sess_k").await;
    assert_eq!(types.iter().filter(|name| *name == "evidence.changed").count(), 1);
    let other = rig.call("export_evidence", json!({ "sessionId": "sess_k" })).await;
    assert_ne!(other["ref"], first.result["ref"]);
    rig.stop().await;
}

#[tokio::test]
async fn what_does_not_exist_cannot_be_exported() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_n" })).await;
    for command in ["export_evidence", "export_replay", "export_review"] {
        let refused = rig.refused(command, json!({ "sessionId": "sess_missing" })).await;
        assert_eq!(refused["code"], "not_found");
        for field in ["threadId", "turnId", "taskId"] {
            let refused = rig.refused(command, json!({ "sessionId": "sess_n", field: "nobody" })).await;
            assert_eq!(
                (&refused["code"], &refused["details"]["field"]),
                (&json!("not_found"), &json!(field))
            );
        }
        let refused = rig.refused(command, json!({})).await;
        assert_eq!(refused["code"], "invalid_argument");
        let refused = rig.refused(command, json!({ "sessionId": "sess_n", "turnId": 7 })).await;
        assert_eq!(refused["code"], "invalid_argument");
        // An empty session has evidence too: that nothing happened in it.
        let (_, pack) = pack(&rig, command, json!({ "sessionId": "sess_n" })).await;
        assert_eq!(pack["sessionId"], "sess_n");
    }
    assert_eq!(rig.types("sess_n").await.iter().filter(|name| *name == "evidence.changed").count(), 3);
    rig.stop().await;
}

#[tokio::test]
async fn p3_two_tries_of_one_keyed_export_at_once_have_one_answer_one_fact_and_one_pack() {
    let rig = Rig::start().await;
    rig.run("sess_a", json!([{ "say": "x" }, { "tool": "big", "args": { "bytes": 50_000 } }])).await;
    benchmarks::trial(&rig, "tria_1", "candidate", json!([{ "say": "hello" }]), 1.0).await;
    benchmarks::trial(&rig, "tria_0", "baseline", json!([{ "say": "hm" }]), 0.5).await;
    let tries = [
        ("export_evidence", json!({ "sessionId": "sess_a" })),
        ("export_review", json!({ "sessionId": "sess_a" })),
        ("export_replay", json!({ "sessionId": "sess_a" })),
        ("export_benchmark_trial", json!({ "trialId": "tria_1" })),
        ("compare_benchmark_runs", json!({ "baseline": ["tria_0"], "candidate": ["tria_1"] })),
    ];
    for (name, args) in tries {
        for round in 0..8 {
            let key = format!("key-of-{name}-{round}");
            let call = || rig.keyed(&key, name, args.clone());
            let (one, two) = tokio::join!(call(), call());
            let (one, two) = (one.unwrap(), two.unwrap());
            assert_eq!((&one.result, one.cursor), (&two.result, two.cursor), "{name}");
            if name.starts_with("export") {
                content(&rig, &one.result).await;
            }
        }
    }
    let events = rig.checked("sess_a").await;
    let told = events.iter().filter(|event| event["payload"]["kind"] == "evidence");
    assert_eq!(told.count(), 8, "one fact for each key");
    rig.stop().await;
}
