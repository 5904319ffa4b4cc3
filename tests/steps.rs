//! The steps of the scripted agent, one by one, as the contract describes them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Rig, count, input};
use serde_json::{Value, json};

const FOREVER: u64 = 600_000;

/// All that a turn has said.
fn said(events: &[Value], turn: &Value) -> String {
    let deltas = events.iter().filter(|event| event["type"] == "model.delta" && event["turnId"] == *turn);
    deltas.map(|event| event["payload"]["text"].as_str().unwrap()).collect()
}

fn of<'e>(events: &'e [Value], class: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["type"] == class).collect()
}

fn ms(event: &Value) -> i64 {
    chrono::DateTime::parse_from_rfc3339(event["timestamp"].as_str().unwrap()).unwrap().timestamp_millis()
}

#[tokio::test]
async fn say_streams_its_text_in_chunks_some_time_apart() {
    let rig = Rig::start().await;
    let script = json!([{ "say": "{{turn}} at {{attempt}}", "chunks": 4 }, { "say": "abc", "chunks": 3, "delayMs": 80 }]);
    let over = rig.run("sess_a", script).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    let events = rig.checked("sess_a").await;
    let turn = over["turnId"].as_str().unwrap();
    assert_eq!(said(&events, &over["turnId"]), format!("{turn} at 1abc"));
    let deltas = of(&events, "model.delta");
    assert_eq!(deltas.len(), 4 + 3);
    let times: Vec<i64> = deltas[4..].iter().map(|delta| ms(delta)).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 80), "P6: never early: {times:?}");
    assert_eq!(count(&events, "model.requested"), 1, "a pause is part of the same request");
    rig.stop().await;
}

#[tokio::test]
async fn p9_a_text_of_any_size_is_said_in_facts_that_are_small() {
    let rig = Rig::start().await;
    let text = "añ".repeat(200_000);
    let over = rig.run("sess_a", json!([{ "say": text }, { "say": "!" }])).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    let events = rig.checked("sess_a").await;
    assert!(said(&events, &over["turnId"]) == text + "!", "every character, once, in order");
    let largest = events.iter().map(|event| event.to_string().len()).max().unwrap();
    assert!(largest < 64 * 1024, "a fact of {largest} bytes");
    rig.stop().await;
}

#[tokio::test]
async fn a_failed_tool_is_a_fact_and_the_script_goes_on() {
    let rig = Rig::start().await;
    let script = json!([
        { "tool": "fail", "args": { "message": "broken" } },
        { "tool": "nowhere" },
        { "tool": "big", "args": { "bytes": -1 } },
        { "tool": "sleep", "args": { "ms": "long" } },
        { "tool": "echo", "args": { "n": 1 } },
        { "say": "after" },
    ]);
    let over = rig.run("sess_a", script).await;
    assert_eq!(over["type"], "turn.completed");
    let events = rig.checked("sess_a").await;
    let codes: Vec<&Value> =
        of(&events, "tool.failed").iter().map(|event| &event["payload"]["error"]["code"]).collect();
    assert_eq!(codes, ["tool_failed", "not_found", "invalid_argument", "invalid_argument"]);
    let result = of(&events, "tool.result")[0];
    assert_eq!(
        (&result["payload"]["name"], &result["payload"]["structured"]),
        (&json!("echo"), &json!({ "n": 1 }))
    );
    assert_eq!(of(&events, "tool.started").len(), 5, "each call says that it began");
    assert_eq!(said(&events, &over["turnId"]), "after");
    rig.stop().await;
}

#[tokio::test]
async fn steps_are_made_in_order_and_safe_tools_of_one_answer_side_by_side() {
    let rig = Rig::start().await;
    let sleep = |ms: u64| json!({ "tool": "sleep", "args": { "ms": ms } });
    rig.run("sess_a", json!([sleep(30), sleep(20), sleep(10)])).await;
    let events = rig.checked("sess_a").await;
    let classes = |events: &[Value]| -> Vec<String> {
        let calls = events
            .iter()
            .filter(|event| ["tool.started", "tool.result"].contains(&event["type"].as_str().unwrap()));
        calls.map(|event| event["type"].as_str().unwrap()[5..].to_owned()).collect()
    };
    assert_eq!(classes(&events), ["started", "result", "started", "result", "started", "result"]);
    let several: Vec<Value> = (0..16).map(|number| sleep(300 - number)).collect();
    rig.run("sess_b", json!([{ "tools": several }, { "say": "then" }])).await;
    let events = rig.checked("sess_b").await;
    let classes = classes(&events);
    assert_eq!((classes[..16].iter().all(|class| class == "started"), classes.len()), (true, 32));
    assert_eq!(events.iter().filter(|event| event["type"] == "model.requested").count(), 2, "one answer");
    rig.stop().await;
}

#[tokio::test]
async fn a_step_is_tried_again_up_to_three_times_and_each_step_counts_for_itself() {
    let rig = Rig::start().await;
    let failing = |times: u32| json!({ "fail": { "message": "no", "times": times } });
    for (session, script, ends, failures) in [
        ("sess_three", json!([failing(3), { "say": "worked" }]), "turn.completed", 3),
        ("sess_four", json!([failing(4), { "say": "worked" }]), "turn.failed", 4),
        ("sess_two_steps", json!([failing(2), failing(2), { "say": "worked" }]), "turn.completed", 4),
        (
            "sess_again",
            json!([{ "repeat": 2, "steps": [failing(1)] }, { "say": "worked" }]),
            "turn.completed",
            2,
        ),
        ("sess_final", json!([{ "fail": { "message": "no", "retryable": false } }]), "turn.failed", 1),
        ("sess_always", json!([{ "say": "a" }, { "fail": {} }]), "turn.failed", 4),
    ] {
        let over = rig.run(session, script).await;
        assert_eq!(over["type"], ends, "{session}: {over:#}");
        let events = rig.checked(session).await;
        let failed = of(&events, "model.failed");
        assert_eq!(failed.len(), failures, "{session}");
        let is_last = |at: usize| ends == "turn.failed" && at + 1 == failures;
        for (at, event) in failed.iter().enumerate() {
            assert_eq!(event["payload"]["willRetry"] == true, !is_last(at), "{session}: {event:#}");
        }
        assert_eq!(said(&events, &over["turnId"]) == "worked", ends == "turn.completed", "{session}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn p6_a_sleep_outlives_a_crash_and_is_never_short() {
    let rig = Rig::start().await;
    let submitted = rig.submit("sess_a", json!([{ "sleep": 900 }, { "say": "awake" }])).await;
    rig.until("sess_a", |event| event["type"] == "run.status").await;
    let rig = rig.crash().await;
    rig.turn_over("sess_a", submitted["turnId"].as_str().unwrap()).await;
    let events = rig.checked("sess_a").await;
    let slept = of(&events, "run.status");
    let awake = of(&events, "model.delta");
    assert_eq!((slept.len(), awake.len()), (1, 1), "asleep once, awake once");
    assert!(ms(awake[0]) - ms(slept[0]) >= 900, "P6: never early");
    rig.stop().await;
}

#[tokio::test]
async fn p7_a_tool_that_may_be_repeated_is_after_a_crash_and_one_that_may_not_is_lost() {
    let rig = Rig::start().await;
    let call =
        |once: bool| json!([{ "tool": "sleep", "args": { "ms": 700, "once": once } }, { "say": "went on" }]);
    let again = rig.submit("sess_again", call(false)).await;
    let once = rig.submit("sess_once", call(true)).await;
    let parent = json!([{ "spawn": { "count": 2, "script": call(true) } }, { "say": "saw it" }]);
    let tree = rig.submit("sess_tree", parent).await;
    for (session, calls) in [("sess_again", 1), ("sess_once", 1), ("sess_tree", 2)] {
        let seen = std::cell::Cell::new(0);
        rig.until(session, |event| {
            seen.set(
                seen.get()
                    + usize::from(event["type"] == "tool.started" && event["payload"]["name"] == "sleep"),
            );
            seen.get() == calls
        })
        .await;
    }
    let rig = rig.crash().await;
    let over = rig.turn_over("sess_again", again["turnId"].as_str().unwrap()).await;
    assert_eq!(over["type"], "turn.completed");
    assert_eq!(count(&rig.checked("sess_again").await, "tool.result"), 1, "its effect counts once");
    let over = rig.turn_over("sess_once", once["turnId"].as_str().unwrap()).await;
    assert_eq!((&over["type"], &over["payload"]["status"]), (&json!("turn.failed"), &json!("lost")));
    let events = rig.checked("sess_once").await;
    assert_eq!(of(&events, "tool.failed")[0]["payload"]["status"], "lost");
    assert_eq!(said(&events, &over["turnId"]), "", "unknown is never completed");
    let over = rig.turn_over("sess_tree", tree["turnId"].as_str().unwrap()).await;
    assert_eq!(over["type"], "turn.completed", "a lost child does not end the script of its parent");
    let events = rig.checked("sess_tree").await;
    assert_eq!(of(&events, "tool.result")[0]["payload"]["structured"]["lost"], 2);
    assert!(of(&events, "subagent.failed").iter().all(|event| event["payload"]["status"] == "lost"));
    rig.stop().await;
}

#[tokio::test]
async fn an_approval_that_nobody_gives_in_time_is_no_approval() {
    let rig = Rig::start().await;
    let script = json!([{ "approve": { "prompt": "ok?", "decisions": ["go", "stop"], "expiresMs": 150 } }, { "say": "never" }]);
    let over = rig.run("sess_a", script).await;
    assert_eq!((&over["type"], &over["payload"]["status"]), (&json!("turn.failed"), &json!("cancelled")));
    let events = rig.checked("sess_a").await;
    let (asked, resolved) = (of(&events, "action.required")[0], of(&events, "action.resolved"));
    assert_eq!(asked["payload"]["decisions"], json!(["go", "stop"]));
    assert!(asked["payload"]["expiresAt"].is_string());
    assert_eq!((resolved.len(), &resolved[0]["payload"]["status"]), (1, &json!("expired")));
    assert_eq!(said(&events, &over["turnId"]), "", "P10: unanswered is never approval");
    let late =
        rig.refused("respond_action", json!({ "actionId": asked["actionId"], "decision": "go" })).await;
    assert_eq!((&late["code"], &late["details"]["status"]), (&json!("conflict"), &json!("expired")));
    rig.stop().await;
}

#[tokio::test]
async fn a_join_waits_for_all_for_any_or_for_nobody() {
    let rig = Rig::start().await;
    // One of three ends at once: the one that is told to by a close.
    let script = json!([{ "spawn": { "count": 3, "script": [{ "sleep": FOREVER }], "join": "any" } }, { "say": "one is back" }]);
    let submitted = rig.submit("sess_any", script).await;
    rig.began("sess_any", 3).await;
    let first = rig.subagents(json!({ "sessionId": "sess_any" })).await[0]["subagentId"].clone();
    rig.call("close_subagent", json!({ "subagentId": first })).await;
    let turn = submitted["turnId"].as_str().unwrap();
    let over = rig.turn_over("sess_any", turn).await;
    assert_eq!(over["type"], "turn.completed");
    let running = rig.subagents(json!({ "sessionId": "sess_any", "status": "running" })).await;
    assert_eq!(running.len(), 0, "P11: the others do not outlive the turn");
    rig.call("interrupt_turn", json!({ "sessionId": "sess_any", "turnId": turn })).await;
    let events = rig.checked("sess_any").await;
    assert_eq!(count(&events, "tool.result"), 1, "P11: a join fires once");
    assert_eq!(count(&events, "subagent.closed"), 3);

    for join in ["all", "any", "none"] {
        let session = format!("sess_nobody_{join}");
        let over = rig
            .run(&session, json!([{ "spawn": { "count": 0, "script": [], "join": join } }, { "say": "x" }]))
            .await;
        assert_eq!(over["type"], "turn.completed", "nobody is waited for: {join}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn p9_what_is_large_is_carried_by_reference() {
    let rig = Rig::start().await;
    let large = "x".repeat(150_000);
    let script = json!([
        { "tool": "echo", "args": { "text": large } },
        { "spawn": { "count": 3, "script": [{ "say": large }, { "tool": "echo", "args": { "text": large } }] } },
        { "task": { "objective": "o", "script": [{ "say": large }] } },
        { "say": "done" },
    ]);
    let over = rig.run("sess_a", script).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    let events = rig.checked("sess_a").await;
    for event in &events {
        assert!(
            event.to_string().len() < 64 * 1024,
            "a fact of {} bytes: {}",
            event.to_string().len(),
            event["type"]
        );
    }
    let echoes: Vec<&Value> =
        of(&events, "tool.result").into_iter().filter(|event| event["payload"]["name"] == "echo").collect();
    assert_eq!(echoes.len(), 4);
    assert!(echoes.iter().all(|event| event["outputRef"].is_string()), "the whole is elsewhere");
    let started =
        of(&events, "tool.started").into_iter().find(|event| event["payload"]["name"] == "echo").unwrap();
    let blob = started["payload"]["argsRef"]["ref"].as_str().unwrap();
    let blob = cadre::fact::id::BlobRef::parse(blob).unwrap();
    let (content, _) = rig.runtime.blobs().read_all("local", &blob).await.unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&content).unwrap(),
        json!({ "text": large }),
        "what it was called with"
    );
    let result = echoes[0];
    let blob = cadre::fact::id::BlobRef::parse(result["outputRef"].as_str().unwrap()).unwrap();
    let (content, meta) = rig.runtime.blobs().read_all("local", &blob).await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&content).unwrap(), json!({ "text": large }));
    assert_eq!(Some(meta.size_bytes), result["payload"]["sizeBytes"].as_u64());
    let part = rig.runtime.blobs().read("local", &blob, 9..19).await.unwrap();
    assert_eq!(&part[..], &content[9..19], "a range of it");
    assert!(of(&events, "output.spilled").len() >= 4);
    let completed = of(&events, "subagent.completed");
    assert_eq!(completed.len(), 3, "a child whose script is large is a child like any other");
    assert_eq!(count(&events, "task.completed"), 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_script_that_is_none_or_too_large_ends_the_turn_and_nothing_of_it_runs() {
    let rig = Rig::start().await;
    let deep = (0..16).fold(json!([{ "say": "x" }]), |inner, _| json!([{ "repeat": 1, "steps": inner }]));
    let deep_children =
        (0..16).fold(json!([]), |inner, _| json!([{ "spawn": { "count": 1, "script": inner } }]));
    let first = json!({ "say": "must not be said" });
    let cases: Vec<(&str, Value, &str)> = vec![
        ("sess_text", json!("hello"), "JSON"),
        ("sess_object", json!({ "say": "x" }), "array"),
        ("sess_step", json!([first, { "dance": 1 }]), "steps[1]"),
        ("sess_type", json!([first, { "sleep": "long" }]), "steps[1]"),
        (
            "sess_child",
            json!([first, { "spawn": { "count": 1, "script": [{ "say": 1 }] } }]),
            "steps[1].spawn.script[0]",
        ),
        ("sess_deep", json!([first, { "repeat": 1, "steps": deep }]), "depth"),
        ("sess_deep_children", json!([first, { "spawn": { "count": 1, "script": deep_children } }]), "depth"),
        ("sess_long", json!([first, { "repeat": 10_000, "steps": [{ "say": "x" }] }]), "10000"),
        (
            "sess_idle",
            json!([first, { "repeat": 4_000_000_000_u64, "steps": [{ "repeat": 4_000_000_000_u64, "steps": [] }] }]),
            "10000",
        ),
        ("sess_wide", json!([first, { "spawn": { "count": 1_000_001, "script": [] } }]), "1000000"),
        (
            "sess_million",
            json!([first, { "spawn": { "count": 1_000, "script": [{ "spawn": { "count": 1_000, "script": [] } }] } }]),
            "1000000",
        ),
        (
            "sess_tasks",
            json!([first, { "repeat": 1_001, "steps": [{ "task": { "objective": "o", "script": [{ "spawn": { "count": 1_000, "script": [] } }] } }] }]),
            "1000000",
        ),
        ("sess_forever", json!([first, { "sleep": u64::MAX }]), "sleep"),
    ];
    for (session, script, word) in cases {
        let text = script.as_str().map_or_else(|| script.to_string(), str::to_owned);
        let args =
            json!({ "sessionId": session, "agent": "scripted", "input": [{ "type": "text", "text": text }] });
        let submitted = rig.call("submit_turn", args).await;
        let over = rig.turn_over(session, submitted["turnId"].as_str().unwrap()).await;
        let error = &over["payload"]["error"];
        assert_eq!(
            (&over["type"], &error["code"]),
            (&json!("turn.failed"), &json!("invalid_argument")),
            "{session}"
        );
        assert!(error["message"].as_str().unwrap().contains(word), "{session}: {error}");
        assert_eq!(error["retryable"], false);
        let events = rig.checked(session).await;
        for class in ["model.delta", "tool.started", "subagent.spawned", "task.created", "run.status"] {
            assert_eq!(count(&events, class), 0, "{session}: {class}");
        }
        assert_eq!(count(&events, "model.failed"), 1, "{session}: it is not tried again");
    }
    // The same as the input of a subagent and of a task.
    let bad = input(&json!([{ "dance": 1 }]));
    let spawned = rig.call("spawn_subagent", json!({ "sessionId": "sess_text", "input": bad })).await;
    let failed = rig.subagent_is("sess_text", spawned["subagentId"].as_str().unwrap(), "failed").await;
    assert_eq!(failed["lastError"]["code"], "invalid_argument", "{failed:#}");
    let task = json!({ "taskId": "task_bad", "sessionId": "sess_text", "objective": "o", "agent": "scripted", "input": bad });
    rig.call("create_task", task).await;
    rig.task_is("task_bad", "failed").await;
    rig.checked("sess_text").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_script_at_its_limits_runs() {
    let rig = Rig::start().await;
    let deep = (0..15).fold(json!([{ "say": "deep" }]), |inner, _| json!([{ "repeat": 1, "steps": inner }]));
    let over = rig.run("sess_deep", deep).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    let children = (0..15).fold(json!([]), |inner, _| json!([{ "spawn": { "count": 1, "script": inner } }]));
    let over = rig.run("sess_children", children).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    assert_eq!(rig.subagents(json!({ "sessionId": "sess_children" })).await.len(), 15);
    let over = rig.run("sess_long", json!([{ "repeat": 10_000, "steps": [{ "say": "." }] }])).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    assert_eq!(said(&rig.checked("sess_long").await, &over["turnId"]).len(), 10_000);
    // A script that is not carried about but fetched.
    let steps: Vec<Value> = (0..1_000).map(|number| json!({ "say": format!("{number:0200}") })).collect();
    let over = rig.run("sess_large", Value::from(steps)).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    assert_eq!(said(&rig.checked("sess_large").await, &over["turnId"]).len(), 200_000);
    rig.stop().await;
}

#[tokio::test]
async fn p9_groups_of_children_that_live_on_are_bounded_and_an_interrupt_reaches_all_of_them() {
    let rig = Rig::start().await;
    let one = json!({ "spawn": { "count": 1, "script": [{ "sleep": FOREVER }], "join": "none" } });
    let submitted = rig.submit("sess_a", json!([{ "repeat": 300, "steps": [one] }, { "say": "end" }])).await;
    let turn = submitted["turnId"].as_str().unwrap();
    let over = rig.turn_over("sess_a", turn).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    let events = rig.served("sess_a").await;
    let (made, refused) = (count(&events, "tool.result"), of(&events, "tool.failed"));
    assert_eq!(made + refused.len(), 300);
    assert!(made >= 100, "{made}");
    assert!(
        refused.iter().all(|event| event["payload"]["error"]["code"] == "rate_limited"),
        "{:#}",
        refused[0]
    );
    let hits: Vec<_> = events.iter().filter(|event| event["type"] == "rate_limit.hit").collect();
    let calls =
        |events: &[&Value]| events.iter().map(|event| event["toolCallId"].clone()).collect::<Vec<_>>();
    assert_eq!(calls(&hits), calls(&refused), "each refusal is told");
    assert!(hits.iter().all(|event| event["payload"]["limit"] == "child_groups"));
    // Further turns run beside what lives on.
    assert_eq!(rig.run("sess_a", json!([{ "say": "x" }])).await["type"], "turn.completed");
    rig.began("sess_a", made).await;
    rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": turn })).await;
    assert!(rig.subagents(json!({ "sessionId": "sess_a", "status": "running" })).await.is_empty());
    let events = rig.checked("sess_a").await;
    assert_eq!(count(&events, "subagent.closed"), made);
    // There is room again.
    assert_eq!(
        rig.run("sess_a", json!([{ "spawn": { "count": 1, "script": [] } }])).await["type"],
        "turn.completed"
    );
    assert_eq!(count(&rig.checked("sess_a").await, "subagent.completed"), 1);
    rig.stop().await;
}

#[tokio::test]
async fn routing_says_that_there_was_one_candidate_before_the_model_is_asked() {
    let rig = Rig::start().await;
    rig.run("sess_a", json!([{ "spawn": { "count": 2, "script": [{ "say": "x" }] } }])).await;
    let events = rig.checked("sess_a").await;
    let routed = of(&events, "routing.single_candidate");
    assert_eq!(routed.len(), 3, "the turn, and each child");
    for fact in routed {
        assert_eq!(
            (&fact["payload"]["candidateCount"], &fact["payload"]["selectedModel"]),
            (&json!(1), &json!("scripted"))
        );
        let asked = events
            .iter()
            .find(|event| event["type"] == "model.requested" && event["turnId"] == fact["turnId"]);
        assert!(fact["cursor"].as_str() < asked.unwrap()["cursor"].as_str());
    }
    rig.stop().await;
}

#[tokio::test]
async fn p7_a_task_whose_id_is_taken_is_a_child_that_failed_and_nobody_waits_for_ever() {
    let rig = Rig::start().await;
    let task =
        |text: &str| json!({ "task": { "taskId": "task_x", "objective": "o", "script": [{ "say": text }] } });
    let over = rig.run("sess_a", json!([task("first"), task("second"), { "say": "end" }])).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    let over = rig.run("sess_b", json!([task("third"), { "say": "end" }])).await;
    assert_eq!(over["type"], "turn.completed", "an id is taken for the whole tenant: {over:#}");
    let events = rig.checked("sess_a").await;
    let joins = of(&events, "tool.result");
    assert_eq!(
        (&joins[0]["payload"]["structured"]["completed"], &joins[1]["payload"]["structured"]["failed"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(count(&events, "task.completed"), 1);
    assert!(!events.iter().any(|event| event["payload"]["text"] == "second"));
    rig.checked("sess_b").await;
    rig.stop().await;
}
