//! What is as large, or as much, as it may be, and more than that.

use super::*;

#[tokio::test]
async fn p9_what_is_as_large_as_it_may_be_is_taken_and_what_is_larger_names_the_limit() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a", "agent": "scripted" })).await;
    let object = || json!({ "k": "x".repeat(16_000) });
    let most = || json!([{ "type": "text", "text": "x".repeat(1 << 20) }]);
    let more = || json!([{ "type": "text", "text": "x".repeat((1 << 20) + 1) }]);
    let prose = "o".repeat(16_000);
    let name = "n".repeat(128);
    let cases = [
        (
            "submit_turn",
            json!({ "sessionId": "sess_a", "turnId": name, "metadata": object(), "options": { "model": name, "priority": name } }),
        ),
        (
            "create_task",
            json!({ "sessionId": "sess_a", "taskId": name, "objective": prose, "title": "t".repeat(512), "constraints": object(), "agent": "scripted", "taskKind": name, "priority": name }),
        ),
        (
            "create_task",
            json!({ "sessionId": "sess_a", "taskId": "n".repeat(127), "objective": "o", "profile": object(), "agent": "scripted", "assignee": object() }),
        ),
        (
            "spawn_subagent",
            json!({ "sessionId": "sess_a", "subagentId": name, "modelPolicy": object(), "role": name, "nickname": name, "isolation": name }),
        ),
        (
            "create_job",
            json!({ "sessionId": "sess_a", "jobId": name, "instruction": prose, "agent": "scripted" }),
        ),
        ("create_session", json!({ "sessionId": name, "metadata": object(), "title": "t".repeat(512) })),
    ];
    for (command, args) in cases {
        let with = |input: Value| {
            let mut args = args.clone();
            match command {
                "create_session" => {}
                "create_job" => args["items"] = json!([{ "itemId": name, "input": input }]),
                _ => args["input"] = input,
            }
            args
        };
        rig.call(command, with(most())).await;
        if command != "create_session" {
            let refused = rig.refused(command, with(more())).await;
            assert_eq!(
                (&refused["code"], &refused["details"]["limit"]),
                (&json!("payload_too_large"), &json!(1 << 20)),
                "{command}"
            );
        }
    }
    for (command, args) in [
        ("update_session", json!({ "sessionId": "sess_a", "metadata": object(), "title": "t".repeat(512) })),
        (
            "append_task_progress",
            json!({ "taskId": "task_b", "summary": prose, "phase": name, "counters": (0..256).map(|at| (format!("{at:0100}"), json!(1))).collect::<serde_json::Map<_, _>>() }),
        ),
        (
            "complete_task",
            json!({ "taskId": "task_b", "summary": prose, "artifacts": (0..200).map(|at| format!("artf_{at:0100}")).collect::<Vec<_>>() }),
        ),
    ] {
        if command == "append_task_progress" {
            rig.call("create_task", json!({ "sessionId": "sess_a", "taskId": "task_b", "objective": "o" }))
                .await;
        }
        // All of it together is over the limit of the one command, and only of that.
        if command == "append_task_progress" {
            let refused = rig.refused(command, args).await;
            assert_eq!(
                (&refused["code"], &refused["details"]["limit"]),
                (&json!("payload_too_large"), &json!(40 * 1024)),
            );
        } else {
            rig.call(command, args).await;
        }
    }
    // Names as long as they may be, as many as may be open.
    for at in 0..256 {
        let args = json!({ "sessionId": "sess_a", "subagentId": format!("{at:03}{}", "s".repeat(125)), "input": sleeper() });
        if let Err(error) = rig.try_call("spawn_subagent", args).await {
            assert_eq!(error.to_json()["error"]["code"], "rate_limited", "{at}: {}", error.to_json());
        }
    }
    rig.run("sess_a", json!([{ "say": "x" }])).await;
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_million_children_at_once_are_refused_by_the_limit_and_nobody_is_started() {
    let rig = Rig::start().await;
    let script = json!([{ "spawn": { "count": 1_000_001, "script": [] } }]);
    let over = rig.run("sess_a", script.clone()).await;
    let error = &over["payload"]["error"];
    assert_eq!(error["code"], "invalid_argument");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("1000001") && message.contains("1000000"),
        "what it has and what it may have: {message}"
    );
    let spawned = rig.call("spawn_subagent", json!({ "sessionId": "sess_a", "input": input(&script) })).await;
    rig.subagent_is("sess_a", spawned["subagentId"].as_str().unwrap(), "failed").await;
    assert_eq!(
        rig.subagents(json!({ "sessionId": "sess_a" })).await.len(),
        1,
        "only the one that was asked for by name"
    );
    rig.checked("sess_a").await;
    rig.stop().await;
}
