//! What is answered when something has ended, and what is known of it then.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

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

#[tokio::test]
async fn p7_items_that_never_began_end_with_their_job_and_can_be_tried_again() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_i" })).await;
    let item = |id: &str| json!({ "itemId": id, "input": sleeper() });
    let job = |id: &str, max: u64| {
        json!({ "jobId": id, "sessionId": "sess_i", "instruction": "x", "agent": "scripted", "concurrency": 1,
            "maxRuntimeMs": max, "items": [item("a"), item("b"), item("c")] })
    };
    let statuses = async |id: &str| {
        let read = rig.call("get_job", json!({ "jobId": id })).await;
        let items = read["items"].as_array().unwrap().iter().map(|item| item["status"].clone());
        (items.collect::<Vec<_>>(), read["job"]["counts"]["cancelled"].clone())
    };
    rig.call("create_job", job("job_late", 300)).await;
    rig.call("create_job", job("job_i", 3_600_000)).await;
    let begun = |event: &Value| event["type"] == "job.item.started" && event["jobId"] == "job_i";
    rig.until("sess_i", begun).await;
    assert_eq!(statuses("job_i").await.0, ["running", "pending", "pending"]);
    rig.call("cancel_job", json!({ "jobId": "job_i" })).await;
    assert_eq!(statuses("job_i").await, (vec![json!("cancelled"); 3], json!(3)));
    rig.until("sess_i", |event| event["type"] == "job.failed").await;
    assert_eq!(statuses("job_late").await, (vec![json!("cancelled"); 3], json!(3)));
    // One of them goes on alone.
    let again = json!({ "jobId": "job_i", "itemId": "c" });
    assert_eq!(rig.call("retry_job_item", again).await["attempt"], 1);
    rig.eventually("the item runs", async || {
        let (items, _) = statuses("job_i").await;
        (items == ["cancelled", "cancelled", "running"]).then_some(())
    })
    .await;
    rig.call("cancel_job", json!({ "jobId": "job_i" })).await;
    assert_eq!(statuses("job_i").await, (vec![json!("cancelled"); 3], json!(3)));
    rig.checked("sess_i").await;
    rig.stop().await;
}

#[tokio::test]
async fn tasks_completion_reconciles_acceptance_and_says_unknown_of_what_nobody_can_tell() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    let acceptance = json!([
        { "kind": "artifact", "required": true },
        { "evidence": "log", "required": false },
        { "kind": "review", "required": true },
    ]);
    let task =
        json!({ "taskId": "task_a", "sessionId": "sess_a", "objective": "x", "acceptance": acceptance });
    rig.call("create_task", task).await;
    rig.task_is("task_a", "running").await;
    let refused = rig.refused("complete_task", json!({ "taskId": "task_a" })).await;
    assert_eq!(
        (&refused["code"], &refused["details"]["status"], &refused["details"]["criteria"]),
        (&json!("conflict"), &json!("running"), &json!(["artifact"]))
    );
    rig.call("complete_task", json!({ "taskId": "task_a", "artifacts": ["artf_report"] })).await;
    let done = rig.task_is("task_a", "completed").await;
    assert_eq!(done["acceptanceOutcomes"], json!(["met", "unmet", "unknown"]));
    let by_agent = json!({ "taskId": "task_b", "sessionId": "sess_a", "objective": "x", "agent": "scripted",
        "input": input(&json!([{ "say": "done" }])), "acceptance": acceptance });
    rig.call("create_task", by_agent).await;
    rig.task_is("task_b", "waiting_input").await;
    let is_waiting = |event: &Value| event["type"] == "task.waiting" && event["taskId"] == "task_b";
    let waiting = rig.until("sess_a", is_waiting).await;
    assert!(waiting["payload"]["reason"].as_str().unwrap().contains("artifact"), "{waiting}");
    rig.call("complete_task", json!({ "taskId": "task_b", "artifacts": ["artf_b"] })).await;
    let events = rig.checked("sess_a").await;
    let told = events.iter().filter(|event| event["type"] == "task.completed");
    let told: Vec<_> = told.map(|event| event["payload"]["acceptance"].clone()).collect();
    assert_eq!(told, [json!(["met", "unmet", "unknown"]), json!(["met", "unmet", "unknown"])]);
    rig.stop().await;
}

#[tokio::test]
async fn tasks_a_script_is_told_why_its_task_could_not_be_made() {
    let rig = Rig::start().await;
    for session in ["sess_one", "sess_two"] {
        rig.call("create_session", json!({ "sessionId": session })).await;
    }
    let elsewhere = json!({ "taskId": "task_x", "sessionId": "sess_two", "objective": "x" });
    rig.call("create_task", elsewhere).await;
    let script = json!([{ "task": { "taskId": "task_x", "objective": "mine", "script": [{ "say": "x" }] } }]);
    assert_eq!(rig.run("sess_one", script).await["type"], "turn.completed");
    let events = rig.checked("sess_one").await;
    let result = events.iter().find(|event| event["type"] == "tool.result").unwrap();
    let structured = &result["payload"]["structured"];
    assert_eq!(structured["notCompleted"], json!(["task_x"]));
    assert_eq!(structured["error"]["code"], "conflict", "{structured}");
    assert!(structured["error"]["message"].as_str().unwrap().contains("task_x exists"), "{structured}");
    rig.stop().await;
}

#[tokio::test]
async fn jobs_a_schedule_is_read_as_it_was_made_with_the_time_of_the_next_run() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_s" })).await;
    let start = "2126-01-01T00:00:00.000Z";
    let job = json!({ "jobId": "job_s", "sessionId": "sess_s", "instruction": "x", "agent": "scripted",
        "items": [{ "input": sleeper() }],
        "schedule": { "intervalMs": 60_000, "startAt": start, "maxRuns": 3, "missedRuns": "run_once" } });
    let made = rig.call("create_job", job).await;
    assert_eq!(made["nextRunAt"], start);
    let read = rig.call("get_job", json!({ "jobId": "job_s" })).await["job"].clone();
    let listed = rig.call("list_jobs", json!({ "sessionId": "sess_s" })).await["jobs"][0].clone();
    for job in [&read, &listed] {
        assert_eq!((&job["nextRunAt"], &job["startAt"]), (&json!(start), &json!(start)), "{job}");
        assert_eq!((&job["maxRuns"], &job["missedRuns"]), (&json!(3), &json!("run_once")), "{job}");
    }
    rig.call("cancel_job", json!({ "jobId": "job_s" })).await;
    let over = rig.call("get_job", json!({ "jobId": "job_s" })).await["job"].clone();
    assert_eq!((&over["status"], over.get("nextRunAt")), (&json!("cancelled"), None));
    rig.stop().await;
}

#[tokio::test]
async fn bad_input_a_blob_that_does_not_exist_is_refused_by_its_name_and_nothing_runs() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_b" })).await;
    let before = rig.served("sess_b").await.len();
    let missing = json!([{ "type": "text", "text": "[]" },
        { "type": "blob", "ref": "blob_none", "mediaType": "text/plain" }]);
    for (command, more) in [
        ("submit_turn", json!({ "agent": "scripted" })),
        ("spawn_subagent", json!({ "agent": "scripted" })),
        ("create_task", json!({ "objective": "x" })),
    ] {
        let mut args = json!({ "sessionId": "sess_b", "input": missing });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = rig.refused(command, args).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!("not_found"), &json!("input[1].ref")),
            "{command}: {refused}"
        );
        assert!(refused["message"].as_str().unwrap().contains("blob_none"), "{refused}");
    }
    assert_eq!(rig.served("sess_b").await.len(), before);
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_cancel_that_takes_longer_than_the_callers_deadline_is_answered_as_cancelling() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_d" })).await;
    let script = json!([{ "spawn": { "count": 1000, "script": [{ "sleep": FOREVER }] } }]);
    let turn = rig.submit("sess_d", script).await["turnId"].clone();
    rig.began("sess_d", 100).await;
    let args = json!({ "sessionId": "sess_d", "turnId": turn });
    let soon = std::time::Duration::from_millis(1);
    let answer = rig.runtime.call(&cadre::runtime::Caller::local(), "interrupt_turn", args, None, soon).await;
    assert_eq!(answer.unwrap().result["status"], "cancelling");
    let over = rig.turn_over("sess_d", turn.as_str().unwrap()).await;
    assert_eq!(over["payload"]["status"], "cancelled");
    rig.checked("sess_d").await;
    rig.stop().await;
}
