//! P3: the same key gives the same answer and no second effect; the same own id is the same thing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::BTreeSet;

use cadre::{
    control::{Error, Kind, registry, result::Answer},
    runtime::Caller,
};
use common::{PATIENCE, Rig, input};
use serde_json::{Value, json};

const FOREVER: u64 = 600_000;

/// An answer as callers see it, refusals included.
fn shown(answer: &Result<Answer, Error>) -> Value {
    match answer {
        Ok(answer) => {
            json!({ "result": answer.result, "cursor": answer.cursor.map(|cursor| cursor.to_string()) })
        }
        Err(error) => error.to_json(),
    }
}

fn sleeper() -> Value {
    input(&json!([{ "sleep": FOREVER }]))
}

impl Rig {
    /// The classes of a feed's events, once nothing more is said.
    async fn quiet(&self, session: &str) -> Vec<String> {
        let mut before = self.types(session).await;
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(400)).await;
            let now = self.types(session).await;
            if now == before {
                return now;
            }
            before = now;
        }
    }

    /// A world in which each command has something to do.
    async fn furnish(&self) -> Value {
        self.call("create_session", json!({ "sessionId": "sess_a", "agent": "scripted" })).await;
        let turn = |thread: &str, turn: &str, script: Value| json!({ "sessionId": "sess_a", "threadId": thread, "turnId": turn, "input": input(&script) });
        for (thread, queued) in [("thrd_1", vec!["turn_r", "turn_p", "turn_q"]), ("thrd_2", vec![])] {
            self.call("submit_turn", turn(thread, &format!("busy_{thread}"), json!([{ "sleep": FOREVER }])))
                .await;
            for id in queued {
                self.call("submit_turn", turn(thread, id, json!([]))).await;
            }
        }
        self.call("submit_turn", turn("thrd_3", "turn_failed", json!([{ "fail": { "retryable": false } }])))
            .await;
        self.turn_over("sess_a", "turn_failed").await;
        for id in ["turn_old", "turn_older", "turn_oldest"] {
            self.call("submit_turn", turn("thrd_6", id, json!([]))).await;
            self.turn_over("sess_a", id).await;
        }
        let ask = json!([{ "approve": { "prompt": "?", "decisions": ["allow", "deny"] } }]);
        for thread in ["thrd_4", "thrd_5"] {
            self.call("submit_turn", turn(thread, &format!("turn_{thread}"), ask.clone())).await;
        }
        for task in ["upd", "prog", "pause", "cancel", "complete", "fail"] {
            let args = json!({ "taskId": format!("task_{task}"), "sessionId": "sess_a", "objective": "o" });
            self.call("create_task", args).await;
        }
        for task in ["start", "from", "to"] {
            let args = json!({ "taskId": format!("task_{task}"), "sessionId": "sess_a", "objective": "o", "autoStart": false });
            self.call("create_task", args).await;
        }
        for task in ["resume", "retry"] {
            let args = json!({ "taskId": format!("task_{task}"), "sessionId": "sess_a", "objective": "o" });
            self.call("create_task", args).await;
        }
        self.call("pause_task", json!({ "taskId": "task_resume" })).await;
        self.call("cancel_task", json!({ "taskId": "task_retry" })).await;
        for subagent in ["input", "close", "resume"] {
            let args =
                json!({ "subagentId": format!("sub_{subagent}"), "sessionId": "sess_a", "input": sleeper() });
            self.call("spawn_subagent", args).await;
        }
        self.call("close_subagent", json!({ "subagentId": "sub_resume" })).await;
        let items =
            json!([{ "itemId": "item_1", "input": input(&json!([{ "fail": { "retryable": false } }])) }]);
        let job = json!({ "jobId": "job_retry", "sessionId": "sess_a", "instruction": "i", "items": items, "agent": "scripted" });
        self.call("create_job", job).await;
        self.until("sess_a", |event| event["type"] == "job.failed").await;
        let items = json!([{ "input": sleeper() }]);
        let job = json!({ "jobId": "job_cancel", "sessionId": "sess_a", "instruction": "i", "items": items, "agent": "scripted" });
        self.call("create_job", job).await;
        for trial in ["tria_r", "tria_b", "tria_c"] {
            let args = json!({ "trialId": trial, "datasetId": "d", "datasetVersion": "1", "taskId": "t", "configurationId": trial, "role": if trial == "tria_b" { "baseline" } else { "candidate" }, "sessionId": "sess_a" });
            self.call("start_benchmark_trial", args).await;
        }
        for trial in ["tria_b", "tria_c"] {
            self.call("record_benchmark_reward", json!({ "trialId": trial, "value": 1.0 })).await;
        }
        let asked = async |turn: &str| {
            let asked = self
                .until("sess_a", |event| event["type"] == "action.required" && event["turnId"] == turn)
                .await;
            asked["actionId"].clone()
        };
        json!({ "respond": asked("turn_thrd_4").await, "resolve": asked("turn_thrd_5").await })
    }
}

/// Each command that writes, in an order in which each has something to do, with another body for it.
fn commands(actions: &Value) -> Vec<(&'static str, Value, &'static str, Value)> {
    let queued = |turn: &str| json!({ "sessionId": "sess_a", "threadId": "thrd_1", "turnId": turn });
    let task = |task: &str| json!({ "taskId": task });
    let other = |name: &'static str| json!(format!("{name}_other"));
    let edge = json!({ "from": "task_from", "to": "task_to", "kind": "blocks" });
    let trial = json!({ "datasetId": "d", "datasetVersion": "1", "taskId": "t", "configurationId": "c", "role": "candidate" });
    vec![
        (
            "submit_turn",
            json!({ "sessionId": "sess_a", "input": sleeper(), "agent": "scripted" }),
            "metadata",
            json!({ "a": 1 }),
        ),
        ("remove_queued_turn", queued("turn_r"), "turnId", other("turn")),
        ("promote_queued_turn", queued("turn_q"), "turnId", other("turn")),
        ("interrupt_turn", json!({ "sessionId": "sess_a", "threadId": "thrd_2" }), "reason", json!("other")),
        ("resume_thread", json!({ "sessionId": "sess_a", "threadId": "thrd_3" }), "threadId", other("thrd")),
        (
            "rollback_thread",
            json!({ "sessionId": "sess_a", "threadId": "thrd_6", "turns": 1 }),
            "turns",
            json!(2),
        ),
        (
            "compact_context",
            json!({ "sessionId": "sess_a", "threadId": "thrd_6", "summary": "s" }),
            "summary",
            json!("t"),
        ),
        (
            "respond_action",
            json!({ "actionId": actions["respond"], "decision": "allow" }),
            "decision",
            json!("deny"),
        ),
        (
            "resolve_permission",
            json!({ "actionId": actions["resolve"], "decision": "allow" }),
            "decision",
            json!("deny"),
        ),
        ("create_session", json!({ "title": "t" }), "title", json!("u")),
        ("update_session", json!({ "sessionId": "sess_a", "title": "t" }), "title", json!("u")),
        ("create_task", json!({ "sessionId": "sess_a", "objective": "o" }), "objective", json!("p")),
        ("update_task", json!({ "taskId": "task_upd", "title": "t" }), "title", json!("u")),
        ("start_task", task("task_start"), "taskId", other("task")),
        ("append_task_progress", json!({ "taskId": "task_prog", "percent": 5.0 }), "percent", json!(6.0)),
        ("pause_task", task("task_pause"), "taskId", other("task")),
        ("resume_task", task("task_resume"), "taskId", other("task")),
        ("cancel_task", task("task_cancel"), "taskId", other("task")),
        ("retry_task", task("task_retry"), "taskId", other("task")),
        ("complete_task", task("task_complete"), "taskId", other("task")),
        (
            "fail_task",
            json!({ "taskId": "task_fail", "error": { "code": "c", "message": "m", "retryable": false } }),
            "taskId",
            other("task"),
        ),
        ("link_tasks", edge.clone(), "kind", json!("source")),
        ("unlink_tasks", edge, "kind", json!("source")),
        ("spawn_subagent", json!({ "sessionId": "sess_a", "input": sleeper() }), "role", json!("other")),
        (
            "send_subagent_input",
            json!({ "subagentId": "sub_input", "input": input(&json!("more")) }),
            "subagentId",
            other("sub"),
        ),
        ("close_subagent", json!({ "subagentId": "sub_close" }), "reason", json!("other")),
        ("resume_subagent", json!({ "subagentId": "sub_resume" }), "reason", json!("other")),
        (
            "create_job",
            json!({ "sessionId": "sess_a", "instruction": "i", "agent": "scripted", "items": [{ "input": sleeper() }] }),
            "instruction",
            json!("j"),
        ),
        ("retry_job_item", json!({ "jobId": "job_retry", "itemId": "item_1" }), "itemId", other("item")),
        ("cancel_job", json!({ "jobId": "job_cancel" }), "reason", json!("other")),
        ("evaluate_permission", json!({ "sessionId": "sess_a", "tool": "echo" }), "tool", json!("big")),
        ("write_process_stdin", json!({ "processId": "proc_1", "input": "x" }), "input", json!("y")),
        ("terminate_process", json!({ "processId": "proc_1" }), "processId", other("proc")),
        ("export_evidence", json!({ "sessionId": "sess_a" }), "taskId", json!("task_upd")),
        ("export_replay", json!({ "sessionId": "sess_a" }), "taskId", json!("task_upd")),
        ("export_review", json!({ "sessionId": "sess_a" }), "taskId", json!("task_upd")),
        ("start_benchmark_trial", trial, "role", json!("baseline")),
        ("record_benchmark_reward", json!({ "trialId": "tria_r", "value": 0.5 }), "value", json!(0.6)),
        ("export_benchmark_trial", json!({ "trialId": "tria_c" }), "trialId", json!("tria_b")),
        (
            "compare_benchmark_runs",
            json!({ "baseline": ["tria_b"], "candidate": ["tria_c"] }),
            "candidate",
            json!(["tria_r"]),
        ),
        (
            "reconnect_channel",
            json!({ "channelId": "chan_1", "resumeToken": "x" }),
            "channelId",
            other("chan"),
        ),
        (
            "ack_events",
            json!({ "channelId": "chan_1", "sessionId": "sess_a", "cursor": "00000001000000000000002a00000000" }),
            "channelId",
            other("chan"),
        ),
        ("archive_session", json!({ "sessionId": "sess_a" }), "sessionId", other("sess")),
    ]
}

#[tokio::test]
async fn p3_every_command_under_a_key_is_answered_the_same_and_happens_once_also_after_a_crash() {
    let rig = Rig::start().await;
    let actions = rig.furnish().await;
    let commands = commands(&actions);
    let covered: BTreeSet<&str> = commands.iter().map(|(name, ..)| *name).collect();
    let writing: BTreeSet<&str> = registry()
        .commands()
        .filter(|command| command.kind == Kind::Write)
        .map(|command| command.name)
        .collect();
    assert_eq!(covered, writing);
    let refused = ["write_process_stdin", "terminate_process", "reconnect_channel", "ack_events"];
    let mut answers = Vec::new();
    for (name, args, field, other) in &commands {
        let key = format!("key-of-{name}");
        let first = rig.keyed(&key, name, args.clone()).await;
        assert_eq!(first.is_ok(), !refused.contains(name), "{name}: {}", shown(&first));
        let again = rig.keyed(&key, name, args.clone()).await;
        assert_eq!(shown(&again), shown(&first), "{name}");
        let mut changed = args.clone();
        changed[*field] = other.clone();
        let conflict = rig.keyed(&key, name, changed).await.unwrap_err().to_json()["error"].clone();
        assert_eq!(
            (&conflict["code"], &conflict["details"]["status"]),
            (&json!("conflict"), &json!("key_reused")),
            "{name}"
        );
        answers.push((*name, key, args.clone(), shown(&first)));
    }
    // Much has changed since each of them, and the session is archived.
    let before = rig.call("list_subagents", json!({ "sessionId": "sess_a", "limit": 1000 })).await;
    let rig = rig.crash().await;
    let facts = rig.quiet("sess_a").await;
    for (name, key, args, first) in &answers {
        let again = rig.keyed(key, name, args.clone()).await;
        assert_eq!(shown(&again), *first, "{name}, after a crash");
    }
    let later = rig.quiet("sess_a").await;
    assert_eq!(later[facts.len()..], [""; 0], "a second effect");
    let after = rig.call("list_subagents", json!({ "sessionId": "sess_a", "limit": 1000 })).await;
    assert_eq!(after["subagents"].as_array().unwrap().len(), before["subagents"].as_array().unwrap().len());
    let sessions = rig.call("list_sessions", json!({})).await;
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 3, "{sessions:#}");
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn p3_an_answer_stays_what_it_was_whatever_has_become_of_it_since() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a", "agent": "scripted" })).await;
    rig.call("create_task", json!({ "taskId": "task_a", "sessionId": "sess_a", "objective": "o" })).await;
    rig.call("spawn_subagent", json!({ "subagentId": "sub_a", "sessionId": "sess_a", "input": sleeper() }))
        .await;
    let cancel = rig.keyed("key-cancel-1", "cancel_task", json!({ "taskId": "task_a" })).await;
    let close = rig.keyed("key-close-12", "close_subagent", json!({ "subagentId": "sub_a" })).await;
    let made = rig.keyed("key-session1", "create_session", json!({ "sessionId": "sess_b" })).await;
    rig.call("retry_task", json!({ "taskId": "task_a" })).await;
    rig.call("resume_subagent", json!({ "subagentId": "sub_a" })).await;
    rig.call("archive_session", json!({ "sessionId": "sess_b" })).await;
    let again = rig.keyed("key-cancel-1", "cancel_task", json!({ "taskId": "task_a" })).await;
    assert_eq!(shown(&again), shown(&cancel));
    let again = rig.keyed("key-close-12", "close_subagent", json!({ "subagentId": "sub_a" })).await;
    assert_eq!(shown(&again), shown(&close));
    let again = rig.keyed("key-session1", "create_session", json!({ "sessionId": "sess_b" })).await;
    assert_eq!(shown(&again), shown(&made));
    assert_eq!(rig.task_is("task_a", "running").await["status"], "running", "the retry stands");
    rig.subagent_is("sess_a", "sub_a", "running").await;
    rig.stop().await;
}

#[tokio::test]
async fn p3_many_at_once_under_one_key_are_one() {
    let rig = Rig::start().await;
    for (name, args) in [
        ("submit_turn", json!({ "agent": "scripted", "input": input(&json!([{ "say": "x" }])) })),
        ("create_task", json!({ "objective": "o" })),
        ("create_session", json!({ "title": "t" })),
        (
            "create_job",
            json!({ "instruction": "i", "agent": "scripted", "items": [{ "input": input(&json!([])) }] }),
        ),
    ] {
        let key = format!("key-at-once-{name}");
        let before = rig.call("list_sessions", json!({})).await["sessions"].as_array().unwrap().len();
        let calls = (0..16).map(|_| rig.keyed(&key, name, args.clone()));
        let answers = futures_join(calls).await;
        for answer in &answers {
            assert_eq!(shown(answer), shown(&answers[0]), "{name}");
        }
        let after = rig.call("list_sessions", json!({})).await["sessions"].as_array().unwrap().len();
        assert_eq!(after, before + 1, "{name}: one session was made");
    }
    rig.stop().await;
}

async fn futures_join<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut open: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut waits = false;
        for (future, output) in &mut open {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(done) => *output = Some(done),
                    std::task::Poll::Pending => waits = true,
                }
            }
        }
        if waits { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    open.into_iter().map(|(_, output)| output.unwrap()).collect()
}

#[tokio::test]
async fn an_own_id_with_the_same_body_is_the_same_thing_and_with_another_a_conflict() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_0", "agent": "scripted" })).await;
    let script = input(&json!([{ "sleep": FOREVER }]));
    let cases = [
        ("create_session", "sessionId", json!({ "sessionId": "sess_1", "title": "t" }), "title"),
        (
            "submit_turn",
            "turnId",
            json!({ "sessionId": "sess_0", "turnId": "turn_1", "input": script, "options": { "model": "m" } }),
            "agent",
        ),
        (
            "create_task",
            "taskId",
            json!({ "sessionId": "sess_0", "taskId": "task_1", "objective": "o" }),
            "objective",
        ),
        (
            "spawn_subagent",
            "subagentId",
            json!({ "sessionId": "sess_0", "subagentId": "sub_1", "input": script }),
            "role",
        ),
        (
            "create_job",
            "jobId",
            json!({ "sessionId": "sess_0", "jobId": "job_1", "instruction": "i", "items": [{ "input": script }] }),
            "instruction",
        ),
        (
            "start_benchmark_trial",
            "trialId",
            json!({ "trialId": "tria_1", "sessionId": "sess_0", "datasetId": "d", "datasetVersion": "1", "taskId": "t", "configurationId": "c", "role": "candidate" }),
            "configurationId",
        ),
    ];
    let mut answers = Vec::new();
    for (name, id, args, field) in &cases {
        let first = rig.call(name, args.clone()).await;
        assert_eq!(first[*id], args[*id], "{name}");
        let again = rig.call(name, args.clone()).await;
        assert_eq!(again[*id], first[*id], "{name}");
        let mut other = args.clone();
        other[*field] = json!("scripted");
        let refused = rig.refused(name, other).await;
        assert_eq!(refused["code"], "conflict", "{name}: {refused}");
        answers.push(first);
    }
    let rig = rig.crash().await;
    rig.call("archive_session", json!({ "sessionId": "sess_0" })).await;
    for ((name, id, args, _), first) in cases.iter().zip(&answers) {
        let again = rig.call(name, args.clone()).await;
        assert_eq!(again[*id], first[*id], "{name}, after a crash and in an archive");
    }
    assert_eq!(rig.subagents(json!({ "sessionId": "sess_0" })).await.len(), 1);
    rig.checked("sess_0").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_key_has_bounds_and_belongs_to_one_tenant_and_to_commands_that_write() {
    let rig = Rig::start().await;
    for bad in ["", "1234567", &"k".repeat(129), "12345678\n"] {
        let refused =
            rig.keyed(bad, "create_session", json!({})).await.unwrap_err().to_json()["error"].clone();
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!("invalid_argument"), &json!("Idempotency-Key")),
            "{bad:?}"
        );
    }
    let key = "k".repeat(128);
    let mine = rig.keyed(&key, "create_session", json!({ "title": "mine" })).await.unwrap();
    let caller = Caller::within("other", "other");
    let theirs =
        rig.runtime.call(&caller, "create_session", json!({ "title": "theirs" }), Some(&key), PATIENCE).await;
    assert_ne!(
        theirs.unwrap().result["sessionId"],
        mine.result["sessionId"],
        "P8: a key is the tenant's own"
    );
    // A read is what it is now, under whatever key.
    let one = rig.keyed("key-of-reads", "list_sessions", json!({})).await.unwrap().result;
    assert_eq!(one["sessions"].as_array().unwrap().len(), 1);
    rig.call("create_session", json!({})).await;
    let two = rig.keyed("key-of-reads", "list_sessions", json!({})).await.unwrap().result;
    assert_eq!(two["sessions"].as_array().unwrap().len(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn p3_a_refusal_under_a_key_is_given_again_too() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    rig.call("create_task", json!({ "taskId": "task_a", "sessionId": "sess_a", "objective": "o" })).await;
    let first = rig.keyed("key-refused", "retry_task", json!({ "taskId": "task_a" })).await;
    assert_eq!(shown(&first)["error"]["details"]["status"], "running");
    rig.call("cancel_task", json!({ "taskId": "task_a" })).await;
    let rig = rig.crash().await;
    let again = rig.keyed("key-refused", "retry_task", json!({ "taskId": "task_a" })).await;
    assert_eq!(shown(&again), shown(&first));
    assert_eq!(rig.task_is("task_a", "cancelled").await["status"], "cancelled");
    rig.stop().await;
}
