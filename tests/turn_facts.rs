//! What is told of turns that are steered, interrupt others or are resumed, and of scripts that cannot be run.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use cadre::{
    fact::id::BlobRef,
    replay::{ReplayCase, Verdict, fold},
};
use common::{Rig, count, input};
use serde_json::{Value, json};

const FOREVER: u64 = 600_000;

fn named(session: &str, turn: &str, script: &Value, options: Value) -> Value {
    json!({ "sessionId": session, "turnId": turn, "agent": "scripted", "input": input(script), "options": options })
}

#[tokio::test]
async fn p5_a_steered_turn_that_is_exported_by_itself_folds_to_what_is_served() {
    let rig = Rig::start().await;
    let script = json!([{ "say": "a" }, { "sleep": FOREVER }]);
    rig.call("submit_turn", named("sess_a", "turn_a", &script, json!({}))).await;
    let steer = json!({ "sessionId": "sess_a", "agent": "scripted", "input": input(&json!([{ "say": "x" }])), "options": { "whenBusy": "steer" } });
    assert_eq!(rig.call("submit_turn", steer).await["turnId"], "turn_a");
    rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": "turn_a" })).await;
    let exported = rig.call("export_replay", json!({ "sessionId": "sess_a", "turnId": "turn_a" })).await;
    let blob = BlobRef::parse(exported["ref"].as_str().unwrap()).unwrap();
    let (content, _) = rig.runtime.blobs().read_all("local", &blob).await.unwrap();
    let report = fold(&ReplayCase::parse(&content).unwrap());
    assert_eq!(report.verdict, Verdict::Equal, "{report}");
    let events = rig.checked("sess_a").await;
    let steered = events.iter().find(|event| event["payload"]["change"] == "steered").unwrap();
    assert_eq!(steered["turnId"], "turn_a", "it is among the events of the turn");
    let of_turn = cadre::runtime::EventFilter {
        turn: Some(cadre::fact::id::TurnId::parse("turn_a").unwrap()),
        types: vec!["queue.changed".into()],
        ..Default::default()
    };
    let (session, start) = (cadre::fact::id::SessionId::parse("sess_a").unwrap(), cadre::fact::Cursor::START);
    let caller = cadre::runtime::Caller::local();
    let page = rig.runtime.events(&caller, &session, start, 1_000, &of_turn).await.unwrap();
    assert_eq!(page.events.len(), 1, "and is found by it");
    rig.stop().await;
}

#[tokio::test]
async fn p2_a_turn_that_interrupts_is_answered_as_its_fact_says() {
    let rig = Rig::start().await;
    let interrupt = json!({ "whenBusy": "interrupt" });
    rig.call("submit_turn", named("sess_a", "turn_a", &json!([{ "sleep": FOREVER }]), json!({}))).await;
    rig.call("submit_turn", named("sess_a", "turn_b", &json!([{ "say": "b" }]), json!({}))).await;
    let mut answers = Vec::new();
    let script = json!([{ "sleep": 50 }]);
    answers.push(rig.call("submit_turn", named("sess_a", "turn_now", &script, interrupt.clone())).await);
    rig.turn_over("sess_a", "turn_b").await;
    answers.push(rig.call("submit_turn", named("sess_a", "turn_idle", &script, interrupt)).await);
    rig.turn_over("sess_a", "turn_idle").await;
    let events = rig.checked("sess_a").await;
    for answer in &answers {
        let is_it = |event: &&Value| event["type"] == "turn.submitted" && event["turnId"] == answer["turnId"];
        let told = &events.iter().find(is_it).unwrap()["payload"];
        assert_eq!(answer["status"], told["status"], "{answer:#}");
        assert_eq!(answer["queuePosition"], told["queuePosition"], "{answer:#}");
    }
    assert_eq!((&answers[0]["status"], &answers[1]["status"]), (&json!("queued"), &json!("accepted")));
    rig.stop().await;
}

#[tokio::test]
async fn a_thread_that_is_resumed_gets_past_what_fails_only_so_often() {
    let mut rig = Rig::start().await;
    let script = json!([
        { "say": "attempt {{attempt}}" },
        { "fail": { "message": "not yet", "retryable": false, "times": 2 } },
        { "say": "past it" }
    ]);
    let failed = rig.run("sess_a", script).await;
    assert_eq!(failed["type"], "turn.failed");
    let resume = json!({ "sessionId": "sess_a", "threadId": failed["threadId"] });
    let second = rig.call("resume_thread", resume.clone()).await;
    assert_eq!(rig.turn_over("sess_a", second["turnId"].as_str().unwrap()).await["type"], "turn.failed");
    rig = rig.crash().await;
    // Also when the resumed turn has to wait: twelve run at once.
    for number in 0..12 {
        let mut busy = named("sess_a", &format!("turn_{number}"), &json!([{ "sleep": FOREVER }]), json!({}));
        busy["threadId"] = format!("thrd_{number}").into();
        rig.call("submit_turn", busy).await;
    }
    let third = rig.call("resume_thread", resume).await;
    assert_eq!(third["status"], "queued");
    rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": "turn_0" })).await;
    let over = rig.turn_over("sess_a", third["turnId"].as_str().unwrap()).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    let events = rig.checked("sess_a").await;
    let deltas = events.iter().filter(|event| event["type"] == "model.delta");
    let said: Vec<&str> = deltas.map(|event| event["payload"]["text"].as_str().unwrap()).collect();
    assert_eq!(
        said,
        ["attempt 1", "attempt 2", "attempt 3", "past it"],
        "what was done before is done again"
    );
    rig.stop().await;
}

#[tokio::test]
async fn p10_a_step_of_two_kinds_runs_neither_and_nothing_of_its_script() {
    let rig = Rig::start().await;
    let first = json!({ "tool": "echo", "args": {} });
    for (step, reason) in [
        (json!({ "tool": "echo", "args": {}, "approve": { "prompt": "may I?" } }), "tool and approve"),
        (json!({ "say": "x", "sleep": 1 }), "say and sleep"),
        (json!({ "tools": [{ "tool": "echo", "approve": { "prompt": "may I?" } }] }), "tool and approve"),
        (json!({ "repeat": 1, "steps": [{ "fail": {}, "usage": {} }] }), "fail and usage"),
        (json!({ "spawn": { "count": 1, "script": [{ "say": "x", "tool": "echo" }] } }), "say and tool"),
        (json!({ "task": { "objective": 5, "script": [] } }), "objective"),
        (json!({ "task": { "objective": "", "script": [] } }), "objective"),
        (json!({ "task": { "objective": "o", "dependsOn": "task_a", "script": [] } }), "dependsOn"),
        (json!({ "task": { "objective": "o", "taskId": "a b", "script": [] } }), "taskId"),
    ] {
        let over = rig.run("sess_a", json!([first, step])).await;
        assert_eq!(over["type"], "turn.failed", "{step}");
        let error = &over["payload"]["error"];
        assert_eq!(error["code"], "invalid_argument", "{step}");
        assert!(error["message"].as_str().unwrap().contains(reason), "{step}: {error}");
    }
    let events = rig.checked("sess_a").await;
    for class in ["tool.started", "subagent.spawned", "task.created", "action.required"] {
        assert_eq!(count(&events, class), 0, "{class}");
    }
    rig.stop().await;
}
