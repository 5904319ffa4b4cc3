//! Tasks: the whole model of statuses, attempts, dependencies, children.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::BTreeMap;

use common::{Rig, count, input};
use serde_json::{Value, json};

const FOREVER: u64 = 600_000;

impl Rig {
    async fn session(&self) {
        self.call("create_session", json!({ "sessionId": "sess_a", "agent": "scripted" })).await;
    }

    /// A task for a worker outside.
    async fn outside(&self, task: &str, more: Value) -> Value {
        let mut args = json!({ "taskId": task, "sessionId": "sess_a", "objective": "o" });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.call("create_task", args).await
    }

    /// A task that runs a script.
    async fn scripted(&self, task: &str, script: Value, more: Value) -> Value {
        let mut args = json!({ "agent": "scripted", "input": input(&script) });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.outside(task, args).await
    }

    async fn tell(&self, command: &str, task: &str) -> Value {
        self.call(command, json!({ "taskId": task })).await
    }

    async fn fail(&self, task: &str, retryable: bool) -> Value {
        let error = json!({ "code": "broken", "message": "m", "retryable": retryable });
        self.call("fail_task", json!({ "taskId": task, "error": error })).await
    }

    async fn task(&self, task: &str) -> Value {
        self.tell("get_task", task).await["task"].clone()
    }

    /// Brings a new task to a status.
    async fn task_at(&self, task: &str, status: &str) {
        match status {
            "accepted" => {
                self.outside(task, json!({ "autoStart": false })).await;
            }
            "running" => {
                self.outside(task, json!({})).await;
            }
            "blocked" => {
                let other = format!("{task}_other");
                self.outside(&other, json!({ "autoStart": false })).await;
                self.outside(task, json!({ "dependsOn": [other] })).await;
            }
            "paused" => {
                self.outside(task, json!({})).await;
                self.tell("pause_task", task).await;
            }
            "retrying" => {
                let policy = json!({ "maxAttempts": 3, "backoffMs": FOREVER, "maxBackoffMs": FOREVER });
                self.outside(task, json!({ "retryPolicy": policy })).await;
                self.fail(task, true).await;
            }
            "waiting_input" => {
                self.scripted(task, json!([]), json!({ "acceptance": [{ "artifact": "artf_1" }] })).await;
            }
            "waiting_resource" => {
                self.outside(task, json!({})).await;
                let child = json!({ "parentTaskId": task, "taskId": format!("{task}_child") });
                self.outside(&format!("{task}_child"), child).await;
                self.tell("complete_task", task).await;
            }
            "completed" => {
                self.outside(task, json!({})).await;
                self.tell("complete_task", task).await;
            }
            "failed" => {
                self.outside(task, json!({})).await;
                self.fail(task, false).await;
            }
            "cancelled" => {
                self.outside(task, json!({})).await;
                self.tell("cancel_task", task).await;
            }
            "timed_out" => {
                self.outside(task, json!({ "timeoutMs": 20 })).await;
            }
            "lost" => {
                self.outside(task, json!({ "constraints": { "heartbeatMs": 20 } })).await;
            }
            other => panic!("no way to {other}"),
        }
        self.task_is(task, status).await;
    }
}

const STATUSES: [&str; 12] = [
    "accepted",
    "running",
    "blocked",
    "paused",
    "retrying",
    "waiting_input",
    "waiting_resource",
    "completed",
    "failed",
    "cancelled",
    "timed_out",
    "lost",
];

#[tokio::test]
async fn every_command_is_taken_or_refused_by_the_status_of_the_task() {
    let rig = Rig::start().await;
    rig.session().await;
    let open = ["accepted", "running", "blocked", "paused", "retrying", "waiting_input", "waiting_resource"];
    let but = |left_out: &str| open.iter().copied().filter(|status| *status != left_out).collect::<Vec<_>>();
    let taken: BTreeMap<&str, Vec<&str>> = [
        ("start_task", vec!["accepted"]),
        ("append_task_progress", open.to_vec()),
        ("update_task", open.to_vec()),
        ("pause_task", but("paused")),
        ("resume_task", vec!["paused"]),
        ("cancel_task", STATUSES.to_vec()),
        ("retry_task", vec!["failed", "timed_out", "cancelled", "lost"]),
        ("complete_task", vec!["running", "waiting_input"]),
        ("fail_task", vec!["running", "waiting_input"]),
    ]
    .into();
    for (command, taken) in &taken {
        for status in STATUSES {
            let task = format!("task_{command}_{status}");
            rig.task_at(&task, status).await;
            let mut args = json!({ "taskId": task });
            match *command {
                "fail_task" => args["error"] = json!({ "code": "c", "message": "m", "retryable": false }),
                "complete_task" => args["artifacts"] = json!(["artf_1"]),
                "append_task_progress" => args["percent"] = json!(10),
                "update_task" => args["title"] = json!("t"),
                _ => {}
            }
            match rig.try_call(command, args).await {
                Ok(answer) => assert!(taken.contains(&status), "{command} when {status}: {}", answer.result),
                Err(error) => {
                    let error = error.to_json()["error"].clone();
                    assert!(!taken.contains(&status), "{command} when {status}: {error}");
                    assert_eq!(error["code"], "conflict", "{command} when {status}: {error}");
                    assert_eq!(error["details"]["status"], status, "{command} when {status}: {error}");
                    assert_eq!(rig.task(&task).await["status"], status, "{command} changes nothing");
                }
            }
        }
    }
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_worker_outside_reports_progress_and_completes() {
    let rig = Rig::start().await;
    rig.session().await;
    let made =
        rig.outside("task_a", json!({ "autoStart": false, "title": "t", "taskKind": "research" })).await;
    assert_eq!(made["status"], "accepted");
    let started = rig.tell("start_task", "task_a").await;
    assert_eq!(started["status"], "running");
    let progress = json!({ "taskId": "task_a", "percent": 40.0, "phase": "reading", "summary": "s", "counters": { "pages": 3 } });
    rig.call("append_task_progress", progress).await;
    let task = rig.task("task_a").await;
    assert_eq!(
        (&task["progress"]["percent"], &task["progress"]["counters"]["pages"]),
        (&json!(40.0), &json!(3)),
        "{task:#}"
    );
    let done =
        json!({ "taskId": "task_a", "summary": "done", "artifacts": ["artf_1"], "evidenceRefs": ["evid_1"] });
    let done = rig.call("complete_task", done).await;
    assert_eq!(done["status"], "completed");
    let events = rig.checked("sess_a").await;
    let classes: Vec<&str> = events
        .iter()
        .filter(|event| event["taskId"] == "task_a")
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        classes,
        [
            "task.created",
            "task.accepted",
            "task.started",
            "task.attempt.started",
            "task.progress",
            "task.attempt.completed",
            "task.completed"
        ]
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_retry_keeps_the_failed_attempt_and_the_edges_and_survives_a_crash() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.task_at("task_need", "completed").await;
    rig.outside("task_a", json!({ "dependsOn": ["task_need"] })).await;
    rig.task_is("task_a", "running").await;
    rig.fail("task_a", false).await;
    let rig = rig.crash().await;
    let before = rig.task("task_a").await;
    assert_eq!(before["status"], "failed");
    let retried = rig.call("retry_task", json!({ "taskId": "task_a", "reason": "once more" })).await;
    assert_eq!(retried["status"], "running");
    rig.tell("complete_task", "task_a").await;
    let task = rig.task("task_a").await;
    let attempts = task["attempts"].as_array().unwrap_or_else(|| panic!("{task:#}"));
    assert_eq!(attempts.len(), 2, "{task:#}");
    assert_eq!((&attempts[0]["status"], &attempts[1]["status"]), (&json!("failed"), &json!("completed")));
    assert_eq!(attempts[0]["runId"], before["attempts"][0]["runId"]);
    assert_eq!(task["relationships"], before["relationships"], "the edges are kept");
    let refused = rig.refused("retry_task", json!({ "taskId": "task_a" })).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("completed")));
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_retry_policy_tries_again_after_waits_that_double_and_then_gives_up() {
    let rig = Rig::start().await;
    rig.session().await;
    let policy = json!({ "maxAttempts": 3, "backoffMs": 100, "maxBackoffMs": 1000 });
    let script = json!([{ "say": "try {{attempt}}" }, { "fail": { "message": "no", "times": 2 } }, { "say": "worked" }]);
    rig.scripted("task_a", script, json!({ "retryPolicy": policy })).await;
    rig.task_is("task_a", "completed").await;
    let fails = json!([{ "fail": { "message": "never" } }]);
    rig.scripted("task_b", fails.clone(), json!({ "retryPolicy": policy })).await;
    let failed = rig.task_is("task_b", "failed").await;
    assert_eq!(failed["attempts"].as_array().unwrap().len(), 3, "{failed:#}");
    let final_error = json!([{ "fail": { "message": "never", "retryable": false } }]);
    rig.scripted("task_c", final_error, json!({ "retryPolicy": policy })).await;
    let failed = rig.task_is("task_c", "failed").await;
    assert_eq!(failed["attempts"].as_array().unwrap().len(), 1, "what is not retryable is not retried");
    rig.scripted("task_d", fails, json!({})).await;
    let failed = rig.task_is("task_d", "failed").await;
    assert_eq!(failed["attempts"].as_array().unwrap().len(), 1);
    let events = rig.checked("sess_a").await;
    let of = |task: &str, class: &str| -> Vec<i64> {
        let found = events.iter().filter(|event| event["taskId"] == task && event["type"] == class);
        found
            .map(|event| {
                chrono::DateTime::parse_from_rfc3339(event["timestamp"].as_str().unwrap())
                    .unwrap()
                    .timestamp_millis()
            })
            .collect()
    };
    let (failed, started) = (of("task_b", "task.attempt.failed"), of("task_b", "task.attempt.started"));
    assert!(
        started[1] - failed[0] >= 100 && started[2] - failed[1] >= 200,
        "P6: never early: {started:?} {failed:?}"
    );
    assert_eq!(events.iter().filter(|event| event["payload"]["text"] == "worked").count(), 1);
    assert_eq!(
        events.iter().filter(|event| event["taskId"] == "task_b" && event["type"] == "task.retrying").count(),
        2
    );
    rig.stop().await;
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_timed_out_with_everything_it_started() {
    let rig = Rig::start().await;
    rig.session().await;
    let script = json!([{ "spawn": { "count": 3, "script": [{ "sleep": FOREVER }] } }]);
    rig.scripted("task_a", script.clone(), json!({ "timeoutMs": 150 })).await;
    rig.task_is("task_a", "timed_out").await;
    let policy = json!({ "maxAttempts": 2, "backoffMs": 10, "maxBackoffMs": 10 });
    rig.scripted("task_b", script, json!({ "timeoutMs": 150, "retryPolicy": policy })).await;
    let task = rig.task_is("task_b", "timed_out").await;
    assert_eq!(task["attempts"].as_array().unwrap().len(), 2);
    let events = rig.checked("sess_a").await;
    assert_eq!(count(&events, "subagent.closed"), 9);
    assert_eq!(count(&events, "task.timed_out"), 2);
    rig.stop().await;
}

#[tokio::test]
async fn a_task_waits_for_what_it_depends_on_and_says_for_what() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_1", json!({})).await;
    rig.outside("task_2", json!({})).await;
    let made = rig.outside("task_a", json!({ "dependsOn": ["task_1", "task_2"] })).await;
    assert_eq!(made["status"], "blocked");
    rig.tell("complete_task", "task_1").await;
    rig.fail("task_2", false).await;
    let blocked = rig
        .until("sess_a", |event| {
            event["type"] == "task.blocked"
                && event["payload"]["reason"].as_str().unwrap().contains("task_2 is failed")
        })
        .await;
    assert_eq!(blocked["payload"]["waitingFor"], json!(["task_2"]));
    assert_eq!(rig.task("task_a").await["status"], "blocked", "a failed dependency does not unblock");
    rig.tell("retry_task", "task_2").await;
    rig.tell("complete_task", "task_2").await;
    rig.task_is("task_a", "running").await;

    // One that does not start by itself is accepted when it could, and one that was started meanwhile starts.
    rig.outside("task_3", json!({})).await;
    rig.outside("task_b", json!({ "dependsOn": ["task_3"], "autoStart": false })).await;
    rig.outside("task_c", json!({ "dependsOn": ["task_3"], "autoStart": false })).await;
    let started = rig.tell("start_task", "task_c").await;
    assert_eq!(started["status"], "blocked", "it still waits for what it depends on");
    rig.outside("task_d", json!({ "dependsOn": ["task_3"], "autoStart": false })).await;
    rig.tell("pause_task", "task_d").await;
    rig.tell("complete_task", "task_3").await;
    rig.task_is("task_b", "accepted").await;
    rig.task_is("task_c", "running").await;
    assert_eq!(
        rig.tell("resume_task", "task_d").await["status"],
        "accepted",
        "what it waited for ended while it was paused"
    );
    assert_eq!(rig.tell("start_task", "task_d").await["status"], "running");

    let unknown = rig
        .refused(
            "create_task",
            json!({ "sessionId": "sess_a", "objective": "o", "dependsOn": ["task_none"] }),
        )
        .await;
    assert_eq!((&unknown["code"], &unknown["details"]["field"]), (&json!("not_found"), &json!("dependsOn")));
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn an_answer_says_which_attempt_it_is_about_and_where_that_runs() {
    let rig = Rig::start().await;
    rig.session().await;
    let script = json!([{ "approve": { "prompt": "?", "decisions": ["allow", "deny"] } }]);
    let task = json!({ "taskId": "task_1", "sessionId": "sess_a", "objective": "o", "agent": "scripted",
        "input": input(&script) });
    rig.call("create_task", task).await;
    let asked = rig.until("sess_a", |event| event["type"] == "action.required").await;
    let paused = rig.call("pause_task", json!({ "taskId": "task_1" })).await;
    assert_eq!((&paused["sessionId"], &paused["attempt"]), (&json!("sess_a"), &json!(1)), "{paused}");
    assert_eq!((&paused["threadId"], &paused["turnId"]), (&asked["threadId"], &asked["turnId"]));
    rig.call("resume_task", json!({ "taskId": "task_1" })).await;
    let answer = json!({ "actionId": asked["actionId"], "decision": "allow" });
    assert_eq!(rig.call("respond_action", answer).await["sessionId"], "sess_a");
    rig.task_is("task_1", "completed").await;
    let spawn = json!({ "subagentId": "sub_1", "sessionId": "sess_a", "input": input(&json!([{ "say": "it is done" }])) });
    rig.call("spawn_subagent", spawn).await;
    let wait = json!({ "subagentIds": ["sub_1"], "mode": "all", "timeoutMs": 10_000 });
    rig.call("wait_subagents", wait).await;
    let closed = rig.call("close_subagent", json!({ "subagentId": "sub_1" })).await;
    assert_eq!((&closed["sessionId"], &closed["attempt"]), (&json!("sess_a"), &json!(1)), "{closed}");
    rig.stop().await;
}

#[tokio::test]
async fn why_something_was_done_is_told_with_it() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_1", json!({ "autoStart": false })).await;
    rig.outside("task_2", json!({ "autoStart": false })).await;
    let edge =
        |reason: &str| json!({ "from": "task_2", "to": "task_1", "kind": "depends_on", "reason": reason });
    rig.call("link_tasks", edge("linked")).await;
    rig.call("unlink_tasks", edge("unlinked")).await;
    rig.call("start_task", json!({ "taskId": "task_1", "reason": "started" })).await;
    rig.call("pause_task", json!({ "taskId": "task_1", "reason": "paused" })).await;
    rig.call("resume_task", json!({ "taskId": "task_1", "reason": "resumed" })).await;
    rig.call("update_session", json!({ "sessionId": "sess_a", "title": "t", "reason": "updated" })).await;
    let events = rig.checked("sess_a").await;
    for (class, reason) in [
        ("task.dependency.updated", "linked"),
        ("task.dependency.updated", "unlinked"),
        ("task.started", "started"),
        ("task.paused", "paused"),
        ("task.resumed", "resumed"),
        ("session.updated", "updated"),
    ] {
        let is_told = |event: &Value| event["type"] == class && event["payload"]["reason"] == reason;
        assert!(events.iter().any(is_told), "{class} because {reason}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn links_block_and_unlinking_lets_go() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_1", json!({})).await;
    rig.outside("task_a", json!({ "autoStart": false })).await;
    let link = json!({ "from": "task_1", "to": "task_a", "kind": "blocks", "reason": "first things first" });
    let linked = rig.call("link_tasks", link.clone()).await;
    assert_eq!((&linked["linked"], &linked["status"]), (&json!(true), &json!("blocked")), "{linked:#}");
    assert_eq!(rig.call("link_tasks", link.clone()).await["linked"], true, "the same link twice is one link");
    rig.tell("start_task", "task_a").await;
    rig.call("unlink_tasks", json!({ "from": "task_1", "to": "task_a", "kind": "blocks" })).await;
    rig.task_is("task_a", "running").await;
    let late = rig.refused("link_tasks", link).await;
    assert_eq!((&late["code"], &late["details"]["status"]), (&json!("conflict"), &json!("running")));
    let other = rig.call("link_tasks", json!({ "from": "task_a", "to": "task_1", "kind": "source" })).await;
    assert_eq!(other["linked"], true, "edges of other kinds block nobody");
    let removed = async || {
        let told = rig.served("sess_a").await;
        told.iter().filter(|event| event["payload"]["removed"] == true).count()
    };
    let before = removed().await;
    rig.call("unlink_tasks", json!({ "from": "task_a", "to": "task_1", "kind": "seen" })).await;
    assert_eq!(removed().await, before, "there was no such edge, so nothing happens");
    rig.call("unlink_tasks", json!({ "from": "task_a", "to": "task_1", "kind": "source" })).await;
    assert_eq!(removed().await, before + 1);
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_cycle_is_refused_however_it_would_close() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_1", json!({ "autoStart": false })).await;
    rig.outside("task_2", json!({ "dependsOn": ["task_1"] })).await;
    rig.outside("task_3", json!({ "dependsOn": ["task_2"] })).await;
    for (from, to, kind) in
        [("task_3", "task_1", "blocks"), ("task_2", "task_1", "blocks"), ("task_1", "task_3", "depends_on")]
    {
        let refused = rig.refused("link_tasks", json!({ "from": from, "to": to, "kind": kind })).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["status"]),
            (&json!("conflict"), &json!("cycle")),
            "{from} {kind} {to}"
        );
    }
    // Two halves of a cycle at the same moment: one of them is refused.
    for round in 0..20 {
        let (a, b) = (format!("task_a{round}"), format!("task_b{round}"));
        rig.outside(&a, json!({ "autoStart": false })).await;
        rig.outside(&b, json!({ "autoStart": false })).await;
        let half = |from: &str, to: &str| json!({ "from": from, "to": to, "kind": "blocks" });
        let (one, two) =
            tokio::join!(rig.try_call("link_tasks", half(&a, &b)), rig.try_call("link_tasks", half(&b, &a)));
        assert_eq!(usize::from(one.is_ok()) + usize::from(two.is_ok()), 1, "round {round}");
    }
    // A dependency given at creation counts from the moment that is answered.
    for round in 0..20 {
        let (a, b) = (format!("task_c{round}"), format!("task_d{round}"));
        rig.outside(&a, json!({ "autoStart": false })).await;
        rig.outside(&b, json!({ "dependsOn": [&a] })).await;
        let refused = rig.refused("link_tasks", json!({ "from": b, "to": a, "kind": "blocks" })).await;
        assert_eq!(refused["details"]["status"], "cycle", "round {round}");
    }
    // An edge that is gone closes nothing.
    rig.call("unlink_tasks", json!({ "from": "task_1", "to": "task_2", "kind": "blocks" })).await;
    rig.call("link_tasks", json!({ "from": "task_3", "to": "task_1", "kind": "blocks" })).await;
    rig.stop().await;
}

#[tokio::test]
async fn p7_tasks_of_a_script_that_would_wait_for_each_other_fail_instead() {
    let rig = Rig::start().await;
    let waits = |task: &str, needs: &str| json!({ "task": { "taskId": task, "objective": "o", "dependsOn": [needs], "script": [], "join": false } });
    let script = json!([
        waits("task_1", "task_2"),
        waits("task_2", "task_3"),
        waits("task_3", "task_1"),
        { "task": { "taskId": "task_whole", "objective": "o", "script": [waits("task_part", "task_whole")], "join": false } },
        waits("task_early", "task_late"),
    ]);
    let submitted = rig.submit("sess_a", script).await;
    rig.turn_over("sess_a", submitted["turnId"].as_str().unwrap()).await;
    // Whoever looks last sees the whole circle; the others may see it, too, or say what became of those they wait for.
    let is_broken =
        |event: &Value| event["type"] == "task.failed" && event["payload"]["error"]["code"] == "cycle";
    let is_of_three = |event: &Value| is_broken(event) && event["taskId"] != "task_part";
    rig.until("sess_a", is_of_three).await;
    for task in ["task_1", "task_2", "task_3"] {
        let task = rig.task(task).await;
        assert!(task["status"] == "failed" || task["status"] == "blocked", "{task:#}");
    }
    // A whole waits for its parts, so a part that waits for it closes a circle.
    rig.until("sess_a", |event| is_broken(event) && event["taskId"] == "task_part").await;
    rig.task_is("task_whole", "completed").await;
    // And a command that would close one is refused, although nobody of that name was there before.
    let late = json!({ "taskId": "task_late", "sessionId": "sess_a", "objective": "o", "dependsOn": ["task_early"] });
    let refused = rig.refused("create_task", late).await;
    assert_eq!(
        (&refused["details"]["status"], &refused["details"]["field"]),
        (&json!("cycle"), &json!("dependsOn"))
    );
    let blocked = rig.task_is("task_early", "blocked").await;
    assert!(
        blocked["statusReason"].as_str().unwrap().contains("task_late does not exist yet"),
        "{blocked:#}"
    );
    rig.stop().await;
}

#[tokio::test]
async fn p7_a_part_cannot_wait_for_what_it_is_a_part_of() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_whole", json!({})).await;
    rig.outside("task_part", json!({ "parentTaskId": "task_whole" })).await;
    rig.outside("task_after", json!({ "dependsOn": ["task_whole"] })).await;
    for (name, task) in [
        ("task_a", json!({ "parentTaskId": "task_whole", "dependsOn": ["task_whole"] })),
        ("task_b", json!({ "parentTaskId": "task_part", "dependsOn": ["task_whole"] })),
        ("task_c", json!({ "parentTaskId": "task_part", "dependsOn": ["task_after"] })),
    ] {
        let mut task = task;
        task["taskId"] = name.into();
        task["sessionId"] = "sess_a".into();
        task["objective"] = "o".into();
        let refused = rig.refused("create_task", task).await;
        assert_eq!(refused["details"]["status"], "cycle", "{name}: {refused}");
    }
    let link = json!({ "from": "task_after", "to": "task_part", "kind": "blocks" });
    let refused = rig.refused("link_tasks", link).await;
    assert_eq!(refused["details"]["status"], "cycle", "{refused}");
    // The whole may wait for a part before it starts: the part does not wait for it.
    rig.outside("task_later", json!({ "autoStart": false })).await;
    rig.outside("task_first", json!({ "parentTaskId": "task_later" })).await;
    rig.call("link_tasks", json!({ "from": "task_first", "to": "task_later", "kind": "blocks" })).await;
    rig.stop().await;
}

#[tokio::test]
async fn p7_a_link_that_is_refused_takes_nothing_away_that_holds() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_a", json!({ "autoStart": false })).await;
    rig.outside("task_b", json!({ "dependsOn": ["task_a"] })).await;
    rig.tell("cancel_task", "task_b").await;
    let link = |from: &str, to: &str| json!({ "from": from, "to": to, "kind": "depends_on" });
    let refused = rig.refused("link_tasks", link("task_b", "task_a")).await;
    assert_eq!(refused["details"]["status"], "cancelled");
    rig.tell("retry_task", "task_b").await;
    rig.task_is("task_b", "blocked").await;
    let refused = rig.refused("link_tasks", link("task_a", "task_b")).await;
    assert_eq!(refused["details"]["status"], "cycle", "{refused}");
    // One that was never taken on is not in the way of its contrary.
    rig.outside("task_c", json!({})).await;
    rig.tell("complete_task", "task_c").await;
    rig.outside("task_d", json!({ "autoStart": false })).await;
    assert_eq!(rig.refused("link_tasks", link("task_c", "task_d")).await["details"]["status"], "completed");
    rig.call("link_tasks", link("task_d", "task_c")).await;
    let accepted = |event: &&Value| event["type"] == "task.accepted" && event["taskId"] == "task_d";
    rig.eventually("task_d waits for nothing any more", async || {
        (rig.served("sess_a").await.iter().filter(accepted).count() == 2).then_some(())
    })
    .await;
    // And one that is not there is taken away without a fact.
    let before = rig.served("sess_a").await.len();
    rig.call("unlink_tasks", link("task_a", "task_d")).await;
    assert_eq!(rig.served("sess_a").await.len(), before);
    rig.stop().await;
}

#[tokio::test]
async fn a_task_may_wait_for_one_that_is_created_after_it() {
    let rig = Rig::start().await;
    let script = json!([
        { "task": { "taskId": "task_second", "objective": "o", "dependsOn": ["task_first"], "script": [], "join": false } },
        { "sleep": 20 },
        { "task": { "taskId": "task_first", "objective": "o", "script": [{ "sleep": 20 }], "join": false } },
    ]);
    rig.submit("sess_a", script).await;
    rig.task_is("task_second", "completed").await;
    let events = rig.checked("sess_a").await;
    let at = |class: &str, task: &str| {
        events.iter().position(|event| event["type"] == class && event["taskId"] == task).unwrap()
    };
    assert!(at("task.completed", "task_first") < at("task.started", "task_second"));
    rig.stop().await;
}

#[tokio::test]
async fn p11_a_cancel_reaches_the_children_and_sticks() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_root", json!({})).await;
    rig.outside("task_child", json!({ "parentTaskId": "task_root" })).await;
    rig.outside("task_done", json!({ "parentTaskId": "task_root" })).await;
    rig.tell("complete_task", "task_done").await;
    rig.tell("cancel_task", "task_root").await;
    assert_eq!(rig.task("task_child").await["status"], "cancelled");
    assert_eq!(rig.task("task_done").await["status"], "completed");
    let refused = rig.refused("create_task", json!({ "parentTaskId": "task_root", "objective": "o" })).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("cancelled")));
    // A child is tried again by itself; another cancel of the parent still reaches it.
    rig.tell("retry_task", "task_child").await;
    rig.task_is("task_child", "running").await;
    rig.tell("cancel_task", "task_root").await;
    assert_eq!(rig.task("task_child").await["status"], "cancelled");

    rig.outside("task_p", json!({})).await;
    rig.outside("task_q", json!({ "parentTaskId": "task_p" })).await;
    let alone = rig
        .call("cancel_task", json!({ "taskId": "task_p", "propagate": false, "reason": "only this" }))
        .await;
    assert_eq!(alone["status"], "cancelled");
    assert_eq!(rig.task("task_q").await["status"], "running");
    rig.tell("complete_task", "task_q").await;
    // Who wants all of it closed gets that, although somebody wanted less before.
    let long = json!([{ "spawn": { "count": 3, "script": [{ "sleep": FOREVER }] } }]);
    rig.scripted("task_r", long, json!({})).await;
    rig.outside("task_s", json!({ "parentTaskId": "task_r" })).await;
    let cancel = |propagate: bool| json!({ "taskId": "task_r", "propagate": propagate });
    let (_, whole) =
        tokio::join!(rig.answer("cancel_task", cancel(false)), rig.answer("cancel_task", cancel(true)));
    assert_eq!(whole.result["status"], "cancelled");
    assert_eq!(rig.task("task_s").await["status"], "cancelled");
    let events = rig.served("sess_a").await;
    let cancelled =
        events.iter().find(|event| event["type"] == "task.cancelled" && event["taskId"] == "task_p").unwrap();
    assert_eq!(cancelled["payload"]["reason"], "only this", "{cancelled:#}");
    rig.stop().await;
}

#[tokio::test]
async fn p11_children_that_race_with_the_cancel_of_their_parent_are_refused_or_cancelled() {
    let rig = Rig::start().await;
    rig.session().await;
    for round in 0..10 {
        let root = format!("task_root{round}");
        rig.outside(&root, json!({})).await;
        let child = |number: usize| json!({ "parentTaskId": root, "taskId": format!("{root}_{number}"), "objective": "o" });
        let (one, two, cancelled, three) = tokio::join!(
            rig.try_call("create_task", child(1)),
            rig.try_call("create_task", child(2)),
            rig.answer("cancel_task", json!({ "taskId": root })),
            rig.try_call("create_task", child(3)),
        );
        assert_eq!(cancelled.result["status"], "cancelled");
        for (number, made) in [(1, one), (2, two), (3, three)] {
            match made {
                Ok(_) => assert_eq!(rig.task(&format!("{root}_{number}")).await["status"], "cancelled"),
                Err(error) => assert_eq!(error.to_json()["error"]["code"], "conflict"),
            }
        }
    }
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn p7_a_worker_outside_that_gives_no_sign_of_life_is_lost_not_failed() {
    let rig = Rig::start().await;
    rig.session().await;
    let policy = json!({ "maxAttempts": 5, "backoffMs": 1, "maxBackoffMs": 1 });
    rig.outside("task_a", json!({ "constraints": { "heartbeatMs": 150 }, "retryPolicy": policy })).await;
    rig.task_is("task_a", "lost").await;
    let late = rig.refused("complete_task", json!({ "taskId": "task_a" })).await;
    assert_eq!(late["details"]["status"], "lost");
    rig.outside("task_b", json!({ "constraints": { "heartbeatMs": 150 } })).await;
    rig.tell("pause_task", "task_b").await;
    // Another worker is lost in the meantime: nobody expects a paused one to show life.
    rig.outside("task_c", json!({ "constraints": { "heartbeatMs": 300 } })).await;
    rig.task_is("task_c", "lost").await;
    assert_eq!(rig.task("task_b").await["status"], "paused");
    rig.tell("resume_task", "task_b").await;
    rig.task_is("task_b", "lost").await;
    let again = rig.tell("retry_task", "task_b").await;
    assert_eq!(again["status"], "running", "a human decides");
    rig.tell("complete_task", "task_b").await;
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_task_completes_after_what_is_below_it_and_with_what_was_promised() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside(
        "task_root",
        json!({ "acceptance": [{ "artifact": "artf_plan" }, { "evidence": "evid_test" }] }),
    )
    .await;
    rig.outside("task_child", json!({ "parentTaskId": "task_root" })).await;
    let early =
        rig.refused("complete_task", json!({ "taskId": "task_root", "artifacts": ["artf_plan"] })).await;
    assert_eq!(early["code"], "conflict");
    assert!(early["message"].as_str().unwrap().contains("evid_test"), "{early:#}");
    let args = json!({ "taskId": "task_root", "artifacts": ["artf_plan"], "evidenceRefs": ["evid_test"] });
    let waits = rig.call("complete_task", args).await;
    assert_eq!(waits["status"], "waiting_resource");
    rig.tell("complete_task", "task_child").await;
    rig.task_is("task_root", "completed").await;
    let events = rig.checked("sess_a").await;
    let done: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "task.completed")
        .map(|event| &event["taskId"])
        .collect();
    assert_eq!(done, ["task_child", "task_root"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_script_waits_for_its_tasks_or_does_not() {
    let rig = Rig::start().await;
    let script = json!([
        { "task": { "taskId": "task_joined", "objective": "o", "script": [{ "sleep": 50 }, { "say": "task" }] } },
        { "task": { "taskId": "task_fails", "objective": "o", "script": [{ "fail": { "retryable": false } }] } },
        { "task": { "taskId": "task_alone", "objective": "o", "script": [{ "sleep": FOREVER }], "join": false } },
        { "task": { "objective": "" , "script": [] } },
        { "say": "after" }
    ]);
    let submitted = rig.submit("sess_a", script).await;
    let turn = submitted["turnId"].as_str().unwrap();
    let over = rig.turn_over("sess_a", turn).await;
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    let events = rig.checked("sess_a").await;
    let at = |class: &str, task: &str| {
        events.iter().position(|event| event["type"] == class && event["taskId"] == task)
    };
    let after = events.iter().position(|event| event["payload"]["text"] == "after").unwrap();
    assert!(at("task.completed", "task_joined").unwrap() < after);
    assert!(at("task.failed", "task_fails").unwrap() < after, "a failed child does not end the script");
    assert_eq!(rig.task_is("task_alone", "running").await["sessionId"], "sess_a");
    let interrupted = rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": turn })).await;
    assert_eq!(interrupted["status"], "completed");
    assert_eq!(rig.task("task_alone").await["status"], "cancelled", "an interrupt still reaches it");
    let refused = events.iter().filter(|event| event["type"] == "tool.failed").count();
    assert_eq!(refused, 1, "a task that cannot be made is a failed call");
    rig.stop().await;
}

#[tokio::test]
async fn a_task_without_a_session_gets_one_of_its_own_and_only_one() {
    let rig = Rig::start().await;
    let args = json!({ "taskId": "task_a", "objective": "o", "title": "alone", "agent": "scripted", "input": input(&json!([{ "say": "x" }])) });
    let made = rig.call("create_task", args.clone()).await;
    let session = made["sessionId"].as_str().unwrap().to_owned();
    rig.task_is("task_a", "completed").await;
    let again = rig.call("create_task", args.clone()).await;
    assert_eq!(again["sessionId"], session.as_str());
    let mut other = args;
    other["objective"] = json!("another");
    assert_eq!(rig.refused("create_task", other).await["code"], "conflict");
    let sessions = rig.call("list_sessions", json!({})).await;
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 1, "{sessions:#}");
    rig.checked(&session).await;
    rig.stop().await;
}

#[tokio::test]
async fn tasks_are_listed_by_session_parent_and_status_page_by_page() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.outside("task_root", json!({})).await;
    for number in 0..25 {
        rig.outside(&format!("task_{number:02}"), json!({ "parentTaskId": "task_root" })).await;
    }
    for number in 0..5 {
        rig.tell("complete_task", &format!("task_{number:02}")).await;
    }
    for (mut args, wanted) in [
        (json!({ "sessionId": "sess_a", "limit": 10 }), 26),
        (json!({ "parentTaskId": "task_root", "limit": 10 }), 25),
        (json!({ "parentTaskId": "task_root", "status": "completed", "limit": 2 }), 5),
        (json!({ "limit": 7, "status": "running" }), 21),
    ] {
        let mut seen = Vec::new();
        loop {
            let page = rig.call("list_tasks", args.clone()).await;
            seen.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].to_string()));
            if page["hasMore"] != true {
                break;
            }
            args["after"] = page["cursor"].clone();
        }
        let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!((seen.len(), distinct.len()), (wanted, wanted), "{args}");
    }
    let wrong = rig.refused("list_tasks", json!({ "after": "nonsense" })).await;
    assert_eq!((&wrong["code"], &wrong["details"]["field"]), (&json!("invalid_argument"), &json!("after")));
    rig.stop().await;
}

#[tokio::test]
async fn a_paused_attempt_makes_no_further_step_until_it_is_resumed() {
    let rig = Rig::start().await;
    rig.session().await;
    let script = json!([{ "say": "one" }, { "tool": "sleep", "args": { "ms": 200 } }, { "say": "two" }]);
    rig.scripted("task_a", script, json!({})).await;
    rig.until("sess_a", |event| event["type"] == "tool.started").await;
    rig.tell("pause_task", "task_a").await;
    rig.until("sess_a", |event| event["type"] == "tool.result").await;
    let rig = rig.crash().await;
    assert_eq!(rig.task("task_a").await["status"], "paused");
    assert!(!rig.served("sess_a").await.iter().any(|event| event["payload"]["text"] == "two"));
    let resumed = rig.tell("resume_task", "task_a").await;
    assert!(["running", "completed"].contains(&resumed["status"].as_str().unwrap()));
    rig.task_is("task_a", "completed").await;
    let events = rig.checked("sess_a").await;
    assert_eq!(events.iter().filter(|event| event["payload"]["text"] == "two").count(), 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_task_below_another_belongs_to_the_same_session() {
    let rig = Rig::start().await;
    rig.session().await;
    rig.call("create_session", json!({ "sessionId": "sess_b" })).await;
    rig.outside("task_root", json!({})).await;
    let wrong = rig
        .refused(
            "create_task",
            json!({ "sessionId": "sess_b", "parentTaskId": "task_root", "objective": "o" }),
        )
        .await;
    assert_eq!(
        (&wrong["code"], &wrong["details"]["field"]),
        (&json!("invalid_argument"), &json!("parentTaskId"))
    );
    let body = json!({ "taskId": "task_child", "parentTaskId": "task_root", "objective": "o" });
    let (one, two) =
        tokio::join!(rig.answer("create_task", body.clone()), rig.answer("create_task", body.clone()));
    assert_eq!((&one.result["taskId"], &two.result["taskId"]), (&json!("task_child"), &json!("task_child")));
    let mut other = body;
    other["objective"] = json!("p");
    assert_eq!(rig.refused("create_task", other).await["code"], "conflict");
    let listed = rig.call("list_tasks", json!({ "parentTaskId": "task_root" })).await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
    rig.tell("complete_task", "task_child").await;
    rig.tell("complete_task", "task_root").await;
    rig.task_is("task_root", "completed").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_paused_task_whose_attempt_runs_out_of_time_is_tried_again_when_it_is_resumed() {
    let rig = Rig::start().await;
    rig.session().await;
    let policy = json!({ "maxAttempts": 2, "backoffMs": 1, "maxBackoffMs": 1 });
    let script = json!([{ "sleep": 20 }, { "tool": "echo", "args": {} }]);
    rig.scripted("task_a", script, json!({ "timeoutMs": 300, "retryPolicy": policy })).await;
    rig.tell("pause_task", "task_a").await;
    rig.until("sess_a", |event| event["type"] == "task.attempt.failed").await;
    // Long enough for the pause between attempts, many times over.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let paused = rig.call("get_task", json!({ "taskId": "task_a" })).await["task"].clone();
    assert_eq!((&paused["status"], &paused["attemptsTotal"]), (&json!("paused"), &json!(1)), "{paused}");
    rig.tell("resume_task", "task_a").await;
    rig.task_is("task_a", "completed").await;
    let events = rig.checked("sess_a").await;
    assert_eq!(count(&events, "task.attempt.started"), 2);
    rig.stop().await;
}

#[tokio::test]
async fn a_task_says_that_it_waits_for_a_decision_and_for_which() {
    let rig = Rig::start().await;
    rig.session().await;
    let ask = |prompt: &str| json!({ "approve": { "prompt": prompt, "decisions": ["allow", "deny"] } });
    rig.scripted("task_a", json!([ask("one?"), { "sleep": 1 }, ask("two?")]), json!({})).await;
    for number in 1..=2 {
        let waiting = rig
            .eventually("it waits for the next decision", async || {
                let task = rig.call("get_task", json!({ "taskId": "task_a" })).await["task"].clone();
                let asked = count(&rig.served("sess_a").await, "action.required");
                (task["status"] == "waiting_input" && asked == number).then_some(task)
            })
            .await;
        let action = &waiting["actionId"];
        assert!(action.is_string(), "{waiting}");
        let listed =
            rig.call("list_tasks", json!({ "sessionId": "sess_a", "status": "waiting_input" })).await;
        assert_eq!(listed["tasks"][0]["taskId"], "task_a");
        let snapshot = rig.call("get_session", json!({ "sessionId": "sess_a" })).await;
        assert_eq!(snapshot["taskSummary"]["waiting"], 1, "{}", snapshot["taskSummary"]);
        // What was paused waits for the same when it is resumed.
        rig.tell("pause_task", "task_a").await;
        rig.tell("resume_task", "task_a").await;
        let again = rig.call("get_task", json!({ "taskId": "task_a" })).await["task"].clone();
        assert_eq!((&again["status"], &again["actionId"]), (&json!("waiting_input"), action));
        rig.call("respond_action", json!({ "actionId": action, "decision": "allow" })).await;
    }
    let over = rig.task_is("task_a", "completed").await;
    assert!(over["actionId"].is_null());
    rig.checked("sess_a").await;
    rig.stop().await;
}
