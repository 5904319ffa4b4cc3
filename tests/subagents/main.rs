//! Subagents by command: whom they work for, how they are listed, waited for, told more, closed and taken up again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../common/mod.rs"]
mod common;
mod lists;
mod trees;
mod waits;

use std::collections::BTreeSet;

use common::{Rig, count, input};
use serde_json::{Value, json};

const FOREVER: u64 = 600_000;

fn sleeper() -> Value {
    input(&json!([{ "sleep": FOREVER }]))
}

/// A script that spawns what spawns, so many per level.
fn tree(width: &[u32], leaf: Value) -> Value {
    match width.split_first() {
        None => leaf,
        Some((count, rest)) => json!([{ "spawn": { "count": count, "script": tree(rest, leaf) } }]),
    }
}

impl Rig {
    async fn spawn(&self, id: &str, more: Value) -> Value {
        let mut args = json!({ "subagentId": id, "sessionId": "sess_a", "input": sleeper() });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.call("spawn_subagent", args).await
    }

    async fn spawned(&self, id: &str) -> Value {
        self.until("sess_a", |event| event["type"] == "subagent.spawned" && event["subagentId"] == id).await
    }

    /// The ids that a listing has, in its order.
    async fn ids(&self, args: Value) -> Vec<String> {
        let listed = self.subagents(args).await;
        listed.iter().map(|one| one["subagentId"].as_str().unwrap().to_owned()).collect()
    }
}

fn set(ids: &[String]) -> BTreeSet<&str> {
    ids.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn a_subagent_works_for_whoever_is_named_and_ends_with_them() {
    let rig = Rig::start().await;
    let busy = json!([{ "spawn": { "count": 1, "script": [{ "sleep": FOREVER }] } }]);
    let turn =
        json!({ "sessionId": "sess_a", "turnId": "turn_1", "agent": "scripted", "input": input(&busy) });
    let submitted = rig.call("submit_turn", turn).await;
    rig.began("sess_a", 1).await;
    let scripted = rig.subagents(json!({ "sessionId": "sess_a" })).await[0].clone();
    let task = json!({ "taskId": "task_1", "sessionId": "sess_a", "objective": "o", "agent": "scripted", "input": sleeper() });
    rig.call("create_task", task).await;
    let attempt = rig.until("sess_a", |event| event["type"] == "task.attempt.started").await;

    let made = rig.spawn("sub_session", json!({ "role": "reviewer", "nickname": "ada", "isolation": "none", "modelPolicy": { "tier": "small" } })).await;
    assert_eq!((&made["status"], &made["sessionId"]), (&json!("running"), &json!("sess_a")), "{made:#}");
    let fact = rig.spawned("sub_session").await;
    let payload = &fact["payload"];
    assert_eq!(
        (&payload["role"], &payload["nickname"], &payload["agent"]),
        (&json!("reviewer"), &json!("ada"), &json!("scripted"))
    );
    assert_eq!(
        (&payload["isolation"], &payload["modelPolicy"]),
        (&json!("none"), &json!({ "tier": "small" }))
    );
    assert!(
        payload["parentSubagentId"].is_null()
            && payload["parentTurnId"].is_null()
            && payload["parentTaskId"].is_null()
    );
    assert_eq!(
        (&fact["threadId"], &fact["turnId"]),
        (&made["threadId"], &made["turnId"]),
        "a thread and a turn of its own"
    );

    rig.spawn("sub_thread", json!({ "threadId": submitted["threadId"] })).await;
    assert_eq!(
        rig.spawned("sub_thread").await["payload"]["parentTurnId"],
        "turn_1",
        "the turn that runs there"
    );
    rig.spawn("sub_turn", json!({ "turnId": "turn_1", "threadId": submitted["threadId"] })).await;
    assert_eq!(rig.spawned("sub_turn").await["payload"]["parentTurnId"], "turn_1");
    rig.spawn("sub_task", json!({ "taskId": "task_1" })).await;
    assert_eq!(rig.spawned("sub_task").await["payload"]["parentTaskId"], "task_1");
    rig.spawn("sub_sub", json!({ "parentSubagentId": "sub_task" })).await;
    let fact = rig.spawned("sub_sub").await;
    assert_eq!(fact["payload"]["parentSubagentId"], "sub_task");
    assert_eq!(fact["taskId"], "task_1", "it works for the task further up, too");
    rig.spawn("sub_both", json!({ "parentSubagentId": "sub_task", "taskId": "task_1" })).await;
    assert_eq!(rig.spawned("sub_both").await["payload"]["parentSubagentId"], "sub_task");
    // The turn of a subagent or of an attempt is theirs.
    rig.spawn("sub_of_turn", json!({ "turnId": scripted["turnId"] })).await;
    assert_eq!(rig.spawned("sub_of_turn").await["payload"]["parentSubagentId"], scripted["subagentId"]);
    rig.spawn("sub_of_attempt", json!({ "turnId": attempt["turnId"] })).await;
    assert_eq!(rig.spawned("sub_of_attempt").await["payload"]["parentTaskId"], "task_1");

    rig.call("cancel_task", json!({ "taskId": "task_1" })).await;
    for id in ["sub_task", "sub_sub", "sub_both", "sub_of_attempt"] {
        rig.subagent_is("sess_a", id, "cancelled").await;
    }
    rig.subagent_is("sess_a", "sub_turn", "running").await;
    rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": "turn_1" })).await;
    let running = rig.ids(json!({ "sessionId": "sess_a", "status": "running" })).await;
    assert_eq!(running, ["sub_session"], "what belongs to no turn goes on");
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn what_is_spawned_for_the_turn_of_an_attempt_is_below_that_turn_and_an_attempt_that_is_over_takes_none()
 {
    let rig = Rig::start().await;
    let script =
        json!([{ "fail": { "message": "once", "retryable": true, "times": 1 } }, { "sleep": FOREVER }]);
    let task = json!({ "taskId": "task_1", "sessionId": "sess_a", "objective": "o", "agent": "scripted",
        "input": input(&script), "retryPolicy": { "maxAttempts": 2, "backoffMs": 1, "maxBackoffMs": 1 } });
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    rig.call("create_task", task).await;
    let is_attempt = |event: &Value, number: u64| {
        event["type"] == "task.attempt.started" && event["payload"]["attempt"] == number
    };
    let second = rig.until("sess_a", |event| is_attempt(event, 2)).await["turnId"].clone();
    let first = rig.until("sess_a", |event| is_attempt(event, 1)).await["turnId"].clone();
    rig.spawn("sub_1", json!({ "turnId": second })).await;
    assert_eq!(rig.spawned("sub_1").await["payload"]["parentTurnId"], second);
    for (parent, total) in [(&second, 1), (&first, 0)] {
        let wait = json!({ "sessionId": "sess_a", "parentId": parent, "mode": "all", "timeoutMs": 1 });
        assert_eq!(rig.call("wait_subagents", wait).await["total"], total, "{parent}");
    }
    for (parent, listed) in [(&second, vec!["sub_1"]), (&json!("task_1"), vec!["sub_1"]), (&first, vec![])] {
        assert_eq!(rig.ids(json!({ "sessionId": "sess_a", "parentId": parent })).await, listed, "{parent}");
    }
    for named in [json!({}), json!({ "taskId": "task_1" })] {
        let mut args = json!({ "sessionId": "sess_a", "input": sleeper(), "turnId": first });
        args.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
        let refused = rig.refused("spawn_subagent", args).await;
        assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("failed")));
    }
    // A turn of an item runs, and does not wait in a queue.
    let job = json!({ "jobId": "job_1", "sessionId": "sess_a", "instruction": "i", "agent": "scripted",
        "items": [{ "itemId": "item_1", "input": sleeper() }] });
    rig.call("create_job", job).await;
    let of_item = |event: &Value| event["type"] == "turn.started" && event["jobItemId"] == "item_1";
    let turn = rig.until("sess_a", of_item).await["turnId"].clone();
    let refused = rig
        .refused("spawn_subagent", json!({ "sessionId": "sess_a", "input": sleeper(), "turnId": turn }))
        .await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("running")));
    rig.call("cancel_task", json!({ "taskId": "task_1" })).await;
    rig.subagent_is("sess_a", "sub_1", "cancelled").await;
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn whom_nobody_knows_or_who_is_over_cannot_have_subagents() {
    let rig = Rig::start().await;
    for session in ["sess_a", "sess_b"] {
        let done = rig.run(session, json!([{ "say": "x" }])).await;
        assert_eq!(done["type"], "turn.completed");
        let id = |what: &str| format!("{what}_of_{session}");
        rig.call("create_task", json!({ "taskId": id("task"), "sessionId": session, "objective": "o" }))
            .await;
        rig.call(
            "spawn_subagent",
            json!({ "subagentId": id("sub"), "sessionId": session, "input": sleeper() }),
        )
        .await;
    }
    let done = rig.run("sess_a", json!([])).await["turnId"].clone();
    rig.call("create_task", json!({ "taskId": "task_over", "sessionId": "sess_a", "objective": "o" })).await;
    rig.call("complete_task", json!({ "taskId": "task_over" })).await;
    rig.spawn("sub_over", json!({})).await;
    rig.call("close_subagent", json!({ "subagentId": "sub_over" })).await;
    let cases = [
        (json!({ "sessionId": "sess_none" }), "not_found", json!(null)),
        (json!({ "turnId": "turn_none" }), "not_found", json!("turnId")),
        (json!({ "threadId": "thrd_none" }), "not_found", json!(null)),
        (json!({ "taskId": "task_none" }), "not_found", json!("taskId")),
        (json!({ "parentSubagentId": "sub_none" }), "not_found", json!("parentSubagentId")),
        (json!({ "agent": "nobody" }), "not_found", json!("agent")),
        (json!({ "taskId": "task_of_sess_b" }), "invalid_argument", json!("taskId")),
        (json!({ "parentSubagentId": "sub_of_sess_b" }), "invalid_argument", json!("parentSubagentId")),
        (
            json!({ "parentSubagentId": "sub_of_sess_a", "taskId": "task_of_sess_a" }),
            "invalid_argument",
            json!("taskId"),
        ),
    ];
    for (more, code, field) in cases {
        let mut args = json!({ "sessionId": "sess_a", "input": sleeper() });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = rig.refused("spawn_subagent", args).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!(code), &field),
            "{more}: {refused}"
        );
    }
    for (more, status) in [
        (json!({ "turnId": done }), "completed"),
        (json!({ "taskId": "task_over" }), "completed"),
        (json!({ "parentSubagentId": "sub_over" }), "cancelled"),
    ] {
        let mut args = json!({ "sessionId": "sess_a", "input": sleeper() });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = rig.refused("spawn_subagent", args).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["status"]),
            (&json!("conflict"), &json!(status)),
            "{more}: {refused}"
        );
    }
    assert_eq!(rig.subagents(json!({ "sessionId": "sess_a" })).await.len(), 2, "nobody was started");
    rig.stop().await;
}

#[tokio::test]
async fn input_is_a_fact_and_reaches_only_who_runs() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    rig.spawn("sub_a", json!({})).await;
    let told = rig
        .call(
            "send_subagent_input",
            json!({ "subagentId": "sub_a", "input": [{ "type": "text", "text": "also this" }] }),
        )
        .await;
    assert_eq!(told["status"], "running");
    let fact = rig.until("sess_a", |event| event["type"] == "subagent.input").await;
    assert_eq!(fact["payload"]["input"][0]["text"], "also this", "{fact:#}");
    let large = json!({ "subagentId": "sub_a", "input": [{ "type": "text", "text": "x".repeat(100_000) }] });
    let refused = rig.refused("send_subagent_input", large).await;
    assert_eq!(refused["code"], "payload_too_large");
    assert!(refused["details"]["limit"].is_u64(), "P9: {refused}");
    rig.call("close_subagent", json!({ "subagentId": "sub_a" })).await;
    let refused =
        rig.refused("send_subagent_input", json!({ "subagentId": "sub_a", "input": sleeper() })).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("cancelled")));
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_subagent_is_taken_up_again_from_every_bad_end_and_never_from_a_good_one() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    let script = |script: Value| json!({ "input": input(&script) });
    let once = json!([{ "tool": "sleep", "args": { "ms": 5_000, "once": true } }]);
    rig.spawn("sub_lost", script(once)).await;
    rig.until("sess_a", |event| event["type"] == "tool.started" && event["subagentId"] == "sub_lost").await;
    let rig = rig.crash().await;
    rig.subagent_is("sess_a", "sub_lost", "lost").await;
    rig.spawn(
        "sub_failed",
        script(json!([{ "fail": { "retryable": false, "times": 1 } }, { "say": "attempt {{attempt}}" }])),
    )
    .await;
    rig.subagent_is("sess_a", "sub_failed", "failed").await;
    rig.spawn("sub_late", json!({ "deadlineMs": 100 })).await;
    rig.subagent_is("sess_a", "sub_late", "timed_out").await;
    rig.spawn("sub_closed", json!({})).await;
    rig.call("close_subagent", json!({ "subagentId": "sub_closed" })).await;
    rig.spawn("sub_done", script(json!([{ "say": "x" }]))).await;
    rig.subagent_is("sess_a", "sub_done", "completed").await;
    rig.spawn("sub_runs", json!({})).await;

    for id in ["sub_lost", "sub_late", "sub_closed"] {
        let again = input(&json!([{ "say": "attempt {{attempt}}" }]));
        let resumed = rig
            .call("resume_subagent", json!({ "subagentId": id, "input": again, "reason": "once more" }))
            .await;
        assert!(["running", "completed"].contains(&resumed["status"].as_str().unwrap()), "{resumed:#}");
        rig.subagent_is("sess_a", id, "completed").await;
    }
    rig.call("resume_subagent", json!({ "subagentId": "sub_failed" })).await;
    rig.subagent_is("sess_a", "sub_failed", "completed").await;
    for (id, status) in [("sub_done", "completed"), ("sub_failed", "completed"), ("sub_runs", "running")] {
        let refused = rig.refused("resume_subagent", json!({ "subagentId": id })).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["status"]),
            (&json!("conflict"), &json!(status)),
            "{id}"
        );
    }
    let closed = rig.call("close_subagent", json!({ "subagentId": "sub_done" })).await;
    assert_eq!(closed["status"], "completed", "terminal is terminal");
    let events = rig.checked("sess_a").await;
    let texts = events.iter().filter(|event| event["payload"]["text"] == "attempt 2");
    assert_eq!(texts.count(), 4, "another attempt of the same subagent");
    for (id, ended, last) in [
        ("sub_lost", "subagent.failed", "subagent.completed"),
        ("sub_late", "subagent.failed", "subagent.completed"),
        ("sub_closed", "subagent.closed", "subagent.completed"),
    ] {
        let of = |class: &str| {
            events.iter().filter(|event| event["subagentId"] == id && event["type"] == class).count()
        };
        assert_eq!((of(ended), of(last)), (1, 1), "{id}: one end for each attempt");
    }
    assert_eq!(
        events
            .iter()
            .filter(|event| event["subagentId"] == "sub_done" && event["type"] == "subagent.closed")
            .count(),
        0,
        "no subagent.closed after subagent.completed"
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_parent_sees_how_each_of_its_children_ended() {
    let rig = Rig::start().await;
    let cases = [
        (json!([{ "say": "x" }]), "completed", "subagent.completed"),
        (json!([{ "fail": { "retryable": false } }]), "failed", "subagent.failed"),
        (json!([{ "approve": { "prompt": "?", "expiresMs": 50 } }]), "cancelled", "subagent.closed"),
    ];
    for (script, word, class) in cases {
        let session = format!("sess_{word}");
        let parent = json!([{ "spawn": { "count": 7, "script": script } }, { "say": "went on" }]);
        let over = rig.run(&session, parent).await;
        assert_eq!(over["type"], "turn.completed", "a child's end does not end the script: {word}");
        let events = rig.checked(&session).await;
        assert_eq!(count(&events, class), 7);
        let join = events.iter().find(|event| event["type"] == "tool.result").unwrap();
        let structured = &join["payload"]["structured"];
        assert_eq!((&structured["started"], &structured[word]), (&json!(7), &json!(7)), "{structured}");
        assert_eq!(
            structured["notCompleted"].as_array().map_or(0, Vec::len),
            if word == "completed" { 0 } else { 5 }
        );
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_subagent_says_that_it_waits_for_a_decision() {
    let rig = Rig::start().await;
    let ask = json!([{ "approve": { "prompt": "?", "decisions": ["allow", "deny"] } }, { "sleep": 5 }]);
    let submitted = rig.submit("sess_a", json!([{ "spawn": { "count": 2, "script": ask } }])).await;
    let waiting = rig
        .eventually("both wait", async || {
            let waiting = rig.subagents(json!({ "sessionId": "sess_a", "status": "waiting_input" })).await;
            (waiting.len() == 2).then_some(waiting)
        })
        .await;
    let asked = rig.served("sess_a").await;
    let first = waiting[0]["subagentId"].as_str().unwrap();
    let action = |of: &str| {
        let asks = |event: &&Value| event["type"] == "action.required" && event["subagentId"] == of;
        asked.iter().find(asks).unwrap()["actionId"].clone()
    };
    rig.call("respond_action", json!({ "actionId": action(first), "decision": "allow" })).await;
    rig.subagent_is("sess_a", first, "completed").await;
    let second = waiting[1]["subagentId"].as_str().unwrap();
    rig.subagent_is("sess_a", second, "waiting_input").await;
    rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": submitted["turnId"] })).await;
    rig.subagent_is("sess_a", second, "cancelled").await;
    let events = rig.checked("sess_a").await;
    let told = events.iter().filter(|event| event["type"] == "subagent.status");
    let told: Vec<_> = told.map(|event| event["payload"]["status"].as_str().unwrap()).collect();
    assert_eq!(told.iter().filter(|status| **status == "waiting_input").count(), 2);
    assert_eq!(told.iter().filter(|status| **status == "running").count(), 1);
    rig.stop().await;
}
