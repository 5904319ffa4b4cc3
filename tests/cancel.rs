//! Cancelling trees (P11): when a cancel is answered as done, everything below is closed, and nothing follows.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{PATIENCE, Rig, count, input, turn};
use serde_json::{Value, json};

/// Long enough that nothing of it ends by itself in a test.
const FOREVER: u64 = 600_000;

fn forest(width: &[u32]) -> Value {
    match width.split_first() {
        None => json!([{ "sleep": FOREVER }]),
        Some((count, rest)) => json!([{ "spawn": { "count": count, "script": forest(rest) } }]),
    }
}

fn size(width: &[u32]) -> usize {
    width.iter().rev().fold(0, |below, count| *count as usize * (1 + below))
}

impl Rig {
    /// Waits until so many subagents have said that they began.
    async fn spawned(&self, session: &str, wanted: usize) {
        let seen = std::cell::Cell::new(0);
        self.until(session, |event| {
            if event["type"] == "subagent.spawned" {
                seen.set(seen.get() + 1);
            }
            seen.get() >= wanted
        })
        .await;
    }

    /// That nobody of a session's tree is open, and that nothing was said after the answer.
    async fn closed(&self, session: &str, answer: &cadre::control::result::Answer, subagents: usize) {
        let cursor = answer.cursor.unwrap().to_string();
        let listed = self.subagents(json!({ "sessionId": session, "limit": 1000 })).await;
        assert_eq!(listed.len(), subagents);
        for subagent in &listed {
            assert_eq!(subagent["status"], "cancelled", "{subagent:#}");
        }
        let events = self.checked(session).await;
        assert_eq!(count(&events, "subagent.closed"), subagents);
        let later: Vec<&Value> = events
            .iter()
            .filter(|event| event["cursor"].as_str().unwrap() > cursor.as_str())
            .filter(|event| event["type"] != "queue.changed")
            .collect();
        assert!(later.is_empty(), "facts after the answer: {later:#?}");
    }
}

#[tokio::test]
async fn p11_an_interrupt_of_a_tree_is_answered_when_every_descendant_is_closed() {
    let rig = Rig::start().await;
    let width = [3, 10, 10];
    let submitted = rig.submit("sess_a", forest(&width)).await;
    rig.spawned("sess_a", size(&width)).await;
    let answer = rig.answer("interrupt_turn", json!({ "sessionId": "sess_a", "reason": "enough" })).await;
    assert_eq!(answer.result["status"], "cancelled", "{}", answer.result);
    assert_eq!(answer.result["turnId"], submitted["turnId"]);
    rig.closed("sess_a", &answer, size(&width)).await;
    let ended = rig.turn_over("sess_a", submitted["turnId"].as_str().unwrap()).await;
    assert_eq!((&ended["type"], &ended["payload"]["reason"]), (&json!("turn.failed"), &json!("enough")));
    let again = json!({ "sessionId": "sess_a", "turnId": submitted["turnId"] });
    let again = rig.answer("interrupt_turn", again).await;
    assert_eq!(again.result["status"], "cancelled");
    assert_eq!(again.cursor, None, "nothing was left to be written");
    rig.closed("sess_a", &answer, size(&width)).await;
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_cancel_that_is_not_over_in_time_says_so_whatever_the_task_has_come_to() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    // It has failed, and what it left running below it goes on.
    let script = json!([{ "spawn": { "count": 300, "script": [{ "sleep": FOREVER }], "join": "none" } }, { "fail": { "message": "m" } }]);
    let task = json!({ "taskId": "task_a", "sessionId": "sess_a", "objective": "o", "agent": "scripted", "input": input(&script) });
    rig.call("create_task", task).await;
    rig.task_is("task_a", "failed").await;
    let cancel = json!({ "taskId": "task_a" });
    let caller = cadre::runtime::Caller::local();
    let shortly = std::time::Duration::from_millis(1);
    let hurried = rig.runtime.call(&caller, "cancel_task", cancel.clone(), None, shortly).await;
    if let Ok(answer) = hurried {
        assert_eq!(answer.result["status"], "cancelling", "300 subagents are not closed in a millisecond");
    }
    let answer = rig.answer("cancel_task", cancel).await;
    assert_eq!(answer.result["status"], "failed");
    let listed = rig.subagents(json!({ "sessionId": "sess_a", "status": "running" })).await;
    assert_eq!(listed.len(), 0);
    rig.stop().await;
}

#[tokio::test]
async fn p11_an_interrupt_reaches_thousands_of_children_also_those_that_are_just_being_started() {
    let rig = Rig::start().await;
    for (session, wait_for) in [("sess_all", 2_500), ("sess_some", 700), ("sess_few", 1)] {
        rig.submit(session, forest(&[2_500])).await;
        rig.spawned(session, wait_for).await;
        let answer = rig.answer("interrupt_turn", json!({ "sessionId": session })).await;
        assert_eq!(answer.result["status"], "cancelled", "{session}: {}", answer.result);
        let spawned = count(&rig.served(session).await, "subagent.spawned");
        assert!(spawned >= wait_for);
        rig.closed(session, &answer, spawned).await;
    }
    rig.stop().await;
}

#[tokio::test]
async fn p11_an_interrupt_that_races_with_the_start_of_a_tree_leaves_nothing_behind() {
    let rig = Rig::start().await;
    for round in 0..12 {
        let session = format!("sess_{round}");
        let submitted = rig.submit(&session, forest(&[4, 3, 2])).await;
        if round % 3 > 0 {
            rig.spawned(&session, round).await;
        }
        let args = json!({ "sessionId": session, "turnId": submitted["turnId"] });
        let (one, two) =
            tokio::join!(rig.answer("interrupt_turn", args.clone()), rig.answer("interrupt_turn", args));
        assert_eq!(
            (&one.result["status"], &two.result["status"]),
            (&json!("cancelled"), &json!("cancelled"))
        );
        let spawned = count(&rig.served(&session).await, "subagent.spawned");
        rig.closed(&session, &one, spawned).await;
        rig.closed(&session, &two, spawned).await;
    }
    rig.stop().await;
}

#[tokio::test]
async fn p11_an_interrupt_that_races_with_completion_ends_everything_once() {
    let rig = Rig::start().await;
    for round in 0..20u64 {
        let session = format!("sess_{round}");
        let child =
            json!([{ "sleep": round % 7 }, { "say": "x" }, { "tool": "sleep", "args": { "ms": round % 5 } }]);
        let script = json!([{ "spawn": { "count": 10, "script": [{ "spawn": { "count": 2, "script": child } }] } }, { "say": "done" }]);
        let submitted = rig.submit(&session, script).await;
        rig.spawned(&session, (round as usize * 3) % 25 + 1).await;
        let args = json!({ "sessionId": session, "turnId": submitted["turnId"] });
        let answer = rig.answer("interrupt_turn", args.clone()).await;
        let status = answer.result["status"].as_str().unwrap();
        assert!(["cancelled", "completed"].contains(&status), "{status}");
        let again = rig.answer("interrupt_turn", args).await;
        assert_eq!(again.result["status"], status, "a second cancel answers the same");
        let events = rig.checked(&session).await;
        let cursor = answer.cursor.unwrap().to_string();
        let later = events.iter().filter(|event| event["cursor"].as_str().unwrap() > cursor.as_str());
        assert_eq!(later.count(), 0);
        for subagent in rig.subagents(json!({ "sessionId": session })).await {
            let status = subagent["status"].as_str().unwrap();
            assert!(["cancelled", "completed"].contains(&status), "{subagent:#}");
        }
    }
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_cancel_goes_on_after_a_crash_and_still_closes_the_whole_tree() {
    let mut rig = Rig::start().await;
    for round in 0..4 {
        let session = format!("sess_{round}");
        let width = [5, 10, 4];
        let submitted = rig.submit(&session, forest(&width)).await;
        rig.spawned(&session, size(&width)).await;
        let args = json!({ "sessionId": session, "turnId": submitted["turnId"] });
        {
            // The cancel is on its way when the owner dies.
            let until = rig.until(&session, |event| event["type"] == "subagent.closed" && round > 0);
            tokio::select! {
                _ = rig.try_call("interrupt_turn", args.clone()) => {}
                _ = until => {}
                () = tokio::time::sleep(std::time::Duration::from_millis(2)), if round == 0 => {}
            }
        }
        rig = rig.crash().await;
        let answer = rig.answer("interrupt_turn", args).await;
        assert_eq!(answer.result["status"], "cancelled");
        rig.closed(&session, &answer, size(&width)).await;
    }
    rig.stop().await;
}

#[tokio::test]
async fn p11_closing_a_subagent_closes_what_is_below_it_and_nothing_beside_it() {
    let rig = Rig::start().await;
    let submitted = rig.submit("sess_a", forest(&[3, 4, 2])).await;
    rig.spawned("sess_a", size(&[3, 4, 2])).await;
    let top = rig.subagents(json!({ "sessionId": "sess_a", "depth": 1 })).await;
    assert_eq!(top.len(), 3);
    let id = top[0]["subagentId"].as_str().unwrap();
    let answer = rig.answer("close_subagent", json!({ "subagentId": id, "reason": "not this one" })).await;
    assert_eq!(answer.result["status"], "cancelled");
    let below = rig.subagents(json!({ "sessionId": "sess_a", "parentId": id, "depth": 9 })).await;
    assert_eq!(below.len(), size(&[4, 2]));
    assert!(below.iter().all(|subagent| subagent["status"] == "cancelled"));
    let running = rig.subagents(json!({ "sessionId": "sess_a", "status": "running" })).await;
    assert_eq!(running.len(), 2 * (1 + size(&[4, 2])));
    let again = rig.answer("close_subagent", json!({ "subagentId": id })).await;
    assert_eq!(again.result["status"], "cancelled");
    let answer =
        rig.answer("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": submitted["turnId"] })).await;
    assert_eq!(answer.result["status"], "cancelled");
    rig.closed("sess_a", &answer, size(&[3, 4, 2])).await;
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_closed_child_is_seen_by_its_parent_and_the_join_fires_once() {
    let rig = Rig::start().await;
    let script = json!([{ "spawn": { "count": 2, "script": [{ "sleep": FOREVER }] } }, { "say": "after" }]);
    let submitted = rig.submit("sess_a", script).await;
    rig.spawned("sess_a", 2).await;
    for subagent in rig.subagents(json!({ "sessionId": "sess_a" })).await {
        rig.call("close_subagent", json!({ "subagentId": subagent["subagentId"] })).await;
    }
    let ended = rig.turn_over("sess_a", submitted["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["type"], "turn.completed", "a cancelled child does not end the script");
    let events = rig.checked("sess_a").await;
    let joins: Vec<&Value> = events.iter().filter(|event| event["type"] == "tool.result").collect();
    assert_eq!(joins.len(), 1);
    assert_eq!(joins[0]["payload"]["structured"]["cancelled"], 2, "{:#}", joins[0]);
    rig.stop().await;
}

#[tokio::test]
async fn p11_children_that_outlive_their_turn_are_still_reached_by_its_interrupt() {
    let rig = Rig::start().await;
    let child = json!([{ "spawn": { "count": 3, "script": [{ "sleep": FOREVER }], "join": "none" } }]);
    let script = json!([{ "spawn": { "count": 4, "script": child, "join": "none" } }, { "say": "bye" }]);
    let submitted = rig.submit("sess_a", script).await;
    let id = submitted["turnId"].as_str().unwrap();
    let ended = rig.turn_over("sess_a", id).await;
    assert_eq!(ended["type"], "turn.completed");
    rig.spawned("sess_a", 4 + 12).await;
    let answer = rig.answer("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": id })).await;
    assert_eq!(answer.result["status"], "completed", "the turn itself stays what it was");
    let running = rig.subagents(json!({ "sessionId": "sess_a", "status": "running" })).await;
    assert!(running.is_empty(), "{running:#?}");
    let cursor = answer.cursor.unwrap().to_string();
    let events = rig.checked("sess_a").await;
    let later: Vec<&Value> =
        events.iter().filter(|event| event["cursor"].as_str().unwrap() > cursor.as_str()).collect();
    assert!(later.is_empty(), "facts after the answer: {later:#?}");
    assert_eq!(count(&events, "subagent.closed"), 12);
    assert_eq!(count(&events, "subagent.completed"), 4);
    rig.stop().await;
}

#[tokio::test]
async fn p11_running_tools_are_stopped_and_their_results_are_ignored() {
    let rig = Rig::start().await;
    let child = json!([{ "tools": [{ "tool": "sleep", "args": { "ms": 300 } }, { "tool": "sleep", "args": { "ms": 400_000 } }] }, { "say": "never" }]);
    let script = json!([{ "spawn": { "count": 5, "script": child } }]);
    rig.submit("sess_a", script).await;
    let seen = std::cell::Cell::new(0);
    rig.until("sess_a", |event| {
        seen.set(
            seen.get() + usize::from(event["payload"]["name"] == "sleep" && event["type"] == "tool.started"),
        );
        seen.get() == 10
    })
    .await;
    let answer = rig.answer("interrupt_turn", json!({ "sessionId": "sess_a" })).await;
    assert_eq!(answer.result["status"], "cancelled");
    rig.closed("sess_a", &answer, 5).await;
    // Time for a tool that was not stopped to come back.
    rig.submit("sess_a", json!([{ "sleep": 500 }])).await;
    let again = rig.submit("sess_a", json!([{ "say": "later" }])).await;
    rig.turn_over("sess_a", again["turnId"].as_str().unwrap()).await;
    let events = rig.checked("sess_a").await;
    assert!(!events.iter().any(|event| event["payload"]["text"] == "never"));
    assert_eq!(
        events
            .iter()
            .filter(|event| event["type"] == "tool.failed"
                && event["payload"]["status"] == "cancelled"
                && event["payload"]["name"] == "sleep")
            .count(),
        10
    );
    rig.stop().await;
}

#[tokio::test]
async fn p11_cancelling_a_task_closes_its_subagents_its_subtasks_and_theirs() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    let args = json!({ "taskId": "task_root", "sessionId": "sess_a", "objective": "all", "agent": "scripted",
        "input": input(&forest(&[3, 2])) });
    rig.call("create_task", args).await;
    for child in 0..3 {
        let id = format!("task_child{child}");
        let args = json!({ "taskId": id, "parentTaskId": "task_root", "objective": "some", "agent": "scripted",
            "input": input(&forest(&[2])) });
        rig.call("create_task", args).await;
        let args =
            json!({ "taskId": format!("task_grand{child}"), "parentTaskId": id, "objective": "little" });
        rig.call("create_task", args).await;
    }
    rig.spawned("sess_a", size(&[3, 2]) + 3 * 2).await;
    for child in 0..3 {
        rig.task_is(&format!("task_grand{child}"), "running").await;
    }
    let answer = rig.answer("cancel_task", json!({ "taskId": "task_root", "reason": "over" })).await;
    assert_eq!(answer.result["status"], "cancelled", "{}", answer.result);
    let listed = rig.call("list_tasks", json!({ "sessionId": "sess_a" })).await;
    let tasks = listed["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 7);
    assert!(tasks.iter().all(|task| task["status"] == "cancelled"), "{tasks:#?}");
    let events = rig.checked("sess_a").await;
    assert_eq!(count(&events, "task.cancelled"), 7);
    assert_eq!(count(&events, "subagent.closed"), size(&[3, 2]) + 6);
    let cursor = answer.cursor.unwrap().to_string();
    assert!(events.iter().all(|event| event["cursor"].as_str().unwrap() <= cursor.as_str()));
    let last = events.iter().rfind(|event| event["type"] == "task.cancelled").unwrap();
    assert_eq!(last["taskId"], "task_root", "the root is cancelled after everything below");
    let again = rig.answer("cancel_task", json!({ "taskId": "task_root" })).await;
    assert_eq!(again.result["status"], "cancelled");
    let refused =
        rig.refused("create_task", json!({ "parentTaskId": "task_root", "objective": "late" })).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("cancelled")));
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_cancel_of_a_task_between_two_attempts_also_closes_what_the_first_left_behind() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    let script = json!([{ "spawn": { "count": 2, "script": [{ "sleep": FOREVER }], "join": "none" } }, { "fail": { "message": "no" } }]);
    let args = json!({ "taskId": "task_a", "sessionId": "sess_a", "objective": "o", "agent": "scripted",
        "input": input(&script), "retryPolicy": { "maxAttempts": 5, "backoffMs": 500_000, "maxBackoffMs": 500_000 } });
    rig.call("create_task", args).await;
    rig.task_is("task_a", "retrying").await;
    rig.spawned("sess_a", 2).await;
    let answer = rig.answer("cancel_task", json!({ "taskId": "task_a" })).await;
    assert_eq!(answer.result["status"], "cancelled", "{}", answer.result);
    let events = rig.checked("sess_a").await;
    assert_eq!(count(&events, "subagent.closed"), 2);
    assert_eq!(count(&events, "task.cancelled"), 1);
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_child_that_was_resumed_after_its_parent_ended_is_reached_by_another_cancel() {
    let rig = Rig::start().await;
    let submitted = rig.submit("sess_a", forest(&[1, 2, 1])).await;
    rig.spawned("sess_a", size(&[1, 2, 1])).await;
    let root = rig.subagents(json!({ "sessionId": "sess_a", "depth": 1 })).await[0]["subagentId"].clone();
    rig.call("close_subagent", json!({ "subagentId": root })).await;
    rig.turn_over("sess_a", submitted["turnId"].as_str().unwrap()).await;
    let child =
        rig.subagents(json!({ "sessionId": "sess_a", "parentId": root })).await[0]["subagentId"].clone();
    let resumed = rig.call("resume_subagent", json!({ "subagentId": child })).await;
    assert_eq!(resumed["status"], "running");
    rig.spawned("sess_a", size(&[1, 2, 1]) + 1).await;
    let answer = rig.answer("close_subagent", json!({ "subagentId": root })).await;
    assert_eq!(answer.result["status"], "cancelled");
    let open = rig.subagents(json!({ "sessionId": "sess_a", "status": "running" })).await;
    assert!(open.is_empty(), "{open:#?}");
    rig.call("resume_subagent", json!({ "subagentId": child })).await;
    let turn = &submitted["turnId"];
    let answer = rig.answer("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": turn })).await;
    let cursor = answer.cursor.unwrap().to_string();
    let open = rig.subagents(json!({ "sessionId": "sess_a", "status": "running" })).await;
    assert!(open.is_empty(), "{open:#?}");
    let events = rig.checked("sess_a").await;
    assert!(events.iter().all(|event| event["cursor"].as_str().unwrap() <= cursor.as_str()));
    rig.stop().await;
}

#[tokio::test]
async fn a_cancel_that_takes_longer_than_the_caller_waits_says_cancelling_and_goes_on() {
    let rig = Rig::start().await;
    let submitted = rig.call("submit_turn", turn("sess_a", forest(&[3_000]))).await;
    rig.spawned("sess_a", 3_000).await;
    let caller = cadre::runtime::Caller::local();
    let args = json!({ "sessionId": "sess_a", "turnId": submitted["turnId"] });
    let soon = std::time::Duration::from_millis(60);
    let answer = rig.runtime.call(&caller, "interrupt_turn", args.clone(), None, soon).await;
    match answer {
        Ok(answer) => {
            assert!(["cancelling", "cancelled"].contains(&answer.result["status"].as_str().unwrap()))
        }
        Err(error) => assert_eq!(error.to_json()["error"]["code"], "deadline_exceeded"),
    }
    let ended = rig.turn_over("sess_a", submitted["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["payload"]["status"], "cancelled");
    let mut answer = rig.answer("interrupt_turn", args).await;
    assert_eq!(
        (&answer.result["status"], answer.cursor),
        (&json!("cancelled"), None),
        "nothing was left to be written"
    );
    answer.cursor = Some(ended["cursor"].as_str().unwrap().parse().unwrap());
    rig.closed("sess_a", &answer, 3_000).await;
    assert!(PATIENCE > soon);
    rig.stop().await;
}

#[tokio::test]
async fn p11_all_children_that_go_on_again_below_a_turn_that_is_over_are_reached_by_its_interrupt() {
    let rig = Rig::start().await;
    let fails = json!([{ "spawn": { "count": 3, "script": [{ "fail": { "message": "m", "retryable": false } }, { "sleep": FOREVER }] } }]);
    let turn = rig.run("sess_a", fails).await["turnId"].clone();
    let children = rig.subagents(json!({ "sessionId": "sess_a", "status": "failed" })).await;
    assert_eq!(children.len(), 3);
    let sleeps = input(&json!([{ "sleep": FOREVER }]));
    for child in &children {
        rig.call("resume_subagent", json!({ "subagentId": child["subagentId"], "input": sleeps })).await;
    }
    let answer = rig.answer("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": turn })).await;
    assert_eq!(answer.result["status"], "completed", "{}", answer.result);
    let open = rig.subagents(json!({ "sessionId": "sess_a", "status": "running" })).await;
    assert!(open.is_empty(), "{open:#?}");
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn p11_what_goes_on_again_below_a_task_that_is_being_cancelled_is_closed_too() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    let script =
        json!([{ "spawn": { "count": 1, "script": [{ "fail": { "message": "m", "retryable": false } }] } }]);
    let args = json!({ "taskId": "task_a", "sessionId": "sess_a", "objective": "o", "agent": "scripted",
        "input": input(&script), "acceptance": [{ "artifact": "blob_never" }] });
    rig.call("create_task", args).await;
    rig.task_is("task_a", "waiting_input").await;
    let part =
        json!({ "taskId": "task_part", "sessionId": "sess_a", "objective": "o", "parentTaskId": "task_a" });
    rig.call("create_task", part).await;
    // Its parts go on, so the cancel of the task alone waits for nothing and is over; the one of everything closes all.
    let child = rig.subagents(json!({ "sessionId": "sess_a" })).await[0]["subagentId"].clone();
    let sleeps = input(&json!([{ "sleep": FOREVER }]));
    rig.call("resume_subagent", json!({ "subagentId": child, "input": sleeps })).await;
    let answer = rig.answer("cancel_task", json!({ "taskId": "task_a" })).await;
    assert_eq!(answer.result["status"], "cancelled", "{}", answer.result);
    rig.subagent_is("sess_a", child.as_str().unwrap(), "cancelled").await;
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn p11_nobody_goes_on_for_a_job_item_that_is_over() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    let script =
        json!([{ "spawn": { "count": 1, "script": [{ "fail": { "message": "m", "retryable": false } }] } }]);
    let job = json!({ "jobId": "job_a", "sessionId": "sess_a", "agent": "scripted", "instruction": "o",
        "items": [{ "input": input(&script) }] });
    rig.call("create_job", job).await;
    rig.until("sess_a", |event| event["type"] == "job.completed").await;
    let child = rig.subagents(json!({ "sessionId": "sess_a" })).await[0]["subagentId"].clone();
    let sleeps = input(&json!([{ "sleep": FOREVER }]));
    let refused = rig.refused("resume_subagent", json!({ "subagentId": child, "input": sleeps })).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("failed")));
    assert!(refused["message"].as_str().unwrap().contains("job item"), "{refused}");
    rig.checked("sess_a").await;
    rig.stop().await;
}
