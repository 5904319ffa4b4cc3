//! What holds after it all, as far as anybody outside can tell.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::{Value, json};

use super::{
    check::check_feed,
    client::{Answered, Client, START},
    process::cadre,
    reader::Read,
    work::{self, SESSION},
};

/// The facts of a command that was answered: class, and the id that names them.
fn facts(answered: &Answered) -> Option<(&'static str, &'static str, Value)> {
    let (args, result) = (&answered.args, &answered.body["result"]);
    Some(match answered.name.as_str() {
        "submit_turn" => ("turn.submitted", "turnId", result["turnId"].clone()),
        "create_task" => ("task.created", "taskId", args["taskId"].clone()),
        "append_task_progress" => ("task.progress", "taskId", args["taskId"].clone()),
        // It waits for its part after it was answered.
        "complete_task" if args["taskId"] == "task_parent" => return None,
        "complete_task" => ("task.completed", "taskId", args["taskId"].clone()),
        "cancel_task" => ("task.cancelled", "taskId", args["taskId"].clone()),
        "respond_action" => ("action.resolved", "actionId", args["actionId"].clone()),
        "spawn_subagent" => ("subagent.spawned", "subagentId", args["subagentId"].clone()),
        "close_subagent" => ("subagent.closed", "subagentId", args["subagentId"].clone()),
        "create_job" => ("job.created", "jobId", args["jobId"].clone()),
        "retry_job_item" => ("job.item.started", "jobItemId", args["itemId"].clone()),
        "interrupt_turn" => ("turn.failed", "turnId", args["turnId"].clone()),
        "export_replay" => ("evidence.changed", "evidenceId", result["evidenceId"].clone()),
        _ => return None,
    })
}

/// P2: what was answered is in the feed, once, and where the answer says.
pub fn p2_answers_have_their_facts(answered: &[Answered], events: &[Value]) {
    let mut last = "";
    for event in events {
        let cursor = event["cursor"].as_str().unwrap();
        assert!(last < cursor, "P4: the cursor does not rise at {event:#}");
        last = cursor;
    }
    let mut looked_at = 0;
    for answered in answered {
        let Some((class, field, id)) = facts(answered) else { continue };
        looked_at += 1;
        let mut found: Vec<&Value> =
            events.iter().filter(|event| event["type"] == class && event[field] == id).collect();
        match answered.name.as_str() {
            // One fact for each that was reported.
            "append_task_progress" => {
                found.retain(|event| event["payload"]["percent"] == answered.args["percent"]);
            }
            // The first attempt was begun by the job.
            "retry_job_item" => found.retain(|event| event["payload"]["attempt"] == 2),
            "respond_action" => {
                found.retain(|event| event["payload"]["decision"] == answered.args["decision"]);
            }
            _ => {}
        }
        assert_eq!(found.len(), 1, "P2: {answered:#?} has these facts: {found:#?}");
        let cursor = answered.body["cursor"].as_str();
        let cursor = cursor.unwrap_or_else(|| panic!("P2: no cursor in {answered:#?}"));
        let fact = found[0]["cursor"].as_str().unwrap();
        match answered.name.as_str() {
            // Answered when all of a tree is closed: that is no earlier than what ends its root.
            "interrupt_turn" | "cancel_task" | "close_subagent" => {
                assert!(fact <= cursor && cursor <= last, "P2: {answered:#?} ends with {:#}", found[0]);
            }
            // The item begins after the answer, in a step of its own.
            "retry_job_item" => assert!(cursor <= last, "P2: {answered:#?}"),
            _ => {
                let at = events.iter().filter(|event| event["cursor"] == cursor).count();
                assert_eq!(at, 1, "P2: the cursor of {answered:#?} is no position of the feed");
                assert!(fact <= cursor, "P2: {answered:#?} comes before {:#}", found[0]);
            }
        }
    }
    assert!(looked_at > 70, "only {looked_at} commands were looked at");
}

/// P3: everything is sent again, and answered as before; nothing comes of it.
pub fn p3_the_same_key_has_the_same_answer(client: &Client, answered: &[Answered]) {
    let before = client.feed(SESSION, START, "").len();
    for answered in answered {
        let again = client.again(answered);
        assert_eq!(again["result"], answered.body["result"], "P3: {answered:#?}");
        // A tree that is closed stays closed; up to where one may read for that is said anew.
        if !matches!(answered.name.as_str(), "interrupt_turn" | "cancel_task" | "close_subagent") {
            assert_eq!(again["cursor"], answered.body["cursor"], "P3: {answered:#?}");
        }
    }
    let after = client.feed(SESSION, START, "");
    assert_eq!(after.len(), before, "P3: sent again, something happened: {:#?}", &after[before..]);
}

/// P4: what a reader saw over all of its connections is the feed.
pub fn p4_a_reader_saw_the_feed(who: &str, read: &Read, events: &[Value]) {
    let differs = read.events.iter().zip(events).position(|(seen, event)| seen != event);
    if let Some(at) = differs {
        panic!("P4: {who} saw {:#} where the feed has {:#}", read.events[at], events[at]);
    }
    assert_eq!(read.events.len(), events.len(), "P4: {who} saw too much or too little");
}

/// P4: the cursor of any answer is a position from which the rest is read.
pub fn p4_answers_are_positions(client: &Client, answered: &[Answered], events: &[Value]) {
    for answered in answered.iter().step_by(9) {
        let Some(cursor) = answered.body["cursor"].as_str() else { continue };
        let rest: Vec<&Value> =
            events.iter().skip_while(|event| event["cursor"].as_str().unwrap() <= cursor).collect();
        let served = client.feed(SESSION, cursor, "");
        assert_eq!(served.iter().collect::<Vec<_>>(), rest, "P4: after the cursor of {answered:#?}");
    }
}

/// P5: the facts that were taken out fold to what was served.
pub fn p5_an_export_folds_to_what_was_served(client: &Client, exported: &Value, folder: &Path) {
    let reference = exported["ref"].as_str().unwrap();
    let content = client.bytes(&format!("/v1/blobs/{reference}"));
    assert_eq!(exported["sizeBytes"], content.len());
    let file = folder.join(format!("{reference}.json"));
    std::fs::write(&file, content).unwrap();
    let replay = cadre("http://127.0.0.1:1").arg("replay").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&replay.stdout);
    assert_eq!(replay.status.code(), Some(0), "P5: {said}{}", String::from_utf8_lossy(&replay.stderr));
    assert!(said.lines().last().unwrap_or("").starts_with("equal: "), "P5: {said}");
}

/// All that is served of the session, but for how far it is true.
pub fn models(client: &Client) -> Value {
    let mut session = client.read("get_session", json!({ "sessionId": SESSION, "limit": 1_000 }));
    session.as_object_mut().unwrap().remove("cursor");
    let of = json!({ "sessionId": SESSION });
    json!({
        "session": session,
        "tasks": client.list("list_tasks", of.clone()),
        "subagents": client.list("list_subagents", of.clone()),
        "jobs": client.list("list_jobs", of),
        "job": client.read("get_job", json!({ "jobId": "job_crash", "limit": 1_000 })),
    })
}

/// P7: everything has ended, as it should, and the counts add up.
pub fn p7_everything_has_ended(models: &Value, events: &[Value]) {
    let session = &models["session"];
    for thread in session["threads"].as_array().unwrap() {
        assert_eq!(thread["activeTurnId"], Value::Null, "P7: {thread:#}");
        assert_eq!(thread["queuedTurns"], json!([]), "P7: {thread:#}");
        assert_eq!(thread["pendingRequests"], json!([]), "P7: {thread:#}");
    }
    let submitted = ids(events, "turn.submitted", "turnId");
    let mut turns = BTreeMap::new();
    for turn in events.iter().filter(|event| submitted.contains(event["turnId"].as_str().unwrap_or(""))) {
        if let "turn.completed" | "turn.failed" = turn["type"].as_str().unwrap() {
            let status = turn["payload"]["status"].as_str().unwrap().to_owned();
            assert_eq!(turns.insert(turn["turnId"].as_str().unwrap(), status), None, "P11: {turn:#}");
        }
    }
    assert_eq!(turns.len(), submitted.len(), "P7: {submitted:?} ended as {turns:?}");
    let removed = format!("turn_queue_{}", work::QUEUED - 2);
    let denied = format!("turn_ask_{}", work::DENIED);
    for (turn, status) in &turns {
        let interrupted = turn.starts_with("turn_int_") && *turn != "turn_int_now";
        let cancelled = interrupted || *turn == denied;
        match status.as_str() {
            "cancelled" => assert!(cancelled || *turn == removed, "P7: {turn} is {status}"),
            // Its worker died in a call that must not be repeated: nobody knows, and nobody says that it is done.
            "lost" => {
                let is_lost = |event: &&Value| {
                    event["turnId"] == *turn && event["type"] == "tool.failed" && event["status"] == "lost"
                };
                let lost: Vec<_> = events.iter().filter(is_lost).collect();
                assert!(
                    turn.starts_with("turn_queue_") && lost.len() == 1,
                    "P7: {turn} is {status}: {lost:#?}"
                );
            }
            status => assert!(status == "completed" && !cancelled, "P7: {turn} is {status}"),
        }
    }

    let subagents = models["subagents"].as_array().unwrap();
    let (mut completed, mut cancelled) = (0, 0);
    for subagent in subagents {
        match subagent["status"].as_str().unwrap() {
            "completed" => completed += 1,
            "cancelled" => cancelled += 1,
            status => panic!("P7: a subagent is {status}: {subagent:#}"),
        }
    }
    assert_eq!(work::WIDE, 1_000);
    assert_eq!(completed, work::WIDE + work::OF_TASK + work::BY_COMMAND, "P7: subagents that completed");
    assert_eq!(ids(events, "subagent.spawned", "subagentId").len(), subagents.len(), "P5");
    assert_eq!(count(events, "subagent.spawned"), subagents.len(), "P3: a subagent is spawned once");
    assert_eq!(count(events, "subagent.completed"), completed, "P5");
    let counts = &session["subagentJobSummary"]["subagents"]["byStatus"];
    let expected = if cancelled == 0 {
        json!({ "completed": completed })
    } else {
        json!({ "completed": completed, "cancelled": cancelled })
    };
    assert_eq!(*counts, expected, "P5: the counts add up");

    let mut tasks = BTreeMap::new();
    for task in models["tasks"].as_array().unwrap() {
        *tasks.entry(task["status"].as_str().unwrap()).or_insert(0) += 1;
    }
    // Four in a graph, parent and part, one from outside, two of a turn; and one that was cancelled.
    assert_eq!(tasks, [("completed", 9), ("cancelled", 1)].into(), "P7");
    assert_eq!(session["taskSummary"]["byStatus"], json!({ "completed": 9, "cancelled": 1 }), "P5");

    let job = &models["job"];
    assert_eq!(job["job"]["status"], "completed", "P7: {:#}", job["job"]);
    let counts = &job["job"]["counts"];
    for (word, number) in [("total", work::ITEMS), ("completed", work::ITEMS), ("failed", 0), ("running", 0)]
    {
        assert_eq!(counts[word], number, "P7: {counts}");
    }
    assert_eq!(job["items"].as_array().map(Vec::len), Some(work::ITEMS), "P7");
    for item in job["items"].as_array().unwrap() {
        assert_eq!(item["status"], "completed", "P7: {item:#}");
        let attempts = match item["itemId"].as_str().unwrap() {
            "item-7" => 2,
            "item-9" => 3,
            _ => 1,
        };
        assert_eq!(item["attempt"], attempts, "P3: {item:#}");
    }
}

/// P11 and P3, as the feed tells them: nothing after an end, nothing done twice, order kept.
pub fn p11_the_feed_is_sound(events: &[Value]) {
    check_feed(events);
    let mut outcomes = BTreeMap::<&str, usize>::new();
    for event in
        events.iter().filter(|event| event["type"] == "tool.result" || event["type"] == "tool.failed")
    {
        *outcomes.entry(event["toolCallId"].as_str().unwrap()).or_default() += 1;
    }
    let twice: Vec<_> = outcomes.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "P3: calls with more than one outcome: {twice:?}");
    for started in ids(events, "tool.started", "toolCallId") {
        assert!(outcomes.contains_key(started), "P7: the call {started} has no outcome");
    }
    let at = |class: &str, task: &str| {
        let found = events.iter().position(|event| event["type"] == class && event["taskId"] == task);
        found.unwrap_or_else(|| panic!("P7: no {class} of {task}"))
    };
    for (task, before) in
        [("task_b", "task_a"), ("task_c", "task_a"), ("task_d", "task_b"), ("task_d", "task_c")]
    {
        assert!(
            at("task.completed", before) < at("task.started", task),
            "{task} began before {before} ended"
        );
    }
    assert!(at("task.completed", "task_part") < at("task.completed", "task_parent"), "P7");
    // Attempts that failed are part of the history.
    let failed = |task: &str| {
        events
            .iter()
            .filter(|event| event["type"] == "task.attempt.failed" && event["taskId"] == task)
            .count()
    };
    assert_eq!(failed("task_a"), 2);
}

fn ids<'a>(events: &'a [Value], class: &str, field: &str) -> BTreeSet<&'a str> {
    let of_class = events.iter().filter(|event| event["type"] == class);
    of_class.map(|event| event[field].as_str().unwrap()).collect()
}

fn count(events: &[Value], class: &str) -> usize {
    events.iter().filter(|event| event["type"] == class).count()
}
