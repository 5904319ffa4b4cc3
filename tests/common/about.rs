//! One of everything, and every command about it.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::common::{Rig, input};

const FOREVER: u64 = 600_000;

pub fn sleeper() -> Value {
    input(&json!([{ "sleep": FOREVER }]))
}

/// The ids that a command is about.
pub type Ids = BTreeMap<&'static str, String>;

/// Ids of which there is nothing. As long as those that there are, so that messages can be compared.
pub fn unknown(known: &Ids) -> Ids {
    known.iter().map(|(what, id)| (*what, format!("{}zz", &id[..id.len() - 2]))).collect()
}

impl Rig {
    /// One of everything, in a session of its own.
    pub async fn everything(&self) -> Ids {
        self.call("create_session", json!({ "sessionId": "sess_mine", "agent": "scripted" })).await;
        let ask = json!([{ "approve": { "prompt": "?", "decisions": ["allow", "deny"] } }]);
        let turn = |id: &str, script: &Value| json!({ "sessionId": "sess_mine", "threadId": "thrd_mine", "turnId": id, "input": input(script) });
        self.call("submit_turn", turn("turn_asking", &ask)).await;
        let asked = self.until("sess_mine", |event| event["type"] == "action.required").await;
        self.call("submit_turn", turn("turn_queued", &json!([]))).await;
        for task in ["task_mine", "task_next"] {
            self.call("create_task", json!({ "taskId": task, "sessionId": "sess_mine", "objective": "o" }))
                .await;
        }
        self.call(
            "spawn_subagent",
            json!({ "subagentId": "sub_mine", "sessionId": "sess_mine", "input": sleeper() }),
        )
        .await;
        let items = json!([{ "itemId": "item_mine", "input": sleeper() }]);
        let job = json!({ "jobId": "job_mine", "sessionId": "sess_mine", "instruction": "i", "agent": "scripted", "items": items });
        self.call("create_job", job).await;
        self.until("sess_mine", |event| event["type"] == "job.item.started").await;
        for trial in ["tria_mine", "tria_next"] {
            let args = json!({ "trialId": trial, "sessionId": "sess_mine", "datasetId": "d", "datasetVersion": "1", "taskId": "t", "configurationId": "c", "role": "candidate" });
            self.call("start_benchmark_trial", args).await;
        }
        [
            ("session", "sess_mine"),
            ("thread", "thrd_mine"),
            ("turn", "turn_asking"),
            ("queued", "turn_queued"),
            ("task", "task_mine"),
            ("next", "task_next"),
            ("subagent", "sub_mine"),
            ("job", "job_mine"),
            ("item", "item_mine"),
            ("trial", "tria_mine"),
            ("other", "tria_next"),
            ("action", asked["actionId"].as_str().unwrap()),
        ]
        .map(|(what, id)| (what, id.to_owned()))
        .into()
    }
}

/// Every command, with the ids of what it is about. Those that only make something are about what they are part of.
pub fn about(ids: &Ids) -> Vec<(&'static str, Value)> {
    let id = |what: &str| json!(ids[what]);
    let (session, thread, turn, task) = (id("session"), id("thread"), id("turn"), id("task"));
    let queued = json!({ "sessionId": session, "threadId": thread, "turnId": id("queued") });
    let of_task = json!({ "taskId": task });
    let edge = json!({ "from": task, "to": id("next"), "kind": "blocks" });
    let scope = json!({ "sessionId": session, "turnId": turn });
    let trial = json!({ "datasetId": "d", "datasetVersion": "1", "taskId": "t", "configurationId": "c", "role": "candidate", "sessionId": session });
    vec![
        ("interrupt_turn", json!({ "sessionId": session, "turnId": turn })),
        ("resume_thread", json!({ "sessionId": session, "threadId": thread })),
        ("remove_queued_turn", queued.clone()),
        ("promote_queued_turn", queued),
        ("respond_action", json!({ "actionId": id("action"), "decision": "allow" })),
        ("update_session", json!({ "sessionId": session, "title": "t" })),
        ("archive_session", json!({ "sessionId": session })),
        ("rollback_thread", json!({ "sessionId": session, "threadId": thread, "turns": 1 })),
        ("compact_context", json!({ "sessionId": session, "threadId": thread, "summary": "s" })),
        ("get_session", json!({ "sessionId": session })),
        ("get_thread_read", json!({ "sessionId": session, "threadId": thread })),
        ("get_tool_inventory", json!({ "sessionId": session })),
        ("get_execution_environment", json!({ "sessionId": session })),
        ("create_task", json!({ "sessionId": session, "objective": "o" })),
        ("create_task", json!({ "parentTaskId": task, "objective": "o" })),
        ("create_task", json!({ "dependsOn": [task], "objective": "o" })),
        ("update_task", json!({ "taskId": task, "title": "t" })),
        ("start_task", of_task.clone()),
        ("append_task_progress", json!({ "taskId": task, "percent": 1.0 })),
        ("pause_task", of_task.clone()),
        ("resume_task", of_task.clone()),
        ("cancel_task", of_task.clone()),
        ("retry_task", of_task.clone()),
        ("complete_task", of_task.clone()),
        (
            "fail_task",
            json!({ "taskId": task, "error": { "code": "c", "message": "m", "retryable": false } }),
        ),
        ("get_task", of_task),
        ("list_tasks", json!({ "sessionId": session })),
        ("list_tasks", json!({ "parentTaskId": task })),
        ("link_tasks", edge.clone()),
        ("unlink_tasks", edge),
        ("spawn_subagent", json!({ "sessionId": session, "input": sleeper() })),
        ("send_subagent_input", json!({ "subagentId": id("subagent"), "input": sleeper() })),
        ("wait_subagents", json!({ "subagentIds": [id("subagent")], "mode": "all", "timeoutMs": 1 })),
        ("wait_subagents", json!({ "parentId": session, "mode": "all", "timeoutMs": 1 })),
        ("wait_subagents", json!({ "parentId": turn, "mode": "all", "timeoutMs": 1 })),
        ("resume_subagent", json!({ "subagentId": id("subagent") })),
        ("close_subagent", json!({ "subagentId": id("subagent") })),
        ("list_subagents", json!({ "sessionId": session })),
        (
            "create_job",
            json!({ "sessionId": session, "instruction": "i", "items": [{ "input": sleeper() }] }),
        ),
        ("create_job", json!({ "taskId": task, "instruction": "i", "items": [{ "input": sleeper() }] })),
        ("list_jobs", json!({ "sessionId": session })),
        ("get_job", json!({ "jobId": id("job") })),
        ("retry_job_item", json!({ "jobId": id("job"), "itemId": id("item") })),
        ("cancel_job", json!({ "jobId": id("job") })),
        ("evaluate_permission", json!({ "sessionId": session, "tool": "echo" })),
        ("resolve_permission", json!({ "actionId": id("action"), "decision": "allow" })),
        ("write_process_stdin", json!({ "processId": "proc_mine", "input": "x" })),
        ("terminate_process", json!({ "processId": "proc_mine" })),
        ("export_evidence", scope.clone()),
        ("export_replay", scope.clone()),
        ("export_review", scope),
        ("start_benchmark_trial", trial),
        ("record_benchmark_reward", json!({ "trialId": id("trial"), "value": 1.0 })),
        ("export_benchmark_trial", json!({ "trialId": id("trial") })),
        ("compare_benchmark_runs", json!({ "baseline": [id("trial")], "candidate": [id("other")] })),
        ("reconnect_channel", json!({ "channelId": "chan_mine", "resumeToken": "x" })),
        (
            "ack_events",
            json!({ "channelId": "chan_mine", "sessionId": session, "cursor": "00000001000000000000002a00000000" }),
        ),
    ]
}
