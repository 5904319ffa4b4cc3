//! A session that is archived takes no new work: neither from callers nor out of its own queues and schedules.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Rig, count, input};
use serde_json::{Value, json};

fn named(session: &str, turn: &str, script: &Value) -> Value {
    json!({ "sessionId": session, "turnId": turn, "agent": "scripted", "input": input(script) })
}

#[tokio::test]
async fn what_waits_when_its_session_is_archived_never_begins_and_what_runs_goes_on() {
    let mut rig = Rig::start().await;
    let running = json!([{ "sleep": 300 }, { "say": "to the end" }]);
    let thread = rig.call("submit_turn", named("sess_a", "turn_runs", &running)).await["threadId"].clone();
    let waiting =
        json!([{ "spawn": { "count": 2, "script": [] } }, { "task": { "objective": "o", "script": [] } }]);
    for turn in ["turn_waits", "turn_waits_too"] {
        assert_eq!(rig.call("submit_turn", named("sess_a", turn, &waiting)).await["status"], "queued");
    }
    let archive = json!({ "sessionId": "sess_a" });
    assert_eq!(rig.call("archive_session", archive.clone()).await["status"], "archived");
    let read = rig.call("get_thread_read", json!({ "sessionId": "sess_a", "threadId": thread })).await;
    assert!(read["queuedTurns"].as_array().is_none_or(Vec::is_empty), "{read:#}");
    rig = rig.crash().await;
    let over = rig.turn_over("sess_a", "turn_runs").await;
    assert_eq!(over["type"], "turn.completed");
    for turn in ["turn_waits", "turn_waits_too"] {
        let over = rig.turn_over("sess_a", turn).await;
        assert_eq!((&over["type"], &over["payload"]["status"]), (&json!("turn.failed"), &json!("cancelled")));
        assert_eq!(over["payload"]["reason"], "the session was archived");
    }
    assert_eq!(rig.call("archive_session", archive).await["status"], "archived");
    let events = rig.checked("sess_a").await;
    assert_eq!(count(&events, "turn.started"), 1);
    assert_eq!((count(&events, "subagent.spawned"), count(&events, "task.created")), (0, 0));
    rig.stop().await;
}

#[tokio::test]
async fn p7_a_schedule_ends_with_the_archive_of_its_session_and_a_run_goes_on_to_its_end() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    let job = |id: &str, script: Value| {
        json!({ "sessionId": "sess_a", "jobId": id, "agent": "scripted", "instruction": "i",
            "items": [{ "itemId": "i", "input": input(&script) }], "schedule": { "intervalMs": 1_000 } })
    };
    rig.call("create_job", job("job_short", json!([{ "say": "x" }]))).await;
    rig.call("create_job", job("job_long", json!([{ "sleep": 1_500 }]))).await;
    for id in ["job_short", "job_long"] {
        rig.until("sess_a", |event| event["type"] == "job.started" && event["jobId"] == id).await;
    }
    rig.call("archive_session", json!({ "sessionId": "sess_a" })).await;
    for id in ["job_short", "job_long"] {
        let over =
            rig.until("sess_a", |event| event["type"] == "job.cancelled" && event["jobId"] == id).await;
        assert_eq!(over["payload"]["reason"], "the session was archived");
        assert_eq!(rig.call("get_job", json!({ "jobId": id })).await["job"]["status"], "cancelled");
    }
    let events = rig.checked("sess_a").await;
    let archived = events.iter().position(|event| event["payload"]["status"] == "archived").unwrap();
    assert_eq!(count(&events[archived..], "job.started"), 0, "nothing begins afterwards");
    let of_long = |class: &str| {
        events.iter().filter(|event| event["type"] == class && event["jobId"] == "job_long").count()
    };
    assert_eq!(
        (of_long("job.item.started"), of_long("job.item.completed")),
        (1, 1),
        "what ran has ended by itself"
    );
    rig.stop().await;
}
