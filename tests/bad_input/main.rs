//! What must not work: unknown ids, ids of somebody else, what is too large, what is no place in a list, what comes in the
//! wrong state, and new work for what is archived. Every command of the registry is named here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../common/about.rs"]
mod about;
#[path = "../common/mod.rs"]
mod common;
mod pages;
mod sizes;
mod states;

use std::collections::BTreeSet;

use about::{Ids, about, sleeper, unknown};

use cadre::{
    control::{Error, registry, result::Answer},
    fact::id::SessionId,
    runtime::{Caller, EventFilter},
};
use common::{Rig, count, input};
use serde_json::{Value, json};

/// A refusal without the ids in it.
fn nameless(answer: Result<Answer, Error>, ids: &Ids, name: &str) -> Value {
    let error = match answer {
        Ok(answer) => panic!("{name} was answered {}", answer.result),
        Err(error) => error.to_json(),
    };
    let text = ids.iter().fold(error.to_string(), |text, (what, id)| text.replace(id.as_str(), what));
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn what_nothing_gave_out_or_knows_is_refused_and_not_taken_and_dropped() {
    let rig = Rig::start().await;
    let turn = rig.run("sess_a", json!([])).await;
    let (thread, turn) = (&turn["threadId"], &turn["turnId"]);
    for (name, args, field) in [
        (
            "resume_thread",
            json!({ "sessionId": "sess_a", "threadId": thread, "resumeToken": "x" }),
            "resumeToken",
        ),
        ("get_tool_inventory", json!({ "sessionId": "sess_a", "mode": "read_only" }), "mode"),
    ] {
        let refused = rig.refused(name, args).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!("invalid_argument"), &json!(field))
        );
    }
    rig.call("get_tool_inventory", json!({ "sessionId": "sess_a", "mode": "default" })).await;
    let mut other = common::turn("sess_a", json!([]));
    other["threadId"] = json!("thrd_other");
    rig.call("submit_turn", other).await;
    let environment = |more: &Value| json!({ "sessionId": "sess_a", "turnId": turn, "threadId": more });
    let read = rig.call("get_execution_environment", environment(&Value::Null)).await;
    assert_eq!(read["threadId"], *thread, "that of the turn");
    let refused = rig.refused("get_execution_environment", environment(&json!("thrd_other"))).await;
    assert_eq!(refused["details"]["field"], "threadId");
    rig.stop().await;
}

#[tokio::test]
async fn p8_what_belongs_to_somebody_else_is_as_unknown_as_what_does_not_exist() {
    let rig = Rig::start().await;
    let mine = rig.everything().await;
    let nobodys = unknown(&mine);
    let facts = rig.events("sess_mine").await.len();
    let (foreign, missing) = (about(&mine), about(&nobodys));
    let covered: BTreeSet<&str> = foreign.iter().map(|(name, _)| *name).collect();
    let all: BTreeSet<&str> = registry().commands().map(|command| command.name).collect();
    let about_nothing_else = ["create_session", "list_sessions", "submit_turn"];
    assert_eq!(all.difference(&covered).copied().collect::<Vec<_>>(), about_nothing_else);
    for ((name, foreign), (_, missing)) in foreign.iter().zip(&missing) {
        let of_other = nameless(rig.as_other(name, foreign.clone()).await, &mine, name);
        let of_nobody = nameless(rig.as_other(name, missing.clone()).await, &nobodys, name);
        assert_eq!(of_other, of_nobody, "{name}: the whole error is the same");
        assert_eq!(of_other["error"]["code"], "not_found", "{name}: {of_other}");
        let unknown = nameless(rig.try_call(name, missing.clone()).await, &nobodys, name);
        assert_eq!(unknown, of_nobody, "{name}: and the same for whoever asks");
    }
    // What can be made under any id is made beside, not in, what somebody else has.
    for (name, args) in [
        ("create_session", json!({ "sessionId": "sess_mine" })),
        (
            "submit_turn",
            json!({ "sessionId": "sess_mine", "turnId": "turn_asking", "agent": "scripted", "input": input(&json!([{ "say": "theirs" }])) }),
        ),
        ("create_task", json!({ "taskId": "task_mine", "sessionId": "sess_mine", "objective": "theirs" })),
        ("spawn_subagent", json!({ "subagentId": "sub_mine", "sessionId": "sess_mine", "input": sleeper() })),
        (
            "create_job",
            json!({ "jobId": "job_mine", "sessionId": "sess_mine", "instruction": "theirs", "items": [{ "input": sleeper() }] }),
        ),
    ] {
        if let Err(error) = rig.as_other(name, args).await {
            panic!("{name}: {}", error.to_json());
        }
    }
    assert_eq!(rig.call("get_task", json!({ "taskId": "task_mine" })).await["task"]["objective"], "o");
    for (list, of) in [("list_sessions", "sessions"), ("list_tasks", "tasks"), ("list_jobs", "jobs")] {
        let theirs = rig.as_other(list, json!({})).await.unwrap().result;
        assert_eq!(theirs[of].as_array().unwrap().len(), 1, "{list}: only their own");
    }
    let other = Caller::within("other", "other");
    let session = SessionId::parse("sess_mine").unwrap();
    let page = rig
        .runtime
        .events(&other, &session, cadre::fact::Cursor::START, 1_000, &EventFilter::default())
        .await
        .unwrap();
    assert!(
        page.events.iter().all(|event| event.fact.ids.task().is_none_or(|task| task.as_str() == "task_mine"))
    );
    assert!(
        !page.events.iter().any(|event| event.fact.event_type().as_str() == "action.required"),
        "a feed of their own"
    );
    assert_eq!(rig.events("sess_mine").await.len(), facts, "nothing was said in mine");
    rig.checked("sess_mine").await;
    rig.stop().await;
}

#[tokio::test]
async fn whoever_is_no_agent_is_not_found_wherever_one_is_named() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    rig.call("create_task", json!({ "taskId": "task_a", "sessionId": "sess_a", "objective": "o" })).await;
    let mut named = BTreeSet::new();
    for (name, args) in [
        ("submit_turn", json!({ "sessionId": "sess_new", "input": sleeper() })),
        ("create_session", json!({ "sessionId": "sess_new" })),
        ("update_session", json!({ "sessionId": "sess_a" })),
        ("get_tool_inventory", json!({ "sessionId": "sess_a" })),
        ("create_task", json!({ "sessionId": "sess_a", "objective": "o" })),
        ("update_task", json!({ "taskId": "task_a" })),
        ("spawn_subagent", json!({ "sessionId": "sess_a", "input": sleeper() })),
        (
            "create_job",
            json!({ "sessionId": "sess_a", "instruction": "i", "items": [{ "input": sleeper() }] }),
        ),
    ] {
        let mut args = args;
        args["agent"] = json!("nobody");
        let refused = rig.refused(name, args).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!("not_found"), &json!("agent")),
            "{name}"
        );
        named.insert(name);
    }
    assert_eq!(
        rig.call("get_task", json!({ "taskId": "task_a" })).await["task"]["status"],
        "running",
        "it is as it was"
    );
    let with_agent = registry().commands().filter(|command| {
        command.arguments.as_value()["properties"].as_object().unwrap().contains_key("agent")
    });
    assert_eq!(with_agent.map(|command| command.name).collect::<BTreeSet<_>>(), named);
    assert_eq!(
        rig.refused("get_session", json!({ "sessionId": "sess_new" })).await["code"],
        "not_found",
        "nothing was made"
    );
    // A task of a script that names nobody fails as a call, and the script goes on.
    let over = rig
        .run(
            "sess_a",
            json!([{ "task": { "objective": "o", "agent": "nobody", "script": [] } }, { "say": "on" }]),
        )
        .await;
    assert_eq!(over["type"], "turn.completed");
    rig.checked("sess_a").await;
    rig.stop().await;
}
