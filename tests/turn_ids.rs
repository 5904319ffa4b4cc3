//! What turns and threads are called: a name is taken once, whoever took it, and nobody can say it before.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Rig, input};
use serde_json::{Value, json};

const FOREVER: u64 = 600_000;

fn named(session: &str, turn: &str, script: &Value, options: Value) -> Value {
    json!({ "sessionId": session, "turnId": turn, "agent": "scripted", "input": input(script), "options": options })
}

/// Where a run of somebody below the session goes on: its thread and its turn.
struct Place {
    thread: String,
    turn: String,
}

impl Place {
    fn of(event: &Value) -> Self {
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        Self { thread: text("threadId"), turn: text("turnId") }
    }
}

impl Rig {
    /// A session in which a subagent, an attempt of a task and an item of a job sleep.
    async fn sleepers(&self, session: &str) -> Vec<Place> {
        let script = json!([{ "sleep": FOREVER }]);
        self.call("create_session", json!({ "sessionId": session })).await;
        let spawn = json!({ "sessionId": session, "subagentId": format!("{session}_child"), "agent": "scripted", "input": input(&script) });
        let spawned = self.call("spawn_subagent", spawn).await;
        let task = json!({ "sessionId": session, "taskId": format!("{session}_task"), "objective": "o", "agent": "scripted", "input": input(&script) });
        self.call("create_task", task).await;
        let job = json!({ "sessionId": session, "jobId": format!("{session}_job"), "agent": "scripted", "instruction": "i",
            "items": [{ "itemId": "item_a", "input": input(&script) }] });
        self.call("create_job", job).await;
        let began = |whose: &'static str| {
            self.until(session, move |event| event["type"] == "turn.started" && event[whose].is_string())
        };
        let places = vec![
            Place::of(&spawned),
            Place::of(&began("taskId").await),
            Place::of(&began("jobItemId").await),
        ];
        assert_eq!(
            places.iter().map(|place| &place.turn).collect::<std::collections::BTreeSet<_>>().len(),
            3
        );
        places
    }
}

#[tokio::test]
async fn p11_a_turn_is_not_called_like_one_of_a_subagent_a_task_or_an_item() {
    let rig = Rig::start().await;
    let places = rig.sleepers("sess_a").await;
    for place in &places {
        let taken = rig.refused("submit_turn", named("sess_a", &place.turn, &json!([]), json!({}))).await;
        assert_eq!(taken["code"], "conflict", "{taken:#}");
        assert_eq!(taken["details"]["status"], "exists");
        assert_eq!(taken["details"]["field"], "turnId");
        let retried = named("sess_a", &place.turn, &json!([]), json!({}));
        let key = format!("key-{}", place.turn);
        assert_eq!(rig.keyed(&key, "submit_turn", retried).await.unwrap_err().to_json()["error"], taken);
    }
    // Also when the run is over, and from another session's point of view the name is free.
    let close = json!({ "subagentId": "sess_a_child" });
    rig.call("close_subagent", close).await;
    let over = named("sess_a", &places[0].turn, &json!([]), json!({}));
    assert_eq!(rig.refused("submit_turn", over).await["details"]["status"], "exists");
    rig.call("create_session", json!({ "sessionId": "sess_b" })).await;
    rig.call("submit_turn", named("sess_b", &places[0].turn, &json!([]), json!({}))).await;
    rig.turn_over("sess_b", &places[0].turn).await;
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_thread_in_which_somebody_else_runs_takes_no_turn_of_the_session() {
    let rig = Rig::start().await;
    let places = rig.sleepers("sess_a").await;
    for place in &places {
        let thread = json!({ "sessionId": "sess_a", "threadId": place.thread });
        let mut submit = json!({ "sessionId": "sess_a", "threadId": place.thread, "agent": "scripted", "input": input(&json!([])) });
        for when_busy in ["queue", "reject", "interrupt", "steer"] {
            submit["options"] = json!({ "whenBusy": when_busy });
            let refused = rig.refused("submit_turn", submit.clone()).await;
            assert_eq!(
                (&refused["code"], &refused["details"]["status"]),
                (&json!("conflict"), &json!("running"))
            );
            assert_eq!(refused["details"]["field"], "threadId");
        }
        let mut rollback = thread.clone();
        rollback["turns"] = json!(1);
        let mut promote = thread.clone();
        promote["turnId"] = json!("turn_any");
        let spawn = json!({ "sessionId": "sess_a", "threadId": place.thread, "agent": "scripted", "input": input(&json!([])) });
        let compact = json!({ "sessionId": "sess_a", "threadId": place.thread, "summary": "s" });
        let judge = json!({ "sessionId": "sess_a", "threadId": place.thread, "tool": "echo" });
        for (command, args) in [
            ("spawn_subagent", spawn),
            ("compact_context", compact),
            ("evaluate_permission", judge),
            ("interrupt_turn", thread.clone()),
            ("resume_thread", thread.clone()),
            ("remove_queued_turn", promote.clone()),
            ("promote_queued_turn", promote),
            ("rollback_thread", rollback),
        ] {
            let refused = rig.refused(command, args).await;
            let told = (&refused["code"], &refused["details"]["status"]);
            assert_eq!(told, (&json!("conflict"), &json!("running")), "{command}: {refused:#}");
        }
        let read = rig.call("get_thread_read", thread).await;
        let told = read.to_string();
        assert!(told.contains(&place.turn), "the run is there to be read: {read:#}");
    }
    // A thread that nobody has is the caller's to name, as ever.
    let own = json!({ "sessionId": "sess_a", "threadId": "thrd_own", "agent": "scripted", "input": input(&json!([])) });
    rig.call("submit_turn", own.clone()).await;
    rig.call("submit_turn", own).await;
    let nowhere = json!({ "sessionId": "sess_a", "threadId": "thrd_nowhere" });
    assert_eq!(rig.refused("interrupt_turn", nowhere).await["code"], "not_found");
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn what_was_submitted_under_a_name_is_a_conflict_with_anything_else_under_it_for_ever() {
    let rig = Rig::start().await;
    let say = |text: &str, when_busy: &str| {
        named("sess_a", "turn_mine", &json!([{ "say": text }]), json!({ "whenBusy": when_busy }))
    };
    let conflict = async |args: Value| {
        let refused = rig.refused("submit_turn", args).await;
        assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("exists")));
    };
    rig.call("submit_turn", named("sess_a", "turn_busy", &json!([{ "sleep": FOREVER }]), json!({}))).await;
    rig.call("submit_turn", say("one", "steer")).await;
    conflict(say("two", "steer")).await;
    conflict(say("one", "queue")).await;
    rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": "turn_busy" })).await;
    conflict(say("two", "steer")).await;
    // More than a session has in mind.
    for number in 0..70 {
        rig.call("submit_turn", named("sess_a", &format!("turn_{number}"), &json!([]), json!({}))).await;
    }
    rig.turn_over("sess_a", "turn_69").await;
    conflict(say("two", "steer")).await;
    conflict(say("one", "queue")).await;
    conflict(named("sess_a", "turn_busy", &json!([]), json!({ "whenBusy": "steer" }))).await;
    assert_eq!(rig.call("submit_turn", say("one", "steer")).await["turnId"], "turn_busy");
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn ids_of_attempts_at_items_are_in_the_order_of_time_and_no_two_jobs_have_the_same() {
    let job = json!({ "sessionId": "sess_a", "jobId": "fixedjob", "agent": "scripted", "instruction": "i",
        "retryPolicy": { "maxAttempts": 2, "backoffMs": 1, "maxBackoffMs": 1 },
        "items": [{ "itemId": "i", "input": input(&json!([{ "fail": { "retryable": true, "times": 1 } }])) }] });
    let mut seen = Vec::new();
    for _ in 0..2 {
        let rig = Rig::start().await;
        let earlier = rig.call("create_session", json!({ "sessionId": "sess_a" })).await;
        let earlier = earlier["threadId"].as_str().unwrap().trim_start_matches("thrd_").to_owned();
        rig.call("create_job", job.clone()).await;
        rig.until("sess_a", |event| event["type"] == "job.completed").await;
        let events = rig.checked("sess_a").await;
        let began = events.iter().filter(|event| event["type"] == "turn.started");
        let turns: Vec<&str> = began.map(|event| event["turnId"].as_str().unwrap()).collect();
        assert_eq!(turns.len(), 2, "an attempt, and another: {turns:?}");
        for turn in turns {
            let suffix = turn.trim_start_matches("turn_");
            assert_eq!(suffix.len(), 26, "{turn}");
            assert!(suffix[..10] >= earlier[..10], "{turn} is not older than its session, of {earlier}");
            seen.push(turn.to_owned());
        }
        rig.stop().await;
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "two servers make different ids of the same job: {seen:?}");
}
