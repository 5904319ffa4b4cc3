//! Subagents listed, and their threads read.

use super::*;

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
