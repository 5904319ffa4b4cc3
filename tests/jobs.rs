//! Jobs: many items under one instruction, as callers see them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::Rig;
use serde_json::{Value, json};

fn items(scripts: &[Value]) -> Value {
    let item = |(index, script): (usize, &Value)| json!({ "itemId": format!("item-{index}"), "input": [{ "type": "text", "text": script.to_string() }] });
    scripts.iter().enumerate().map(item).collect()
}

#[tokio::test]
async fn a_job_runs_its_items_and_one_of_them_is_retried_by_hand() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_j" })).await;
    let once =
        json!([{ "fail": { "message": "not yet", "retryable": false, "times": 1 } }, { "say": "now" }]);
    let job = json!({
        "jobId": "job_1",
        "sessionId": "sess_j",
        "instruction": "run",
        "agent": "scripted",
        "items": items(&[json!([{ "say": "a" }]), once, json!([{ "tool": "echo" }])]),
        "concurrency": 2,
    });
    let created = rig.call("create_job", job.clone()).await;
    assert_eq!(created["total"], 3, "{created}");
    let failed = rig.until("sess_j", |event| event["type"] == "job.failed").await;
    assert_eq!((&failed["payload"]["completed"], &failed["payload"]["failed"]), (&json!(2), &json!(1)));
    assert_eq!(rig.call("create_job", job).await["jobId"], "job_1", "the same request has the same answer");
    let read = rig.call("get_job", json!({ "jobId": "job_1", "limit": 2 })).await;
    assert_eq!(
        (&read["job"]["status"], read["hasMore"].as_bool()),
        (&json!("failed"), Some(true)),
        "{read:#}"
    );
    assert_eq!(read["items"][1]["status"], "failed");
    let rest = rig.call("get_job", json!({ "jobId": "job_1", "itemsAfter": read["cursor"] })).await;
    assert_eq!(rest["items"][0]["itemId"], "item-2");
    let done = rig.refused("retry_job_item", json!({ "jobId": "job_1", "itemId": "item-0" })).await;
    assert_eq!((&done["code"], &done["details"]["status"]), (&json!("conflict"), &json!("completed")));
    rig.call("retry_job_item", json!({ "jobId": "job_1", "itemId": "item-1" })).await;
    rig.until("sess_j", |event| event["type"] == "job.completed").await;
    let read = rig.call("get_job", json!({ "jobId": "job_1" })).await;
    assert_eq!((&read["items"][1]["status"], &read["items"][1]["attempt"]), (&json!("completed"), &json!(2)));
    let listed = rig.call("list_jobs", json!({ "sessionId": "sess_j" })).await;
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_cancelled_job_is_closed_when_that_is_answered() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_k" })).await;
    let sleepers = vec![json!([{ "sleep": 600_000 }]); 40];
    let job = json!({
        "jobId": "job_2",
        "sessionId": "sess_k",
        "instruction": "wait",
        "agent": "scripted",
        "items": items(&sleepers),
        "concurrency": 10,
    });
    rig.call("create_job", job).await;
    rig.until("sess_k", |event| event["type"] == "job.item.started").await;
    let cancelled = rig.call("cancel_job", json!({ "jobId": "job_2", "reason": "enough" })).await;
    assert_eq!(cancelled["status"], "cancelled");
    let types = rig.types("sess_k").await;
    assert_eq!(types.iter().filter(|class| *class == "job.cancelled").count(), 1);
    assert_eq!(types.last().map(String::as_str), Some("job.cancelled"));
    rig.stop().await;
}

#[tokio::test]
async fn a_job_that_cannot_be_is_refused_with_its_field() {
    let rig = Rig::start().await;
    for (args, field) in [
        (json!({ "instruction": "x", "items": [] }), "items"),
        (json!({ "items": items(&[json!([])]) }), "instruction"),
        (json!({ "instruction": "x", "items": items(&[json!([])]), "concurrency": 0 }), "concurrency"),
        (
            json!({ "instruction": "x", "items": items(&[json!([])]), "schedule": { "cron": "never" } }),
            "schedule.cron",
        ),
    ] {
        let refused = rig.refused("create_job", args).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!("invalid_argument"), &json!(field))
        );
    }
    assert_eq!(rig.refused("get_job", json!({ "jobId": "job_none" })).await["code"], "not_found");
    assert_eq!(rig.refused("cancel_job", json!({ "jobId": "job_none" })).await["code"], "not_found");
    rig.stop().await;
}

#[tokio::test]
async fn p3_an_item_is_tried_again_once_for_each_key() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_r" })).await;
    let once = json!([{ "fail": { "message": "no", "retryable": false, "times": 1 } }, { "sleep": 50 }]);
    let job = json!({ "jobId": "job_r", "sessionId": "sess_r", "instruction": "run", "agent": "scripted",
        "items": items(&[once]) });
    rig.call("create_job", job).await;
    rig.until("sess_r", |event| event["type"] == "job.failed").await;
    let retry = async || {
        let item = json!({ "jobId": "job_r", "itemId": "item-0" });
        let answer = rig.keyed("key-of-this-retry", "retry_job_item", item).await.unwrap();
        (answer.result, answer.cursor)
    };
    let first = retry().await;
    assert_eq!((&first.0["attempt"], first.1.is_some()), (&json!(2), true));
    // While it waits, or runs, and when it is over: what is seen of it differs, what is answered does not.
    assert_eq!(retry().await, first);
    rig.until("sess_r", |event| event["type"] == "job.completed").await;
    assert_eq!(retry().await, first);
    let read = rig.call("get_job", json!({ "jobId": "job_r" })).await;
    assert_eq!((&read["job"]["status"], &read["items"][0]["attempt"]), (&json!("completed"), &json!(2)));
    rig.stop().await;
}
