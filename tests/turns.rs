//! Turns: submitted, queued, approved, interrupted, and what is said of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Rig, count, input, turn};
use serde_json::{Value, json};

#[tokio::test]
async fn submit_shows_accepted_before_any_model_output() {
    let rig = Rig::start().await;
    let answer = rig.submit("sess_a", json!([{ "say": "hello", "chunks": 2 }])).await;
    assert_eq!(answer["status"], "accepted");
    let ended = rig.turn_over("sess_a", answer["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["type"], "turn.completed");
    assert_eq!(
        rig.types("sess_a").await,
        [
            "session.created",
            "thread.started",
            "turn.submitted",
            "turn.started",
            "tool.catalog.resolved",
            "routing.single_candidate",
            "model.requested",
            "model.delta",
            "model.delta",
            "model.completed",
            "turn.completed"
        ]
    );
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_a" })).await;
    println!("{snapshot:#}");
    assert_eq!(snapshot["threads"][0]["status"], "completed");
    rig.stop().await;
}

#[tokio::test]
async fn a_tool_runs_and_its_large_result_is_kept_by_reference() {
    let rig = Rig::start().await;
    let script = json!([{ "tool": "echo", "args": { "a": 1 } }, { "tool": "big", "args": { "bytes": 100_000 } },
        { "tool": "fail", "args": { "message": "no" } }, { "tool": "unknown" }]);
    let answer = rig.submit("sess_b", script).await;
    rig.turn_over("sess_b", answer["turnId"].as_str().unwrap()).await;
    let events = rig.served("sess_b").await;
    let results: Vec<&Value> = events.iter().filter(|event| event["type"] == "tool.result").collect();
    assert_eq!(results[0]["payload"]["structured"], json!({ "a": 1 }));
    assert!(results[1]["outputRef"].as_str().unwrap().starts_with("blob_"), "{:#}", results[1]);
    assert_eq!(events.iter().filter(|event| event["type"] == "tool.failed").count(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn an_approval_pauses_the_turn_and_only_an_answer_resolves_it() {
    let rig = Rig::start().await;
    let script =
        json!([{ "approve": { "prompt": "ok?", "decisions": ["allow", "deny"] } }, { "say": "went on" }]);
    let answer = rig.submit("sess_c", script.clone()).await;
    let asked = rig.until("sess_c", |event| event["type"] == "action.required").await;
    let action = asked["actionId"].as_str().unwrap();
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_c" })).await;
    assert_eq!(snapshot["threads"][0]["status"], "blocked", "{snapshot:#}");
    let wrong = rig.refused("respond_action", json!({ "actionId": action, "decision": "perhaps" })).await;
    assert_eq!(
        (&wrong["code"], &wrong["details"]["field"]),
        (&json!("invalid_argument"), &json!("decision"))
    );
    rig.call("respond_action", json!({ "actionId": action, "decision": "allow" })).await;
    let ended = rig.turn_over("sess_c", answer["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["type"], "turn.completed");
    let again = rig.refused("respond_action", json!({ "actionId": action, "decision": "allow" })).await;
    assert_eq!(again["code"], "conflict");

    let denied = rig.call("submit_turn", turn("sess_c", script)).await;
    let asked = rig
        .until("sess_c", |event| event["type"] == "action.required" && event["turnId"] == denied["turnId"])
        .await;
    rig.call("respond_action", json!({ "actionId": asked["actionId"], "decision": "deny" })).await;
    let ended = rig.turn_over("sess_c", denied["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["payload"]["status"], "cancelled");
    rig.stop().await;
}

#[tokio::test]
async fn subagents_are_spawned_and_joined_in_one_result() {
    let rig = Rig::start().await;
    let script = json!([{ "spawn": { "count": 20, "script": [{ "say": "child" }], "join": "all" } }, { "say": "done" }]);
    let answer = rig.submit("sess_d", script).await;
    let ended = rig.turn_over("sess_d", answer["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["type"], "turn.completed");
    let listed = rig.call("list_subagents", json!({ "sessionId": "sess_d" })).await;
    assert_eq!(listed["subagents"].as_array().unwrap().len(), 20);
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_d" })).await;
    println!("{:#}", snapshot["subagentJobSummary"]);
    rig.stop().await;
}

/// A turn with options.
fn bounded(session: &str, budget: Value, script: Value) -> Value {
    let mut args = turn(session, script);
    args["options"] = json!({ "budget": budget });
    args
}

fn of<'e>(events: &'e [Value], class: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["type"] == class).collect()
}

#[tokio::test]
async fn p9_a_turn_that_has_used_up_its_budget_asks_no_more_and_says_which_bound_it_was() {
    let rig = Rig::start().await;
    let (echo, never) = (json!({ "tool": "echo" }), json!({ "say": "never" }));
    let used = |usage: Value| json!([{ "usage": usage }, echo, never]);
    for (session, budget, script, limit, max) in [
        ("sess_steps", json!({ "steps": 2 }), json!([echo, echo, never]), "steps", 2.0),
        (
            "sess_tokens",
            json!({ "tokens": 100, "steps": 50 }),
            used(json!({ "inputTokens": 60, "outputTokens": 40 })),
            "tokens",
            100.0,
        ),
        ("sess_cost", json!({ "costUsd": 0.25 }), used(json!({ "costUsd": 0.5 })), "cost", 0.25),
    ] {
        let answer = rig.call("submit_turn", bounded(session, budget, script)).await;
        let ended = rig.turn_over(session, answer["turnId"].as_str().unwrap()).await;
        assert_eq!(
            (&ended["payload"]["status"], &ended["payload"]["error"]["code"]),
            (&json!("failed"), &json!("budget_exceeded")),
            "{ended:#}"
        );
        let events = rig.checked(session).await;
        let changed = of(&events, "limit.changed");
        let payload = &changed[0]["payload"];
        assert_eq!(
            (changed.len(), &payload["limit"], &payload["state"]),
            (1, &json!(limit), &json!("blocked"))
        );
        assert_eq!(payload["max"], max);
        assert!(payload["used"].as_f64().unwrap() >= max);
        assert_eq!((&changed[0]["turnId"], count(&events, "model.delta")), (&answer["turnId"], 0));
        let snapshot = rig.call("get_session", json!({ "sessionId": session })).await;
        assert_eq!(snapshot["threads"][0]["status"], "failed", "{snapshot:#}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_budget_that_is_just_enough_is_enough_and_an_answer_that_has_begun_may_end() {
    let rig = Rig::start().await;
    let script = json!([{ "tool": "echo" }, { "say": "abc", "chunks": 3, "delayMs": 20 }]);
    let answer = rig.call("submit_turn", bounded("sess_a", json!({ "steps": 2 }), script)).await;
    let ended = rig.turn_over("sess_a", answer["turnId"].as_str().unwrap()).await;
    assert_eq!((&ended["type"], &ended["payload"]["steps"]), (&json!("turn.completed"), &json!(2)));
    let script = json!([{ "usage": { "costUsd": 3.5 } }, { "say": "dear" }]);
    let answer = rig.call("submit_turn", bounded("sess_a", json!({ "costUsd": 1 }), script)).await;
    let ended = rig.turn_over("sess_a", answer["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["type"], "turn.completed", "it was its last answer: {ended:#}");
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn p9_an_answer_whose_money_runs_out_between_two_parts_ends_there() {
    let rig = Rig::start().await;
    let script = json!([{ "usage": { "costUsd": 0.5 } }, { "say": "abc", "chunks": 3, "delayMs": 10 }]);
    let answer = rig.call("submit_turn", bounded("sess_a", json!({ "costUsd": 0.5 }), script)).await;
    let ended = rig.turn_over("sess_a", answer["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["payload"]["error"]["code"], "budget_exceeded");
    let events = rig.checked("sess_a").await;
    let told = ["model.delta", "model.completed", "model.failed", "cost.recorded", "limit.changed"];
    assert_eq!(told.map(|class| count(&events, class)), [1, 0, 1, 1, 1]);
    rig.stop().await;
}

#[tokio::test]
async fn p2_a_budget_outlives_a_crash() {
    let rig = Rig::start().await;
    let script = json!([{ "usage": { "inputTokens": 5 } }, { "tool": "echo" }, { "usage": { "inputTokens": 5 } },
        { "sleep": 300 }, { "say": "never" }]);
    let answer = rig.call("submit_turn", bounded("sess_a", json!({ "tokens": 10 }), script)).await;
    rig.until("sess_a", |event| event["type"] == "run.status").await;
    let rig = rig.crash().await;
    let ended = rig.turn_over("sess_a", answer["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["payload"]["error"]["message"], "the budget of 10 tokens is used up");
    assert_eq!(count(&rig.checked("sess_a").await, "model.requested"), 2);
    rig.stop().await;
}

#[tokio::test]
async fn what_an_answer_costs_is_recorded_and_what_is_free_is_not() {
    let rig = Rig::start().await;
    let dear = |usd: f64| json!({ "usage": { "inputTokens": 10, "outputTokens": 1, "costUsd": usd } });
    // The second answer comes in three parts, and is told of once.
    let part = json!({ "say": "ab", "chunks": 2, "delayMs": 10 });
    let script =
        json!([dear(0.5), { "tool": "echo" }, dear(0.125), part, dear(0.125), { "tool": "echo" }, part]);
    let ended = rig.run("sess_a", script).await;
    let events = rig.checked("sess_a").await;
    let recorded = of(&events, "cost.recorded");
    let costs: Vec<_> = recorded.iter().map(|event| &event["payload"]["costUsd"]).collect();
    assert_eq!(costs, [0.5, 0.25]);
    let last = recorded[1];
    assert_eq!(
        (&last["payload"]["turnCostUsd"], &last["payload"]["usage"]["inputTokens"]),
        (&json!(0.75), &json!(20))
    );
    assert_eq!(last["payload"]["provider"], "scripted");
    let completed = of(&events, "model.completed");
    assert_eq!((completed.len(), &completed[1]["payload"]["usage"]["costUsd"]), (3, &json!(0.25)));
    assert_eq!(ended["payload"]["usage"]["costUsd"], 0.75);
    // What failed has cost as well.
    let script =
        json!([dear(2.0), { "say": "x", "chunks": 2, "delayMs": 10 }, { "fail": { "retryable": false } }]);
    rig.run("sess_b", script).await;
    let events = rig.checked("sess_b").await;
    assert_eq!(of(&events, "cost.recorded")[0]["payload"]["costUsd"], 2.0);
    rig.run("sess_c", json!([{ "say": "free" }, { "usage": { "inputTokens": 5 } }])).await;
    assert_eq!(count(&rig.checked("sess_c").await, "cost.recorded"), 0);
    rig.stop().await;
}

#[tokio::test]
async fn p9_what_a_run_starts_is_bound_by_the_budget_of_its_parent() {
    let rig = Rig::start().await;
    let long = json!([{ "tool": "echo" }, { "tool": "echo" }, { "tool": "echo" }]);
    let script = json!([{ "spawn": { "count": 2, "script": long } },
        { "task": { "taskId": "task_a", "objective": "o", "script": long,
            "constraints": { "budget": { "steps": 1_000 } } } }]);
    let answer = rig.call("submit_turn", bounded("sess_a", json!({ "steps": 3 }), script)).await;
    let ended = rig.turn_over("sess_a", answer["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["type"], "turn.completed", "it has used three steps itself: {ended:#}");
    let events = rig.checked("sess_a").await;
    let failed = of(&events, "subagent.failed");
    assert_eq!(failed.len(), 2);
    assert!(failed.iter().all(|event| event["payload"]["error"]["code"] == "budget_exceeded"), "{failed:#?}");
    assert_eq!(of(&events, "task.failed")[0]["payload"]["error"]["code"], "budget_exceeded");

    // By command, and again with every attempt.
    let args = json!({ "sessionId": "sess_a", "subagentId": "sub_a", "input": input(&long), "budget": { "steps": 2 } });
    rig.call("spawn_subagent", args).await;
    rig.subagent_is("sess_a", "sub_a", "failed").await;
    rig.call("resume_subagent", json!({ "subagentId": "sub_a" })).await;
    rig.eventually("it failed twice", async || {
        let events = rig.served("sess_a").await;
        let failed =
            of(&events, "subagent.failed").iter().filter(|event| event["subagentId"] == "sub_a").count();
        (failed == 2).then_some(())
    })
    .await;
    let thread = answer["threadId"].clone();
    let script = json!([{ "tool": "echo" }, { "say": "never" }]);
    let answer = rig.call("submit_turn", bounded("sess_a", json!({ "steps": 1 }), script)).await;
    rig.turn_over("sess_a", answer["turnId"].as_str().unwrap()).await;
    let resumed = rig.call("resume_thread", json!({ "sessionId": "sess_a", "threadId": thread })).await;
    let ended = rig.turn_over("sess_a", resumed["turnId"].as_str().unwrap()).await;
    assert_eq!(ended["payload"]["error"]["code"], "budget_exceeded");
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn p9_attempts_of_tasks_and_items_of_jobs_keep_to_their_budgets() {
    let rig = Rig::start().await;
    let long = json!([{ "usage": { "costUsd": 0.75 } }, { "tool": "echo" }, { "say": "never" }]);
    rig.call("create_session", json!({ "sessionId": "sess_a", "agent": "scripted" })).await;
    let args = json!({ "sessionId": "sess_a", "taskId": "task_a", "objective": "o", "input": input(&long),
        "constraints": { "budget": { "costUsd": 0.5 }, "else": 1 }, "retryPolicy": { "maxAttempts": 3, "backoffMs": 1 } });
    rig.call("create_task", args).await;
    rig.task_is("task_a", "failed").await;
    let events = rig.checked("sess_a").await;
    let failed = of(&events, "task.attempt.failed");
    assert_eq!(failed.len(), 1, "another attempt would use it up as well");
    assert_eq!(failed[0]["payload"]["error"]["code"], "budget_exceeded");

    // What is below a task is bound by it.
    let args = json!({ "sessionId": "sess_a", "taskId": "task_b", "objective": "o", "autoStart": false,
        "constraints": { "budget": { "costUsd": 0.5 } } });
    rig.call("create_task", args).await;
    let args =
        json!({ "parentTaskId": "task_b", "taskId": "task_c", "objective": "o", "input": input(&long) });
    rig.call("create_task", args).await;
    rig.task_is("task_c", "failed").await;
    for (job, task, budget) in
        [("job_own", Value::Null, json!({ "costUsd": 0.5 })), ("job_of_task", json!("task_b"), Value::Null)]
    {
        let items = json!([{ "itemId": "one", "input": input(&long) }]);
        let args = json!({ "sessionId": "sess_a", "jobId": job, "taskId": task, "instruction": "i", "items": items, "budget": budget });
        rig.call("create_job", args).await;
        let failed =
            rig.until("sess_a", |event| event["type"] == "job.item.failed" && event["jobId"] == job).await;
        assert_eq!(failed["payload"]["error"]["code"], "budget_exceeded", "{failed:#}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn p9_a_budget_of_nothing_less_or_far_too_much_is_refused_by_name() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a", "agent": "scripted" })).await;
    rig.call(
        "create_task",
        json!({ "sessionId": "sess_a", "taskId": "task_a", "objective": "o", "autoStart": false }),
    )
    .await;
    let text = input(&json!([]));
    for (bad, field) in [
        (json!({}), ""),
        (json!(5), ""),
        (json!({ "usd": 5 }), ""),
        (json!({ "steps": 0 }), ".steps"),
        (json!({ "steps": -1 }), ".steps"),
        (json!({ "steps": 1.5 }), ".steps"),
        (json!({ "steps": 1_000_001 }), ".steps"),
        (json!({ "tokens": 0 }), ".tokens"),
        (json!({ "tokens": "many" }), ".tokens"),
        (json!({ "tokens": u64::MAX }), ".tokens"),
        (json!({ "costUsd": 0 }), ".costUsd"),
        (json!({ "costUsd": -0.5 }), ".costUsd"),
        (json!({ "costUsd": 1e300 }), ".costUsd"),
        (json!({ "costUsd": "0.5" }), ".costUsd"),
    ] {
        for (command, args, place) in [
            (
                "submit_turn",
                json!({ "sessionId": "sess_a", "input": text, "options": { "budget": bad } }),
                "options.budget",
            ),
            ("spawn_subagent", json!({ "sessionId": "sess_a", "input": text, "budget": bad }), "budget"),
            (
                "create_job",
                json!({ "sessionId": "sess_a", "instruction": "i", "items": [{ "input": text }], "budget": bad }),
                "budget",
            ),
            (
                "create_task",
                json!({ "sessionId": "sess_a", "objective": "o", "constraints": { "budget": bad } }),
                "constraints.budget",
            ),
            (
                "update_task",
                json!({ "taskId": "task_a", "constraints": { "budget": bad } }),
                "constraints.budget",
            ),
        ] {
            let refused = rig.refused(command, args).await;
            assert_eq!(
                (&refused["code"], &refused["details"]["field"]),
                (&json!("invalid_argument"), &json!(format!("{place}{field}"))),
                "{command} {bad}: {refused}"
            );
        }
    }
    assert_eq!(count(&rig.checked("sess_a").await, "turn.submitted"), 0, "nothing of it was done");
    rig.stop().await;
}

#[tokio::test]
async fn a_turn_says_what_is_in_its_context_when_there_is_something() {
    let rig = Rig::start().await;
    let big = json!([{ "tool": "big", "args": { "bytes": 100_000 } }, { "spawn": { "count": 2, "script": [{ "say": "x" }] } }]);
    let first = rig.submit("sess_a", big).await;
    // Waits, and begins in the step in which the first one ends.
    let second = rig.submit("sess_a", json!([{ "say": "two" }])).await;
    rig.turn_over("sess_a", second["turnId"].as_str().unwrap()).await;
    let events = rig.checked("sess_a").await;
    let resolved = of(&events, "context.resolved");
    assert_eq!(resolved.len(), 1, "neither the first turn nor subagents have one: {resolved:#?}");
    assert_eq!(resolved[0]["turnId"], second["turnId"]);
    let thread = first["threadId"].as_str().unwrap();
    let history = json!([{ "ref": format!("thread://{thread}/turns/1-1"), "kind": "history" }]);
    assert_eq!(resolved[0]["payload"]["selected"], history);
    let at = |class: &str| {
        events.iter().position(|event| event["type"] == class && event["turnId"] == second["turnId"]).unwrap()
    };
    assert!(at("turn.started") < at("context.resolved") && at("context.resolved") < at("model.requested"));

    let blob =
        of(&events, "tool.result").iter().find_map(|event| event["outputRef"].as_str()).unwrap().to_owned();
    let mut args = turn("sess_a", json!([{ "say": "three" }]));
    args["threadId"] = json!("thrd_other");
    args["input"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "type": "blob", "ref": blob, "mediaType": "text/plain" }));
    let third = rig.call("submit_turn", args).await;
    rig.turn_over("sess_a", third["turnId"].as_str().unwrap()).await;
    let events = rig.checked("sess_a").await;
    let last = of(&events, "context.resolved")[1];
    assert_eq!(last["payload"]["selected"], json!([{ "ref": blob, "kind": "source" }]));
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_a" })).await;
    let shown = snapshot.to_string();
    assert!(shown.contains("\"selectedRefs\"") && shown.contains(&blob), "{snapshot:#}");
    rig.stop().await;
}
