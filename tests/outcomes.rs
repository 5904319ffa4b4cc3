//! What is answered when something has ended, and what is known of it then.

mod common;

use serde_json::{Value, json};

use common::*;

const FOREVER: u64 = 3_600_000;

fn sleeper() -> Value {
    input(&json!([{ "sleep": FOREVER }]))
}

/// The event that an answer's cursor is that of.
async fn told_at(rig: &Rig, session: &str, answer: &cadre::control::result::Answer) -> Value {
    let cursor = answer.cursor.expect("something was written").to_string();
    let events = rig.served(session).await;
    events.into_iter().find(|event| event["cursor"] == cursor).expect("it is the cursor of a fact")
}

#[tokio::test]
async fn p2_what_closes_a_tree_is_answered_with_the_cursor_of_the_terminal_fact_and_without_one_when_nothing_was_written()
 {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_c" })).await;
    let spawn = json!([{ "spawn": { "count": 3, "script": [{ "sleep": FOREVER }] } }]);
    let turn = rig.submit("sess_c", spawn).await;
    let args = json!({ "subagentId": "sub_c", "sessionId": "sess_c", "input": sleeper() });
    rig.call("spawn_subagent", args).await;
    let task = json!({ "taskId": "task_c", "sessionId": "sess_c", "objective": "x", "agent": "scripted",
        "input": sleeper() });
    rig.call("create_task", task).await;
    let job = json!({ "jobId": "job_c", "sessionId": "sess_c", "instruction": "x", "agent": "scripted",
        "items": [{ "input": sleeper() }] });
    rig.call("create_job", job).await;
    rig.until("sess_c", |event| event["type"] == "job.item.started").await;
    rig.began("sess_c", 4).await;
    let closing = [
        ("interrupt_turn", json!({ "sessionId": "sess_c", "turnId": turn["turnId"] }), "turn.failed"),
        ("close_subagent", json!({ "subagentId": "sub_c" }), "subagent.closed"),
        ("cancel_task", json!({ "taskId": "task_c" }), "task.cancelled"),
        ("cancel_job", json!({ "jobId": "job_c" }), "job.cancelled"),
    ];
    for (command, args, class) in closing {
        let first = rig.answer(command, args.clone()).await;
        let event = told_at(&rig, "sess_c", &first).await;
        assert_eq!((&event["type"], &first.result["status"]), (&json!(class), &json!("cancelled")));
        let before = rig.served("sess_c").await.len();
        let again = rig.answer(command, args).await;
        assert_eq!((again.cursor, &again.result["status"]), (None, &json!("cancelled")), "{command}");
        assert_eq!(rig.served("sess_c").await.len(), before, "{command} wrote nothing");
    }
    rig.checked("sess_c").await;
    rig.stop().await;
}

#[tokio::test]
async fn p11_of_the_children_of_any_none_outlives_the_turn_and_those_of_none_do() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_r" })).await;
    let forever = json!([{ "sleep": FOREVER }]);
    let script = json!([
        { "spawn": { "count": 2, "join": "none", "script": forever } },
        { "spawn": { "count": 3, "join": "any", "script": [{ "spawn": { "count": 1, "script": forever } }] } },
        { "say": "one is enough" },
    ]);
    let turn = rig.submit("sess_r", script).await["turnId"].clone();
    rig.began("sess_r", 8).await;
    let racers = async || {
        let all = rig.subagents(json!({ "sessionId": "sess_r", "limit": 100 })).await;
        let parents: Vec<Value> = all.iter().filter_map(|one| one.get("parentSubagentId").cloned()).collect();
        let (mine, others): (Vec<Value>, Vec<Value>) = all
            .into_iter()
            .partition(|one| parents.contains(&one["subagentId"]) || !one["parentSubagentId"].is_null());
        (mine, others, parents)
    };
    let (_, _, parents) = racers().await;
    rig.call("close_subagent", json!({ "subagentId": parents[0] })).await;
    let over = rig.turn_over("sess_r", turn.as_str().unwrap()).await;
    assert_eq!(over["type"], "turn.completed");
    let (mine, others, _) = racers().await;
    assert!(mine.len() == 6 && mine.iter().all(|one| one["status"] == "cancelled"), "{mine:#?}");
    assert!(others.len() == 2 && others.iter().all(|one| one["status"] == "running"), "{others:#?}");
    let events = rig.checked("sess_r").await;
    let last = events.iter().rposition(|event| event["type"] == "subagent.closed");
    let end = events.iter().position(|event| event["type"] == "turn.completed");
    assert!(last < end, "the others are closed before the turn says that it has ended");
    rig.call("interrupt_turn", json!({ "sessionId": "sess_r", "turnId": turn })).await;
    rig.stop().await;
}
