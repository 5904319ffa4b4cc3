//! P9 from the inside: whatever an agent asks for and however much goes on at once, an entity stays small enough to be
//! stored, says what it refuses, and goes on.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Rig, count, input};
use serde_json::{Value, json};

/// A script of about that many bytes that says one word.
fn padded(bytes: usize) -> Value {
    json!([{ "say": "x", "note": "n".repeat(bytes) }])
}

fn error_of(event: &Value) -> &str {
    event["payload"]["error"]["code"].as_str().unwrap_or("none")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_children_that_are_left_behind_are_bounded_and_the_turn_says_so() {
    let rig = Rig::start().await;
    let leave = json!({ "spawn": { "count": 1, "script": [{ "sleep": 600_000 }], "join": "none" } });
    let script = json!([{ "repeat": 400, "steps": [leave] }, { "say": "done" }]);
    let turn = rig.submit("sess_left", script).await["turnId"].as_str().unwrap().to_owned();
    let over = rig.turn_over("sess_left", &turn).await;
    assert_eq!(over["type"], "turn.completed");

    let events = rig.checked("sess_left").await;
    let refused: Vec<_> = events.iter().filter(|event| event["type"] == "tool.failed").collect();
    assert!(refused.iter().all(|event| error_of(event) == "rate_limited"), "{refused:?}");
    let spawned = count(&events, "subagent.spawned");
    assert_eq!(spawned + refused.len(), 400, "every call came to something");
    assert!(spawned > 50 && !refused.is_empty(), "{spawned} were started");

    let interrupted = rig.call("interrupt_turn", json!({ "sessionId": "sess_left", "turnId": turn })).await;
    assert_eq!(interrupted["turnId"], turn.as_str());
    let events = rig.checked("sess_left").await;
    assert_eq!(count(&events, "subagent.closed"), spawned, "and none is left (P11)");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_what_is_too_large_for_a_state_goes_by_reference_or_is_refused() {
    let rig = Rig::start().await;
    let script = json!([{ "tool": "echo", "args": { "text": "x".repeat(200_000) } }, { "say": "after" }]);
    let turn = rig.submit("sess_large", script).await["turnId"].as_str().unwrap().to_owned();
    assert_eq!(rig.turn_over("sess_large", &turn).await["type"], "turn.completed");
    let events = rig.checked("sess_large").await;
    let result = events.iter().find(|event| event["type"] == "tool.result").unwrap();
    assert!(result["outputRef"].is_string() && result.to_string().len() < 8 * 1024, "{result}");

    let prompt = json!([{ "approve": { "prompt": "p".repeat(100_000), "decisions": ["allow", "deny"] } }]);
    let turn = rig.submit("sess_large", prompt).await["turnId"].as_str().unwrap().to_owned();
    assert_eq!(error_of(&rig.turn_over("sess_large", &turn).await), "invalid_argument");

    let fine = rig.submit("sess_large", json!([{ "say": "still here" }])).await;
    let over = rig.turn_over("sess_large", fine["turnId"].as_str().unwrap()).await;
    assert_eq!(over["type"], "turn.completed");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_a_long_text_is_said_in_deltas_that_fit_into_facts() {
    let rig = Rig::start().await;
    let text = "0123456789abcdef".repeat(20_000);
    let turn = rig.submit("sess_long", json!([{ "say": text }])).await["turnId"].as_str().unwrap().to_owned();
    rig.turn_over("sess_long", &turn).await;
    let events = rig.checked("sess_long").await;
    let deltas = events.iter().filter(|event| event["type"] == "model.delta");
    let said: Vec<&str> = deltas.map(|event| event["payload"]["text"].as_str().unwrap()).collect();
    assert!(said.iter().all(|delta| delta.len() <= 8 * 1024), "no delta is longer than that");
    assert!(said.concat() == text, "nothing is lost or out of order");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_a_large_script_reaches_children_and_tasks_by_reference() {
    let rig = Rig::start().await;
    let script = json!([
        { "spawn": { "count": 3, "script": padded(120_000), "join": "all" } },
        { "task": { "objective": "large", "script": padded(50_000) } },
    ]);
    let turn = rig.submit("sess_ref", script).await["turnId"].as_str().unwrap().to_owned();
    let over = rig.turn_over("sess_ref", &turn).await;
    assert_eq!(over["type"], "turn.completed");
    let events = rig.checked("sess_ref").await;
    assert_eq!(count(&events, "subagent.completed"), 3);
    assert_eq!(count(&events, "task.completed"), 1);
    assert_eq!(count(&events, "model.delta"), 4);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p7_more_tasks_may_wait_for_one_than_it_can_remember() {
    const WAITING: usize = 400;
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_fan" })).await;
    let first = json!({ "taskId": "task_first", "sessionId": "sess_fan", "objective": "first", "agent": "scripted",
        "input": input(&json!([{ "say": "first" }])), "autoStart": false });
    rig.call("create_task", first).await;
    for number in 0..WAITING {
        let next = json!({ "taskId": format!("task_next-{number}"), "sessionId": "sess_fan", "objective": "next",
            "agent": "scripted", "input": input(&json!([{ "say": "next" }])), "dependsOn": ["task_first"] });
        rig.call("create_task", next).await;
    }
    rig.call("start_task", json!({ "taskId": "task_first" })).await;
    rig.task_is("task_first", "completed").await;
    rig.eventually("all that waited have completed", async || {
        let page = rig
            .call("list_tasks", json!({ "sessionId": "sess_fan", "status": "completed", "limit": 1 }))
            .await;
        assert!(page["tasks"].is_array());
        let snapshot = rig.call("get_session", json!({ "sessionId": "sess_fan" })).await;
        let text = snapshot.to_string();
        (text.contains(&format!("\"completed\":{}", WAITING + 1))).then_some(())
    })
    .await;
    let events = rig.checked("sess_fan").await;
    assert_eq!(count(&events, "task.completed"), WAITING + 1, "each of them once");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_a_session_of_many_turns_that_leave_children_behind_goes_on() {
    let rig = Rig::start().await;
    let leave = |name: usize| {
        let left = json!([{ "sleep": 600_000 }]);
        json!([{ "spawn": { "count": 1, "script": left, "join": "none" } }, { "say": format!("{name}") }])
    };
    let mut taken = Vec::new();
    for number in 0..300 {
        let turn = common::turn("sess_full", leave(number));
        match rig.try_call("submit_turn", turn).await {
            Ok(answer) => taken.push(answer.result["turnId"].as_str().unwrap().to_owned()),
            Err(error) => assert_eq!(error.to_json()["error"]["code"], "rate_limited"),
        }
    }
    assert!(taken.len() > 50, "only {} turns", taken.len());
    let refused = rig.served("sess_full").await;
    let refused: Vec<_> = refused.iter().filter(|event| event["type"] == "tool.failed").collect();
    assert!(refused.iter().all(|event| error_of(event) == "rate_limited"), "{refused:?}");
    assert!(taken.len() < 300 || !refused.is_empty(), "something has to be bounded");

    // Whatever stands in the way is closed; then everything that was taken ends, and there is room again.
    for turn in &taken {
        rig.call("interrupt_turn", json!({ "sessionId": "sess_full", "turnId": turn })).await;
    }
    let again =
        rig.submit("sess_full", json!([{ "say": "room" }])).await["turnId"].as_str().unwrap().to_owned();
    assert_eq!(rig.turn_over("sess_full", &again).await["type"], "turn.completed");
    let events = rig.checked("sess_full").await;
    let over = count(&events, "turn.completed") + count(&events, "turn.failed");
    let begun = count(&events, "turn.submitted") + count(&events, "subagent.spawned");
    assert_eq!(over, begun, "every turn of the session and of its subagents is over (P7)");
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p9_turns_that_wait_with_deadlines_are_refused_at_the_limit_and_not_before() {
    let rig = Rig::start().await;
    rig.submit("sess_queue", json!([{ "sleep": 600_000 }])).await;
    let waits = || {
        let mut turn = common::turn("sess_queue", json!([{ "say": "x" }]));
        turn["options"] = json!({ "deadlineMs": 600_000 });
        turn
    };
    let mut queued = 0;
    let refused = loop {
        match rig.try_call("submit_turn", waits()).await {
            Ok(_) => queued += 1,
            Err(error) => break error.to_json()["error"].clone(),
        }
        assert!(queued < 1_000, "it never refuses");
    };
    assert_eq!(refused["code"], "rate_limited", "{refused}");
    assert!(queued >= 100, "only {queued} turns may wait");
    let cleared = json!({ "sessionId": "sess_queue", "clearQueue": true });
    let cleared = rig.call("interrupt_turn", cleared).await;
    assert_eq!(cleared["removed"].as_array().map(Vec::len), Some(queued));
    rig.stop().await;
}

#[tokio::test]
async fn p9_a_page_of_large_entries_ends_after_a_mebibyte_and_says_where_to_go_on() {
    let rig = Rig::start().await;
    let metadata = json!({ "text": "x".repeat(3_500) });
    for number in 0..400 {
        let args = json!({ "sessionId": format!("sess_{number:03}"), "metadata": metadata });
        rig.call("create_session", args).await;
    }
    let mut args = json!({ "limit": 1_000 });
    let mut pages = Vec::new();
    loop {
        let page = rig.call("list_sessions", args.clone()).await;
        assert!(page.to_string().len() < 1_100_000, "{}", page.to_string().len());
        pages.push(page["sessions"].as_array().unwrap().len());
        if page["hasMore"] != true {
            break;
        }
        args["after"] = page["cursor"].clone();
    }
    assert!(pages.len() == 2 && pages.iter().sum::<usize>() == 400, "{pages:?}");
    rig.stop().await;
}

#[tokio::test]
async fn p9_a_window_of_history_has_a_size_and_misses_no_turn() {
    let rig = Rig::start().await;
    let big: Vec<_> = (0..6).map(|_| json!({ "say": "y".repeat(7_000) })).collect();
    let (mut last, turns) = (json!(null), 60);
    for _ in 0..turns {
        last = rig.submit("sess_a", json!(big)).await["turnId"].clone();
    }
    rig.turn_over("sess_a", last.as_str().unwrap()).await;
    let mut seen = std::collections::BTreeSet::new();
    let mut args = json!({ "sessionId": "sess_a", "limit": 1_000 });
    loop {
        let page = rig.call("get_session", args.clone()).await;
        assert!(page.to_string().len() < 2_000_000, "{}", page.to_string().len());
        for turn in page["threads"][0]["turns"].as_array().unwrap() {
            seen.insert(turn["turnId"].as_str().unwrap().to_owned());
        }
        if page["history"]["hasMore"] != true {
            break;
        }
        args["before"] = page["history"]["before"].clone();
    }
    assert_eq!(seen.len(), turns);
    rig.stop().await;
}

#[tokio::test]
async fn p7_an_input_of_any_size_that_is_allowed_reaches_whoever_it_is_for() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_sizes" })).await;
    let mut tasks = 0;
    for bytes in [15_000, 17_000, 60_000, 95_000, 110_000, 140_000] {
        let first = format!("task_first-{bytes}");
        let task = |id: &str, more: Value| {
            let mut args = json!({ "taskId": id, "sessionId": "sess_sizes", "objective": "o", "agent": "scripted",
                "input": input(&padded(bytes)) });
            args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            args
        };
        rig.call("create_task", task(&first, json!({ "autoStart": false }))).await;
        let next = format!("task_next-{bytes}");
        rig.call("create_task", task(&next, json!({ "dependsOn": [&first] }))).await;
        let part = format!("task_part-{bytes}");
        rig.call("create_task", task(&part, json!({ "parentTaskId": &first }))).await;
        tasks += 3;
        rig.call("start_task", json!({ "taskId": &first })).await;
        for id in [&first, &next, &part] {
            rig.task_is(id, "completed").await;
        }
        let subagent = format!("sub_{bytes}");
        let mut fails = padded(bytes);
        fails.as_array_mut().unwrap().push(json!({ "fail": { "message": "m", "retryable": false } }));
        let spawn = json!({ "sessionId": "sess_sizes", "subagentId": &subagent, "agent": "scripted",
            "input": input(&fails) });
        rig.call("spawn_subagent", spawn).await;
        rig.subagent_is("sess_sizes", &subagent, "failed").await;
        rig.call("resume_subagent", json!({ "subagentId": &subagent, "input": input(&padded(bytes)) })).await;
        rig.subagent_is("sess_sizes", &subagent, "completed").await;
    }
    let events = rig.checked("sess_sizes").await;
    assert_eq!(count(&events, "task.completed"), tasks);
    rig.stop().await;
}

#[tokio::test]
async fn p9_a_task_that_is_told_as_much_as_can_be_fits_or_is_refused() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_told" })).await;
    for number in 0..256 {
        let waited = json!({ "taskId": format!("task_{number:x<120}"), "sessionId": "sess_told", "objective": "o",
            "autoStart": false });
        rig.call("create_task", waited).await;
    }
    let ids = |count: usize| (0..count).map(|number| format!("task_{number:x<120}")).collect::<Vec<_>>();
    // The last one is more than a task may be told at all.
    for (name, waits, words, is_taken) in [
        ("few", 20, 15_000, true),
        ("many", 250, 500, true),
        ("most", 256, 3_000, true),
        ("all", 256, 6_000, false),
    ] {
        let id = format!("task_told-{name}");
        let args = json!({ "taskId": &id, "sessionId": "sess_told", "objective": "o".repeat(words), "agent": "scripted",
            "input": input(&padded(15_000)), "dependsOn": ids(waits), "constraints": { "words": "c".repeat(words) } });
        let answer = rig.try_call("create_task", args).await;
        assert_eq!(answer.is_ok(), is_taken, "{name}: {answer:?}");
        if let Err(error) = answer {
            assert_eq!(error.code.as_str(), "payload_too_large", "{name}: {error:?}");
            continue;
        }
        let started = rig.refused("start_task", json!({ "taskId": &id })).await;
        assert_eq!(started["details"]["status"], "blocked");
        rig.call("cancel_task", json!({ "taskId": &id })).await;
    }
    rig.checked("sess_told").await;
    rig.stop().await;
}

#[tokio::test]
async fn p9_a_model_that_fails_at_very_many_places_leaves_room_for_its_session() {
    let rig = Rig::start().await;
    let mut script =
        json!([{ "repeat": 200, "steps": [{ "fail": { "message": "m", "times": 1, "retryable": true } }] }]);
    for _ in 0..12 {
        script = json!([{ "repeat": 1, "steps": script }]);
    }
    let mut turns = Vec::new();
    for number in 0..12 {
        let mut turn = common::turn("sess_fails", script.clone());
        turn["threadId"] = format!("thrd_{number}").into();
        turns.push(rig.call("submit_turn", turn).await["turnId"].as_str().unwrap().to_owned());
    }
    for turn in turns {
        assert_eq!(rig.turn_over("sess_fails", &turn).await["type"], "turn.completed");
    }
    rig.stop().await;
}
