//! What must not work: unknown ids, ids of somebody else, what is too large, what is no place in a list, what comes in the
//! wrong state, and new work for what is archived. Every command of the registry is named here.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use cadre::{
    control::{Error, registry, result::Answer},
    fact::id::SessionId,
    runtime::{Caller, EventFilter},
};
use common::{Rig, count, input};
use serde_json::{Value, json};

const FOREVER: u64 = 600_000;

fn sleeper() -> Value {
    input(&json!([{ "sleep": FOREVER }]))
}

/// The ids that a command is about.
type Ids = BTreeMap<&'static str, String>;

/// Ids of which there is nothing. As long as those that there are, so that messages can be compared.
fn unknown(known: &Ids) -> Ids {
    known.iter().map(|(what, id)| (*what, format!("{}zz", &id[..id.len() - 2]))).collect()
}

impl Rig {
    /// One of everything, in a session of its own.
    async fn everything(&self) -> Ids {
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
fn about(ids: &Ids) -> Vec<(&'static str, Value)> {
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
async fn what_is_damaged_is_not_advised_to_be_tried_again() {
    let rig = Rig::start().await;
    rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
    rig.call("create_task", json!({ "taskId": "task_1", "sessionId": "sess_a", "objective": "o" })).await;
    let address = cadre_cluster::address::Address::new("local", "task", "task_1").unwrap();
    let mut tx = rig.store().begin();
    tx.set(cadre_cluster::keys::state(&address), &b"\x01no state"[..]);
    tx.commit().await.unwrap();
    let mut incidents = BTreeSet::new();
    for _ in 0..2 {
        let refused = rig.refused("get_task", json!({ "taskId": "task_1" })).await;
        assert_eq!((&refused["code"], &refused["retryable"]), (&json!("internal"), &json!(false)));
        incidents.insert(refused["details"]["incidentId"].as_str().unwrap().to_owned());
    }
    assert_eq!(incidents.len(), 2, "each has its own in the log");
    rig.stop().await;
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
    let other = Caller { tenant: "other".into(), name: "other".into() };
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
async fn an_archived_session_refuses_all_new_work_and_lets_what_runs_be_controlled_and_read() {
    let rig = Rig::start().await;
    let ids = rig.everything().await;
    rig.call(
        "create_task",
        json!({ "taskId": "task_later", "sessionId": "sess_mine", "objective": "o", "autoStart": false }),
    )
    .await;
    rig.call("create_task", json!({ "taskId": "task_over", "sessionId": "sess_mine", "objective": "o" }))
        .await;
    rig.call("cancel_task", json!({ "taskId": "task_over" })).await;
    rig.call(
        "spawn_subagent",
        json!({ "subagentId": "sub_over", "sessionId": "sess_mine", "input": sleeper() }),
    )
    .await;
    rig.call("close_subagent", json!({ "subagentId": "sub_over" })).await;
    rig.call("archive_session", json!({ "sessionId": "sess_mine" })).await;
    let refused: BTreeSet<&str> = [
        "submit_turn",
        "resume_thread",
        "update_session",
        "rollback_thread",
        "compact_context",
        "create_task",
        "start_task",
        "retry_task",
        "spawn_subagent",
        "send_subagent_input",
        "resume_subagent",
        "create_job",
        "retry_job_item",
        "start_benchmark_trial",
    ]
    .into();
    let mut commands = about(&ids);
    commands.insert(0, ("submit_turn", json!({ "sessionId": "sess_mine", "input": sleeper() })));
    for (name, args) in &mut commands {
        match *name {
            "start_task" => args["taskId"] = json!("task_later"),
            "retry_task" => args["taskId"] = json!("task_over"),
            "resume_subagent" => args["subagentId"] = json!("sub_over"),
            "create_task" if args.get("dependsOn").is_some() => args["sessionId"] = json!("sess_mine"),
            _ => {}
        }
    }
    for (name, args) in commands.iter().filter(|(name, _)| refused.contains(name)) {
        let error = rig.refused(name, args.clone()).await;
        assert_eq!(
            (&error["code"], &error["details"]["status"]),
            (&json!("conflict"), &json!("archived")),
            "{name} {args}: {error}"
        );
    }
    // The rest is taken, or refused for another reason than that.
    let (ends, others): (Vec<_>, Vec<_>) =
        commands.iter().filter(|(name, _)| !refused.contains(name)).partition(|(name, _)| {
            ["cancel_task", "close_subagent", "cancel_job", "interrupt_turn", "complete_task", "fail_task"]
                .contains(name)
        });
    for (name, args) in others.into_iter().chain(ends) {
        if let Err(error) = rig.try_call(name, args.clone()).await {
            let error = error.to_json()["error"].clone();
            assert_ne!(error["details"]["status"], "archived", "{name}: {error}");
            assert!(["conflict", "not_found"].contains(&error["code"].as_str().unwrap()), "{name}: {error}");
        }
    }
    assert_eq!(rig.call("get_session", json!({ "sessionId": "sess_mine" })).await["status"], "archived");
    rig.checked("sess_mine").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_decision_is_taken_once_in_time_and_among_what_was_offered() {
    let rig = Rig::start().await;
    let ask = |more: Value| {
        let mut approve = json!({ "prompt": "?", "decisions": ["allow", "deny"] });
        approve.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([{ "approve": approve }])
    };
    let asked = async |session: &str, more: Value| {
        let submitted = rig.submit(session, ask(more)).await;
        let asked = rig.until(session, |event| event["type"] == "action.required").await;
        (asked["actionId"].clone(), submitted["turnId"].clone())
    };
    let (action, turn) = asked("sess_resolved", json!({})).await;
    for wrong in ["yes", "ALLOW", "expired", "cancelled"] {
        let refused = rig.refused("respond_action", json!({ "actionId": action, "decision": wrong })).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["field"]),
            (&json!("invalid_argument"), &json!("decision"))
        );
    }
    assert_eq!(
        count(&rig.served("sess_resolved").await, "action.resolved"),
        0,
        "P10: a wrong answer decides nothing"
    );
    let allow = json!({ "actionId": action, "decision": "allow" });
    // Two answers at the same moment: one of them counts.
    let (one, two) = tokio::join!(
        rig.try_call("respond_action", allow.clone()),
        rig.try_call("respond_action", json!({ "actionId": action, "decision": "deny" }))
    );
    assert_eq!(usize::from(one.is_ok()) + usize::from(two.is_ok()), 1);
    rig.turn_over("sess_resolved", turn.as_str().unwrap()).await;
    assert_eq!(count(&rig.checked("sess_resolved").await, "action.resolved"), 1);
    let (expired, turn) = asked("sess_expired", json!({ "expiresMs": 80 })).await;
    rig.turn_over("sess_expired", turn.as_str().unwrap()).await;
    let (cancelled, _) = asked("sess_cancelled", json!({})).await;
    rig.call("interrupt_turn", json!({ "sessionId": "sess_cancelled" })).await;
    let rig = rig.crash().await;
    for (action, status) in [(action, "resolved"), (expired, "expired"), (cancelled, "cancelled")] {
        for command in ["respond_action", "resolve_permission"] {
            let late = rig.refused(command, json!({ "actionId": action, "decision": "allow" })).await;
            assert_eq!(
                (&late["code"], &late["details"]["status"]),
                (&json!("conflict"), &json!(status)),
                "{command}: {late}"
            );
        }
    }
    for session in ["sess_expired", "sess_cancelled"] {
        let events = rig.checked(session).await;
        assert_eq!((count(&events, "action.resolved"), count(&events, "model.delta")), (1, 0), "{session}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn what_is_in_the_wrong_state_says_which_state_that_is() {
    let rig = Rig::start().await;
    rig.everything().await;
    let done = rig.run("sess_mine_too", json!([{ "say": "x" }])).await;
    let of = |turn: &str| json!({ "sessionId": "sess_mine", "threadId": "thrd_mine", "turnId": turn });
    let busy = json!({ "sessionId": "sess_mine", "threadId": "thrd_mine", "input": sleeper(), "options": { "whenBusy": "reject" } });
    let spawn = json!({ "sessionId": "sess_mine_too", "turnId": done["turnId"], "input": sleeper() });
    let waiting = json!({ "sessionId": "sess_mine", "turnId": "turn_queued", "input": sleeper() });
    for (name, args, status) in [
        ("submit_turn", busy, "running"),
        ("promote_queued_turn", of("turn_asking"), "running"),
        ("remove_queued_turn", of("turn_asking"), "running"),
        ("spawn_subagent", spawn, "completed"),
        ("spawn_subagent", waiting, "queued"),
        (
            "rollback_thread",
            json!({ "sessionId": "sess_mine", "threadId": "thrd_mine", "turns": 1 }),
            "blocked",
        ),
        (
            "compact_context",
            json!({ "sessionId": "sess_mine", "threadId": "thrd_mine", "summary": "s" }),
            "blocked",
        ),
        ("resume_subagent", json!({ "subagentId": "sub_mine" }), "running"),
        ("retry_job_item", json!({ "jobId": "job_mine", "itemId": "item_mine" }), "running"),
        ("start_task", json!({ "taskId": "task_mine" }), "running"),
        ("resume_task", json!({ "taskId": "task_mine" }), "running"),
        ("retry_task", json!({ "taskId": "task_mine" }), "running"),
    ] {
        let refused = rig.refused(name, args).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["status"]),
            (&json!("conflict"), &json!(status)),
            "{name}: {refused}"
        );
        assert!(!refused["message"].as_str().unwrap().is_empty());
    }
    rig.call("close_subagent", json!({ "subagentId": "sub_mine" })).await;
    rig.call("cancel_job", json!({ "jobId": "job_mine" })).await;
    let told = json!({ "subagentId": "sub_mine", "input": sleeper() });
    let refused = rig.refused("send_subagent_input", told).await;
    assert_eq!(refused["details"]["status"], "cancelled");
    for (name, args, status) in [
        ("close_subagent", json!({ "subagentId": "sub_mine" }), "cancelled"),
        ("cancel_job", json!({ "jobId": "job_mine" }), "cancelled"),
        ("interrupt_turn", json!({ "sessionId": "sess_mine_too", "turnId": done["turnId"] }), "completed"),
        ("archive_session", json!({ "sessionId": "sess_mine_too" }), "archived"),
        ("archive_session", json!({ "sessionId": "sess_mine_too" }), "archived"),
    ] {
        assert_eq!(rig.call(name, args).await["status"], status, "{name}: what is over stays what it is");
    }
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

#[tokio::test]
async fn what_is_no_place_in_a_list_is_refused_by_its_field_and_any_place_is_safe() {
    let rig = Rig::start().await;
    let ids = rig.everything().await;
    let lists = [
        ("list_sessions", json!({}), "after"),
        ("list_tasks", json!({}), "after"),
        ("list_tasks", json!({ "sessionId": "sess_mine" }), "after"),
        ("list_tasks", json!({ "parentTaskId": ids["task"] }), "after"),
        ("list_subagents", json!({ "sessionId": "sess_mine" }), "after"),
        ("list_jobs", json!({}), "after"),
        ("get_job", json!({ "jobId": ids["job"] }), "itemsAfter"),
        ("get_session", json!({ "sessionId": "sess_mine" }), "before"),
    ];
    for (name, args, field) in &lists {
        for bad in ["", " ", "zz", "!", "a/b", "abc", "-1", "é", "0x10", "1..2", &"0".repeat(3_000)] {
            let mut args = args.clone();
            args[*field] = json!(bad);
            let refused = match rig.try_call(name, args).await {
                Err(error) => error.to_json()["error"].clone(),
                Ok(answer) => panic!("{name} took {bad:?}: {}", answer.result),
            };
            assert_eq!(
                (&refused["code"], &refused["details"]["field"]),
                (&json!("invalid_argument"), &json!(field)),
                "{name} {bad:?}: {refused}"
            );
        }
        for (bad, good) in [
            (json!(0), json!(1)),
            (json!(-3), json!(1_000)),
            (json!("5"), json!(u64::MAX)),
            (json!(0.5), json!(7)),
        ] {
            let mut args = args.clone();
            args["limit"] = bad;
            assert_eq!(rig.refused(name, args.clone()).await["details"]["field"], "limit", "{name}");
            args["limit"] = good;
            rig.call(name, args).await;
        }
    }
    // A place of another list, or one that nobody has given, is a place or is refused; it is never a crash.
    for (name, args, field) in &lists {
        for strange in [
            "00",
            "ff",
            "ffffffffffffffff",
            "02",
            "3",
            "0.0.0",
            "99999999999999999999",
            "sub_mine",
            "sub_mine!",
        ] {
            let mut args = args.clone();
            args[*field] = json!(strange);
            if let Err(error) = rig.try_call(name, args).await {
                assert_eq!(error.to_json()["error"]["details"]["field"], **field, "{name} {strange}");
            }
        }
    }
    rig.stop().await;
}

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
        match rig.try_call(command, args).await {
            Ok(_) => {}
            Err(error) => {
                let error = error.to_json()["error"].clone();
                assert!(
                    ["payload_too_large", "invalid_argument"].contains(&error["code"].as_str().unwrap()),
                    "{command}: {error}"
                );
            }
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

#[tokio::test]
async fn an_old_session_is_loaded_by_window_and_cursor_and_every_turn_comes_once() {
    let rig = Rig::start().await;
    let mut submitted = Vec::new();
    for at in 0..23 {
        let args = json!({ "sessionId": "sess_a", "turnId": format!("turn_{at:02}"), "agent": "scripted", "input": input(&json!([{ "say": format!("{at}") }])) });
        rig.call("submit_turn", args).await;
        submitted.push(format!("turn_{at:02}"));
    }
    rig.turn_over("sess_a", "turn_22").await;
    let rig = rig.crash().await;
    let (mut seen, mut before, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let mut args = json!({ "sessionId": "sess_a", "limit": 5 });
        if before.is_string() {
            args["before"] = before.clone();
        }
        let snapshot = rig.call("get_session", args).await;
        let text = snapshot.to_string();
        let mut page: Vec<String> =
            submitted.iter().filter(|turn| text.contains(&format!("\"{turn}\""))).cloned().collect();
        page.retain(|turn| !seen.contains(turn));
        pages += 1;
        seen.extend(page);
        before = snapshot["history"]["before"].clone();
        if snapshot["history"]["hasMore"] != true {
            break;
        }
        assert!(pages < 20, "it has no end: {snapshot:#}");
        assert!(before.is_string(), "{snapshot:#}");
    }
    seen.sort();
    assert_eq!(seen, submitted);
    assert!(pages >= 4, "{pages} pages of five");
    rig.stop().await;
}
