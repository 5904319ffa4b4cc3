//! Subagents by command: whom they work for, how they are listed, waited for, told more, closed and taken up again.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

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
async fn a_wait_for_the_children_of_a_turn_finds_any_turn_of_the_session_that_is_named() {
    let rig = Rig::start().await;
    for session in ["sess_a", "sess_b"] {
        let turn = json!({ "sessionId": session, "turnId": "turn_1", "agent": "scripted",
            "input": input(&tree(&[1, 2], json!([]))) });
        rig.call("submit_turn", turn).await;
        rig.turn_over(session, "turn_1").await;
    }
    let wait = |parent: &Value, session: Option<&str>| json!({ "parentId": parent, "mode": "all", "timeoutMs": 1_000, "sessionId": session });
    let turn = json!("turn_1");
    let several = rig.refused("wait_subagents", wait(&turn, None)).await;
    assert_eq!((&several["code"], &several["details"]["status"]), (&json!("conflict"), &json!("ambiguous")));
    assert_eq!(rig.call("wait_subagents", wait(&turn, Some("sess_a"))).await["ended"], 1);
    let child = rig.subagents(json!({ "sessionId": "sess_a", "depth": 1 })).await[0].clone();
    let of_child = rig.call("wait_subagents", wait(&child["turnId"], Some("sess_a"))).await;
    assert_eq!(of_child["ended"], 2, "{of_child}");
    for session in [None, Some("sess_b"), Some("sess_none")] {
        let refused = rig.refused("wait_subagents", wait(&child["turnId"], session)).await;
        assert_eq!(refused["code"], "not_found", "{session:?}");
    }
    let mut mixed = wait(&Value::Null, Some("sess_b"));
    mixed["subagentIds"] = json!([child["subagentId"]]);
    assert_eq!(rig.refused("wait_subagents", mixed).await["details"]["field"], "sessionId");
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
async fn a_listing_ends_also_where_a_session_a_task_and_subagents_have_one_id() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "demo" })).await;
    let spawn = async |id: &str, more: Value| {
        let mut args = json!({ "subagentId": id, "sessionId": "demo", "input": sleeper() });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rig.call("spawn_subagent", args).await
    };
    let task = json!({ "taskId": "demo", "sessionId": "demo", "objective": "o", "autoStart": false });
    rig.call("create_task", task).await;
    spawn("demo", json!({})).await;
    spawn("sub_below", json!({ "parentSubagentId": "demo" })).await;
    spawn("sub_of_task", json!({ "taskId": "demo" })).await;
    for limit in [1, 10] {
        let all = rig.ids(json!({ "sessionId": "demo", "limit": limit })).await;
        assert_eq!(all, ["demo", "sub_below", "sub_of_task"], "limit {limit}");
        let below = rig.ids(json!({ "sessionId": "demo", "parentId": "demo", "limit": limit })).await;
        assert_eq!(below, ["sub_below"], "the subagent comes first");
    }
    let wait = json!({ "parentId": "demo", "mode": "all", "timeoutMs": 1 });
    let waited = rig.call("wait_subagents", wait).await;
    assert_eq!((&waited["total"], &waited["timedOut"]), (&json!(1), &json!(true)), "{waited}");
    rig.stop().await;
}

#[tokio::test]
async fn a_listing_has_each_once_parents_before_children_by_page_status_depth_and_parent() {
    let rig = Rig::start().await;
    let leaf = json!([{ "sleep": FOREVER }]);
    let submitted = rig.submit("sess_a", tree(&[3, 4, 5], leaf.clone())).await;
    let all = 3 + 12 + 60;
    rig.began("sess_a", all).await;
    let every = rig.subagents(json!({ "sessionId": "sess_a", "limit": 1000 })).await;
    assert_eq!(every.len(), all);
    let depths: Vec<u64> = every.iter().map(|one| one["depth"].as_u64().unwrap()).collect();
    let mut seen = BTreeSet::new();
    for one in &every {
        let parent = one["parentSubagentId"].as_str();
        assert!(parent.is_none_or(|parent| seen.contains(parent)), "a parent comes first");
        seen.insert(one["subagentId"].as_str().unwrap());
    }
    for limit in [1, 7, 75] {
        let paged = rig.ids(json!({ "sessionId": "sess_a", "limit": limit })).await;
        assert_eq!(paged.len(), all, "limit {limit}");
        assert_eq!(set(&paged), seen, "limit {limit}");
    }
    for (depth, wanted) in [(1, 3), (2, 15), (3, 75), (64, 75)] {
        let found = rig.ids(json!({ "sessionId": "sess_a", "depth": depth, "limit": 10 })).await;
        assert_eq!((found.len(), set(&found).len()), (wanted, wanted), "depth {depth}");
        assert!(depth == 64 || depths.iter().filter(|of| **of <= depth).count() == wanted);
    }
    let top = &every.iter().find(|one| one["depth"] == 1).unwrap()["subagentId"];
    for (more, wanted) in [
        (json!({ "parentId": top }), 4),
        (json!({ "parentId": top, "depth": 2, "limit": 3 }), 24),
        (json!({ "parentId": submitted["turnId"] }), 3),
        (json!({ "parentId": "sess_a" }), 3),
        (json!({ "status": "running", "limit": 20 }), 75),
        (json!({ "status": "completed" }), 0),
    ] {
        let mut args = json!({ "sessionId": "sess_a" });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let found = rig.ids(args).await;
        assert_eq!((found.len(), set(&found).len()), (wanted, wanted), "{more}");
    }
    let task = json!({ "taskId": "task_1", "sessionId": "sess_b", "objective": "o", "agent": "scripted", "input": input(&tree(&[2, 3], leaf)) });
    rig.call("create_session", json!({ "sessionId": "sess_b" })).await;
    rig.call("create_task", task).await;
    rig.began("sess_b", 8).await;
    for (depth, wanted) in [(1, 2), (2, 8), (9, 8)] {
        let found =
            rig.ids(json!({ "sessionId": "sess_b", "parentId": "task_1", "depth": depth, "limit": 2 })).await;
        assert_eq!(
            (found.len(), set(&found).len()),
            (wanted, wanted),
            "the children of a task, depth {depth}"
        );
    }
    let found = rig.ids(json!({ "sessionId": "sess_b" })).await;
    assert_eq!((found.len(), set(&found).len()), (8, 8), "those of a task are the session's, too");
    for bad in ["zzz!!", "a//b", "!", "sub_none", "sub_none!", top.as_str().unwrap()] {
        let session = if bad.starts_with("sub_") && bad.len() > 12 { "sess_b" } else { "sess_a" };
        let refused = rig.refused("list_subagents", json!({ "sessionId": session, "after": bad })).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!("invalid_argument"), &json!("after")),
            "{bad}"
        );
    }
    let unknown =
        rig.refused("list_subagents", json!({ "sessionId": "sess_a", "parentId": "sub_none" })).await;
    assert_eq!(unknown["code"], "not_found");
    rig.stop().await;
}

#[tokio::test]
async fn a_chain_of_any_depth_is_listed_page_by_page_and_closed_from_its_root() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    // Names as long as they may be: a place in the list is short all the same.
    let name = |level: usize| format!("{level:03}-{}", "n".repeat(124));
    rig.spawn(&name(0), json!({})).await;
    for level in 1..80 {
        rig.spawn(&name(level), json!({ "parentSubagentId": name(level - 1) })).await;
    }
    let found = rig.ids(json!({ "sessionId": "sess_a", "limit": 9 })).await;
    assert_eq!(found, (0..80).map(name).collect::<Vec<_>>());
    let below =
        rig.ids(json!({ "sessionId": "sess_a", "parentId": name(40), "depth": 64, "limit": 5 })).await;
    assert_eq!(below.len(), 39);
    let answer = rig.call("close_subagent", json!({ "subagentId": name(0) })).await;
    assert_eq!(answer["status"], "cancelled");
    assert_eq!(rig.ids(json!({ "sessionId": "sess_a", "status": "cancelled", "limit": 30 })).await.len(), 80);
    let events = rig.checked("sess_a").await;
    assert_eq!(events.last().unwrap()["subagentId"], name(0).as_str(), "P11: the root is closed last");
    rig.stop().await;
}

#[tokio::test]
async fn every_thread_that_somebody_has_can_be_read() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    let read = async |thread: &Value| {
        rig.call("get_thread_read", json!({ "sessionId": "sess_a", "threadId": thread })).await
    };
    // The id of one that a caller has named says nothing of its thread's.
    let named = rig.spawn("sub_mine", json!({})).await;
    let of_named = read(&named["threadId"]).await;
    assert_eq!((&of_named["threadId"], &of_named["subagentId"]), (&named["threadId"], &json!("sub_mine")));
    // Each attempt of a task has a thread of its own, and so has each item of a job.
    let script = json!([{ "fail": { "message": "m", "times": 1, "retryable": true } }]);
    let policy = json!({ "maxAttempts": 2, "backoffMs": 1, "maxBackoffMs": 1 });
    let task = json!({ "taskId": "task_a", "sessionId": "sess_a", "objective": "o", "agent": "scripted",
        "input": input(&script), "retryPolicy": policy });
    rig.call("create_task", task).await;
    rig.task_is("task_a", "completed").await;
    let item = json!({ "input": input(&json!([{ "say": "hello" }])) });
    let job = json!({ "jobId": "job_a", "sessionId": "sess_a", "agent": "scripted", "instruction": "o", "items": [item] });
    rig.call("create_job", job).await;
    rig.until("sess_a", |event| event["type"] == "job.completed").await;
    let events = rig.served("sess_a").await;
    let threads: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "turn.started" && event["subagentId"].is_null())
        .map(|event| &event["threadId"])
        .collect();
    assert_eq!(threads.len(), 3, "two attempts and an item");
    for thread in threads {
        assert_eq!(read(thread).await["threadId"], *thread);
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_wait_ends_with_all_with_any_or_with_its_time() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    for id in ["sub_1", "sub_2", "sub_3"] {
        rig.spawn(id, json!({})).await;
    }
    let ids = json!(["sub_1", "sub_2", "sub_3"]);
    for mode in ["all", "any"] {
        let waited =
            rig.call("wait_subagents", json!({ "subagentIds": ids, "mode": mode, "timeoutMs": 50 })).await;
        assert_eq!(
            (&waited["timedOut"], &waited["ended"], &waited["total"]),
            (&json!(true), &json!(0), &json!(3))
        );
        let statuses: Vec<&Value> =
            waited["subagents"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
        assert_eq!(statuses, ["running"; 3], "the statuses so far");
    }
    let args = json!({ "subagentIds": ids, "mode": "any", "timeoutMs": 30_000 });
    let (waited, _) = tokio::join!(
        rig.call("wait_subagents", args),
        rig.call("close_subagent", json!({ "subagentId": "sub_2" }))
    );
    assert_eq!((&waited["timedOut"], &waited["ended"]), (&json!(false), &json!(1)));
    let args = json!({ "parentId": "sess_a", "mode": "all", "timeoutMs": 30_000 });
    let (waited, _, _) = tokio::join!(
        rig.call("wait_subagents", args),
        rig.call("close_subagent", json!({ "subagentId": "sub_1" })),
        rig.call("close_subagent", json!({ "subagentId": "sub_3" })),
    );
    assert_eq!(
        (&waited["timedOut"], &waited["ended"], &waited["total"]),
        (&json!(false), &json!(3), &json!(3))
    );
    rig.spawn("sub_long", json!({})).await;
    let caller = cadre::runtime::Caller::local();
    let args = json!({ "subagentIds": ["sub_long"], "mode": "all", "timeoutMs": 600_000 });
    let shortly = std::time::Duration::from_millis(50);
    let waited = rig.runtime.call(&caller, "wait_subagents", args, None, shortly).await.unwrap();
    assert_eq!(waited.result["timedOut"], true, "nobody waits longer than the caller does");
    let unknown = json!({ "subagentIds": ["sub_1", "sub_none"], "mode": "any", "timeoutMs": 50 });
    assert_eq!(rig.refused("wait_subagents", unknown).await["code"], "not_found", "one of them is nobody");
    let unknown = json!({ "parentId": "sub_none", "mode": "any", "timeoutMs": 50 });
    assert_eq!(rig.refused("wait_subagents", unknown).await["code"], "not_found");
    let nobody =
        rig.call("wait_subagents", json!({ "parentId": "sub_1", "mode": "any", "timeoutMs": 50 })).await;
    assert_eq!((&nobody["timedOut"], &nobody["total"]), (&json!(false), &json!(0)), "nobody is waited for");
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
async fn p11_a_tree_of_thousands_is_closed_whoever_else_closes_spawns_or_completes_meanwhile() {
    let rig = Rig::start().await;
    // Some end by themselves while the tree is being closed, some start then.
    let leaf = json!([{ "sleep": 300 }, { "say": "x" }]);
    let scripts = [
        tree(&[50, 40], json!([{ "sleep": FOREVER }])),
        tree(&[50, 40], leaf),
        tree(&[10, 10, 20], json!([])),
    ];
    for (round, script) in scripts.into_iter().enumerate() {
        let session = format!("sess_{round}");
        rig.call("create_session", json!({ "sessionId": session })).await;
        let root = format!("sub_root{round}");
        let args = json!({ "subagentId": root, "sessionId": session, "input": input(&script) });
        rig.call("spawn_subagent", args).await;
        rig.began(&session, 200).await;
        let close = || rig.answer("close_subagent", json!({ "subagentId": root, "reason": "enough" }));
        let spawn = |number: usize| {
            let args = json!({ "subagentId": format!("sub_extra{round}_{number}"), "sessionId": session, "parentSubagentId": root, "input": sleeper() });
            rig.try_call("spawn_subagent", args)
        };
        let (one, extra, two, other, three) = tokio::join!(close(), spawn(1), close(), spawn(2), close());
        for answer in [&one, &two, &three] {
            let status = answer.result["status"].as_str().unwrap();
            assert!(["cancelled", "completed"].contains(&status), "{status}");
            assert_eq!(answer.result["status"], one.result["status"], "all are told the same");
        }
        for made in [extra, other] {
            assert!(made.is_ok() || made.unwrap_err().to_json()["error"]["code"] == "conflict");
        }
        let running =
            rig.subagents(json!({ "sessionId": session, "status": "running", "limit": 1000 })).await;
        assert!(running.is_empty(), "round {round}: {running:#?}");
        let events = rig.checked(&session).await;
        let cursor = three.cursor.unwrap().to_string();
        assert!(
            events.iter().all(|event| event["cursor"].as_str().unwrap() <= cursor.as_str()),
            "nothing of the tree appears later"
        );
        let spawned = count(&events, "subagent.spawned");
        let ended =
            ["subagent.closed", "subagent.completed", "subagent.failed"].map(|class| count(&events, class));
        assert_eq!(ended.iter().sum::<usize>(), spawned, "one terminal fact each: {ended:?}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn p11_closing_a_tree_of_thousands_goes_on_after_its_owner_died() {
    let mut rig = Rig::start().await;
    for round in 0..3 {
        let session = format!("sess_{round}");
        rig.call("create_session", json!({ "sessionId": session })).await;
        let root = format!("sub_root{round}");
        let script = tree(&[20, 50], json!([{ "sleep": FOREVER }]));
        let args = json!({ "subagentId": root, "sessionId": session, "input": input(&script) });
        rig.call("spawn_subagent", args).await;
        rig.began(&session, [1021, 300, 1][round]).await;
        {
            let until = rig.until(&session, |event| event["type"] == "subagent.closed");
            tokio::select! {
                _ = rig.try_call("close_subagent", json!({ "subagentId": root })) => {}
                _ = until => {}
            }
        }
        rig = rig.crash().await;
        // Nobody asks again: what was begun goes on by itself.
        let root_closed =
            |event: &Value| event["type"] == "subagent.closed" && event["subagentId"] == root.as_str();
        rig.until(&session, root_closed).await;
        let answer = rig.answer("close_subagent", json!({ "subagentId": root })).await;
        assert_eq!(answer.result["status"], "cancelled");
        let events = rig.checked(&session).await;
        assert_eq!(count(&events, "subagent.closed"), count(&events, "subagent.spawned"));
        assert_eq!(events.last().unwrap()["subagentId"], root.as_str());
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_join_of_thousands_is_one_fact_of_its_parent() {
    let rig = Rig::start().await;
    let over = rig.run("sess_a", tree(&[3_000], json!([]))).await;
    assert_eq!(over["type"], "turn.completed");
    let events = rig.checked("sess_a").await;
    let own: Vec<&str> = events
        .iter()
        .filter(|event| event["streamId"] == "session:sess_a")
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert!(own.len() < 16, "the parent says little, whatever the number of children: {own:?}");
    assert_eq!(own.iter().filter(|class| **class == "tool.result").count(), 1);
    let join = events.iter().position(|event| event["type"] == "tool.result").unwrap();
    let last = events.iter().rposition(|event| event["type"] == "subagent.completed").unwrap();
    assert!(join > last, "P11: after all that it waits for are terminal");
    let counts =
        rig.call("get_session", json!({ "sessionId": "sess_a" })).await["subagentJobSummary"].clone();
    assert!(counts.to_string().contains("3000"), "{counts:#}");
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
