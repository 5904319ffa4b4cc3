//! Tasks: the whole model of statuses, attempts, dependencies, children.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attempts;
#[path = "../common/mod.rs"]
mod common;
mod dependencies;
mod parts;

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
            "artifact.changed",
            "task.completed"
        ]
    );
    let delivered = events.iter().find(|event| event["type"] == "artifact.changed").unwrap();
    assert_eq!((&delivered["artifactId"], &delivered["status"]), (&json!("artf_1"), &json!("delivered")));
    let task = rig.task("task_a").await;
    assert_eq!(task["artifacts"][0]["artifact"]["artifactId"], "artf_1", "{task:#}");
    assert_eq!(task["artifactsTotal"], 1);
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_a" })).await;
    let summary = &snapshot["artifactSummary"];
    assert_eq!((&summary["changes"], &summary["recent"][0]["taskId"]), (&json!(1), &json!("task_a")));
    assert_eq!(summary["recent"][0]["artifactRef"], "artf_1");
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
