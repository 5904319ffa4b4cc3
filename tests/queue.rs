//! The queue of a thread: its order, what busy threads do with new turns, deadlines, restarts.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use common::{Rig, count, input};
use serde_json::{Value, json};

const FOREVER: u64 = 600_000;

/// What a test says of a turn: its own id, so that it can be found again.
fn named(session: &str, turn: &str, script: &Value, options: Value) -> Value {
    json!({ "sessionId": session, "turnId": turn, "agent": "scripted", "input": input(script), "options": options })
}

fn sleeper() -> Value {
    json!([{ "sleep": FOREVER }])
}

impl Rig {
    /// A session with a turn that runs until it is interrupted, and some that wait. Its thread.
    async fn busy(&self, session: &str, waiting: &[&str]) -> String {
        let answer = self.call("submit_turn", named(session, "turn_busy", &sleeper(), json!({}))).await;
        for (place, turn) in waiting.iter().enumerate() {
            let script = json!([{ "say": turn }]);
            let answer = self.call("submit_turn", named(session, turn, &script, json!({}))).await;
            assert_eq!((&answer["status"], &answer["queuePosition"]), (&json!("queued"), &json!(place + 1)));
        }
        answer["threadId"].as_str().unwrap().to_owned()
    }

    /// The turns of a session in the order in which they began.
    async fn begun(&self, session: &str) -> Vec<String> {
        let events = self.checked(session).await;
        let begun = events.iter().filter(|event| event["type"] == "turn.started");
        begun.map(|event| event["turnId"].as_str().unwrap().to_owned()).collect()
    }

    async fn queue(&self, session: &str, thread: &str) -> Vec<String> {
        let read = self.call("get_thread_read", json!({ "sessionId": session, "threadId": thread })).await;
        let queued = read["queuedTurns"].as_array().cloned().unwrap_or_default();
        queued.iter().map(|turn| turn["turnId"].as_str().or(turn.as_str()).unwrap().to_owned()).collect()
    }

    async fn let_go(&self, session: &str) {
        self.call("interrupt_turn", json!({ "sessionId": session, "turnId": "turn_busy" })).await;
    }
}

#[tokio::test]
async fn turns_run_one_after_the_other_in_the_order_of_their_submission() {
    let rig = Rig::start().await;
    let thread = rig.busy("sess_a", &["turn_1", "turn_2", "turn_3"]).await;
    assert_eq!(rig.queue("sess_a", &thread).await, ["turn_1", "turn_2", "turn_3"]);
    rig.let_go("sess_a").await;
    rig.turn_over("sess_a", "turn_3").await;
    assert_eq!(rig.begun("sess_a").await, ["turn_busy", "turn_1", "turn_2", "turn_3"]);
    rig.stop().await;
}

#[tokio::test]
async fn the_queue_survives_restarts() {
    let mut rig = Rig::start().await;
    let thread = rig.busy("sess_a", &["turn_1", "turn_2"]).await;
    for _ in 0..2 {
        rig = rig.crash().await;
        assert_eq!(rig.queue("sess_a", &thread).await, ["turn_1", "turn_2"]);
    }
    rig.let_go("sess_a").await;
    rig = rig.crash().await;
    rig.turn_over("sess_a", "turn_2").await;
    assert_eq!(rig.begun("sess_a").await, ["turn_busy", "turn_1", "turn_2"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_promoted_turn_runs_next_and_a_removed_one_never_does() {
    let rig = Rig::start().await;
    let thread = rig.busy("sess_a", &["turn_1", "turn_2", "turn_3", "turn_4"]).await;
    let of = |turn: &str| json!({ "sessionId": "sess_a", "threadId": thread, "turnId": turn });
    let promoted = rig.call("promote_queued_turn", of("turn_3")).await;
    assert_eq!(promoted["queue"], json!(["turn_3", "turn_1", "turn_2", "turn_4"]), "{promoted:#}");
    let removed = rig.call("remove_queued_turn", of("turn_1")).await;
    assert_eq!(
        (&removed["queue"], &removed["status"]),
        (&json!(["turn_3", "turn_2", "turn_4"]), &json!("cancelled"))
    );
    let over = rig.turn_over("sess_a", "turn_1").await;
    assert_eq!((&over["type"], &over["payload"]["status"]), (&json!("turn.failed"), &json!("cancelled")));
    for command in ["remove_queued_turn", "promote_queued_turn"] {
        let gone = rig.refused(command, of("turn_1")).await;
        assert_eq!((&gone["code"], &gone["details"]["status"]), (&json!("conflict"), &json!("cancelled")));
        assert_eq!(rig.refused(command, of("turn_none")).await["code"], "not_found");
        let mut elsewhere = of("turn_2");
        elsewhere["threadId"] = json!("thrd_none");
        assert_eq!(rig.refused(command, elsewhere).await["code"], "not_found");
    }
    let running = rig.refused("promote_queued_turn", of("turn_busy")).await;
    assert_eq!((&running["code"], &running["details"]["status"]), (&json!("conflict"), &json!("running")));
    rig.let_go("sess_a").await;
    rig.turn_over("sess_a", "turn_4").await;
    assert_eq!(rig.begun("sess_a").await, ["turn_busy", "turn_3", "turn_2", "turn_4"]);
    let events = rig.served("sess_a").await;
    let changes: Vec<&Value> = events.iter().filter(|event| event["type"] == "queue.changed").collect();
    for change in ["added", "promoted", "removed", "started"] {
        assert!(changes.iter().any(|event| event["payload"]["change"] == change), "{change}: {changes:#?}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_busy_thread_rejects_a_turn_that_does_not_want_to_wait() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &[]).await;
    let refused = rig
        .refused("submit_turn", named("sess_a", "turn_1", &json!([]), json!({ "whenBusy": "reject" })))
        .await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("running")));
    rig.let_go("sess_a").await;
    let taken =
        rig.call("submit_turn", named("sess_a", "turn_1", &json!([]), json!({ "whenBusy": "reject" }))).await;
    assert_eq!(taken["status"], "accepted");
    rig.turn_over("sess_a", "turn_1").await;
    let events = rig.checked("sess_a").await;
    assert_eq!(
        events
            .iter()
            .filter(|event| event["turnId"] == "turn_1" && event["type"] == "turn.submitted")
            .count(),
        1
    );
    rig.stop().await;
}

#[tokio::test]
async fn an_interrupting_turn_runs_next_and_the_rest_of_the_queue_follows() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &["turn_1", "turn_2"]).await;
    let script = json!([{ "say": "now" }]);
    let answer = rig
        .call("submit_turn", named("sess_a", "turn_now", &script, json!({ "whenBusy": "interrupt" })))
        .await;
    assert_eq!(answer["turnId"], "turn_now");
    let over = rig.turn_over("sess_a", "turn_busy").await;
    assert_eq!(over["payload"]["status"], "cancelled");
    rig.turn_over("sess_a", "turn_2").await;
    assert_eq!(rig.begun("sess_a").await, ["turn_busy", "turn_now", "turn_1", "turn_2"]);

    // While a tree is closing, the newer turn waits for it, and nothing of the tree follows the new turn's beginning.
    let tree = json!([{ "spawn": { "count": 50, "script": [{ "sleep": FOREVER }] } }]);
    rig.call("submit_turn", named("sess_b", "turn_tree", &tree, json!({}))).await;
    rig.until("sess_b", |event| event["type"] == "subagent.spawned").await;
    rig.call("submit_turn", named("sess_b", "turn_now", &script, json!({ "whenBusy": "interrupt" }))).await;
    rig.turn_over("sess_b", "turn_now").await;
    let events = rig.checked("sess_b").await;
    let began = events
        .iter()
        .position(|event| event["turnId"] == "turn_now" && event["type"] == "turn.started")
        .unwrap();
    assert!(events[began..].iter().all(|event| event["subagentId"].is_null()));
    rig.stop().await;
}

#[tokio::test]
async fn a_steering_turn_reaches_the_running_one_and_says_which() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &["turn_1"]).await;
    let steered = json!({ "sessionId": "sess_a", "agent": "scripted", "input": [{ "type": "text", "text": "left, please" }],
        "options": { "whenBusy": "steer" } });
    let answer = rig.call("submit_turn", steered.clone()).await;
    assert_eq!(answer["turnId"], "turn_busy");
    let fact = rig
        .until("sess_a", |event| event["type"] == "queue.changed" && event["payload"]["change"] == "steered")
        .await;
    assert_eq!(fact["payload"]["input"][0]["text"], "left, please");
    assert_eq!(fact["payload"]["changedTurnId"], "turn_busy");
    // P9: what nobody has heard yet is bounded.
    let long = json!({ "sessionId": "sess_a", "input": [{ "type": "text", "text": "x".repeat(10_000) }],
        "options": { "whenBusy": "steer" } });
    rig.call("submit_turn", long.clone()).await;
    let refused = rig.refused("submit_turn", long).await;
    assert_eq!(refused["code"], "payload_too_large");
    assert!(refused["details"]["limit"].is_u64(), "{refused:#}");
    rig.let_go("sess_a").await;
    rig.turn_over("sess_a", "turn_1").await;
    // Nothing runs: a steering turn is a turn like any other.
    let answer = rig
        .call(
            "submit_turn",
            json!({ "sessionId": "sess_a", "input": input(&json!([])), "options": { "whenBusy": "steer" } }),
        )
        .await;
    assert_eq!(answer["status"], "accepted");
    rig.turn_over("sess_a", answer["turnId"].as_str().unwrap()).await;
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn a_deadline_counts_while_a_turn_waits_and_while_it_runs() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &[]).await;
    rig.call("submit_turn", named("sess_a", "turn_late", &json!([]), json!({ "deadlineMs": 100 }))).await;
    rig.call("submit_turn", named("sess_a", "turn_next", &json!([]), json!({ "deadlineMs": FOREVER }))).await;
    let over = rig.turn_over("sess_a", "turn_late").await;
    assert_eq!((&over["type"], &over["payload"]["status"]), (&json!("turn.failed"), &json!("timed_out")));
    assert_eq!(over["payload"]["error"]["code"], "deadline_exceeded");
    rig.let_go("sess_a").await;
    assert_eq!(rig.turn_over("sess_a", "turn_next").await["type"], "turn.completed");

    let tree = json!([{ "spawn": { "count": 5, "script": [{ "sleep": FOREVER }] } }]);
    rig.call("submit_turn", named("sess_b", "turn_slow", &tree, json!({ "deadlineMs": 200 }))).await;
    let over = rig.turn_over("sess_b", "turn_slow").await;
    assert_eq!(over["payload"]["status"], "timed_out");
    let events = rig.checked("sess_b").await;
    assert_eq!(count(&events, "subagent.closed"), 5, "the children of a turn that is too late are closed");
    assert_eq!(events.last().unwrap()["type"], "turn.failed");
    assert_eq!(rig.begun("sess_a").await, ["turn_busy", "turn_next"]);
    rig.stop().await;
}

#[tokio::test]
async fn p6_a_deadline_survives_a_crash() {
    let rig = Rig::start().await;
    rig.call("submit_turn", named("sess_a", "turn_slow", &sleeper(), json!({ "deadlineMs": 300 }))).await;
    let rig = rig.crash().await;
    let over = rig.turn_over("sess_a", "turn_slow").await;
    assert_eq!(over["payload"]["status"], "timed_out");
    rig.stop().await;
}

#[tokio::test]
async fn an_interrupt_with_clear_queue_ends_what_waits_and_names_it() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &["turn_1", "turn_2"]).await;
    let answer = rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "clearQueue": true })).await;
    assert_eq!(answer["status"], "cancelled");
    assert_eq!(answer["removed"], json!(["turn_1", "turn_2"]), "{answer:#}");
    for turn in ["turn_busy", "turn_1", "turn_2"] {
        assert_eq!(rig.turn_over("sess_a", turn).await["payload"]["status"], "cancelled");
    }
    assert_eq!(rig.begun("sess_a").await, ["turn_busy"]);
    let idle = rig.call("interrupt_turn", json!({ "sessionId": "sess_a" })).await;
    assert_eq!(idle["status"], "idle");
    let unknown =
        rig.refused("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": "turn_none" })).await;
    assert_eq!(unknown["code"], "not_found");
    rig.stop().await;
}

#[tokio::test]
async fn a_waiting_turn_can_be_interrupted_before_it_runs() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &["turn_1", "turn_2"]).await;
    let answer = rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": "turn_1" })).await;
    assert_eq!((&answer["status"], &answer["turnId"]), (&json!("cancelled"), &json!("turn_1")));
    rig.let_go("sess_a").await;
    rig.turn_over("sess_a", "turn_2").await;
    assert_eq!(rig.begun("sess_a").await, ["turn_busy", "turn_2"]);
    rig.stop().await;
}

#[tokio::test]
async fn urgent_turns_overtake_others_and_keep_their_own_order() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &[]).await;
    for (turn, priority) in [
        ("turn_l", "low"),
        ("turn_n1", "normal"),
        ("turn_h1", "high"),
        ("turn_n2", "normal"),
        ("turn_h2", "high"),
    ] {
        rig.call("submit_turn", named("sess_a", turn, &json!([]), json!({ "priority": priority }))).await;
    }
    rig.let_go("sess_a").await;
    rig.turn_over("sess_a", "turn_l").await;
    assert_eq!(
        rig.begun("sess_a").await,
        ["turn_busy", "turn_h1", "turn_h2", "turn_n1", "turn_n2", "turn_l"]
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_thread_goes_on_after_a_failed_or_cancelled_turn_with_a_new_one() {
    let rig = Rig::start().await;
    let script = json!([{ "say": "attempt {{attempt}}" }, { "fail": { "message": "no", "retryable": false, "times": 1 } }]);
    let first = rig.call("submit_turn", named("sess_a", "turn_1", &script, json!({}))).await;
    let thread = first["threadId"].clone();
    assert_eq!(rig.turn_over("sess_a", "turn_1").await["payload"]["status"], "failed");
    let resumed = rig.call("resume_thread", json!({ "sessionId": "sess_a", "threadId": thread })).await;
    assert_eq!((&resumed["resumed"], &resumed["status"]), (&json!(true), &json!("running")), "{resumed:#}");
    let turn = resumed["turnId"].as_str().unwrap();
    assert_ne!(turn, "turn_1");
    rig.turn_over("sess_a", turn).await;
    let events = rig.checked("sess_a").await;
    assert!(events.iter().any(|event| event["turnId"] == turn && event["payload"]["text"] == "attempt 2"));

    rig.busy("sess_b", &[]).await;
    let thread = rig.busy_thread("sess_b").await;
    let running = rig.call("resume_thread", json!({ "sessionId": "sess_b", "threadId": thread })).await;
    assert_eq!((&running["resumed"], &running["turnId"]), (&json!(false), &json!("turn_busy")));
    rig.let_go("sess_b").await;
    let resumed = rig.call("resume_thread", json!({ "sessionId": "sess_b", "threadId": thread })).await;
    assert_eq!(resumed["resumed"], true);
    rig.call("interrupt_turn", json!({ "sessionId": "sess_b" })).await;
    rig.checked("sess_b").await;

    let done = rig.call("submit_turn", named("sess_c", "turn_1", &json!([]), json!({}))).await;
    rig.turn_over("sess_c", "turn_1").await;
    let nothing =
        rig.call("resume_thread", json!({ "sessionId": "sess_c", "threadId": done["threadId"] })).await;
    assert_eq!(nothing["resumed"], false, "what completed is not done again");
    rig.stop().await;
}

impl Rig {
    async fn busy_thread(&self, session: &str) -> String {
        let snapshot = self.call("get_session", json!({ "sessionId": session })).await;
        snapshot["threads"][0]["threadId"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn an_archived_session_refuses_new_work_and_keeps_its_history() {
    let rig = Rig::start().await;
    let thread = rig.busy("sess_a", &["turn_1"]).await;
    let args = json!({ "sessionId": "sess_a", "taskId": "task_a", "objective": "o" });
    rig.call("create_task", args).await;
    rig.call("archive_session", json!({ "sessionId": "sess_a" })).await;
    let again = rig.call("archive_session", json!({ "sessionId": "sess_a" })).await;
    assert_eq!(again["status"], "archived");
    let new_work = [
        ("submit_turn", json!({ "sessionId": "sess_a", "input": input(&json!([])) })),
        ("create_task", json!({ "sessionId": "sess_a", "objective": "o" })),
        ("create_task", json!({ "parentTaskId": "task_a", "objective": "o" })),
        ("spawn_subagent", json!({ "sessionId": "sess_a", "input": input(&json!([])) })),
        ("update_session", json!({ "sessionId": "sess_a", "title": "t" })),
        ("resume_thread", json!({ "sessionId": "sess_a", "threadId": thread })),
    ];
    for (name, args) in new_work {
        let refused = rig.refused(name, args).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["status"]),
            (&json!("conflict"), &json!("archived")),
            "{name}"
        );
    }
    // What was taken before goes on, and can be stopped and read.
    rig.let_go("sess_a").await;
    rig.turn_over("sess_a", "turn_1").await;
    rig.call("cancel_task", json!({ "taskId": "task_a" })).await;
    let snapshot = rig.call("get_session", json!({ "sessionId": "sess_a" })).await;
    assert_eq!(snapshot["status"], "archived", "{snapshot:#}");
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn p9_a_queue_has_a_limit_and_says_so() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &[]).await;
    let limit = rig.runtime.engine().limits.queued_turns;
    for number in 0..limit {
        rig.call("submit_turn", named("sess_a", &format!("turn_{number}"), &json!([]), json!({}))).await;
    }
    let refused = rig.refused("submit_turn", named("sess_a", "turn_more", &json!([]), json!({}))).await;
    assert_eq!(
        (&refused["code"], &refused["retryable"]),
        (&json!("rate_limited"), &json!(true)),
        "{refused:#}"
    );
    // A turn that was submitted long ago is still known.
    let same = rig.call("submit_turn", named("sess_a", "turn_0", &json!([]), json!({}))).await;
    assert_eq!(same["turnId"], "turn_0");
    rig.let_go("sess_a").await;
    rig.turn_over("sess_a", &format!("turn_{}", limit - 1)).await;
    let same = rig.call("submit_turn", named("sess_a", "turn_0", &json!([]), json!({}))).await;
    assert_eq!(same["turnId"], "turn_0");
    let other =
        rig.refused("submit_turn", named("sess_a", "turn_0", &json!([{ "say": "x" }]), json!({}))).await;
    assert_eq!(other["code"], "conflict");
    let events = rig.checked("sess_a").await;
    assert_eq!(count(&events, "turn.started"), limit + 1);
    rig.stop().await;
}

#[tokio::test]
async fn threads_of_a_session_run_beside_each_other() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &[]).await;
    let mut other = named("sess_a", "turn_other", &json!([{ "say": "beside" }]), json!({}));
    other["threadId"] = json!("thrd_other");
    let answer = rig.call("submit_turn", other).await;
    assert_eq!((&answer["status"], &answer["threadId"]), (&json!("accepted"), &json!("thrd_other")));
    assert_eq!(rig.turn_over("sess_a", "turn_other").await["type"], "turn.completed");
    rig.let_go("sess_a").await;
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn p3_a_key_has_the_same_answer_however_many_turns_came_after() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &[]).await;
    let submit =
        || rig.keyed("key-of-turn-1", "submit_turn", named("sess_a", "turn_1", &json!([]), json!({})));
    let first = submit().await.unwrap();
    assert_eq!((&first.result["status"], &first.result["queuePosition"]), (&json!("queued"), &json!(1)));
    rig.let_go("sess_a").await;
    // More than a session has in mind.
    for number in 2..=70 {
        rig.call("submit_turn", named("sess_a", &format!("turn_{number}"), &json!([]), json!({}))).await;
    }
    rig.turn_over("sess_a", "turn_70").await;
    let again = submit().await.unwrap();
    assert_eq!((&again.result, again.cursor), (&first.result, first.cursor));
    rig.stop().await;
}

/// A model that says its last word when it is let go, and repeats what it was told meanwhile.
struct Slow(std::sync::Arc<tokio::sync::Notify>);

#[async_trait::async_trait]
impl cadre::exec::Provider for Slow {
    fn name(&self) -> &str {
        "scripted"
    }

    async fn stream(
        &self,
        request: &cadre::exec::ModelRequest,
        _: tokio::sync::mpsc::Sender<String>,
    ) -> Result<cadre::exec::Answer, cadre::exec::ModelError> {
        if request.input.len() == 1 {
            self.0.notified().await;
        }
        let heard = request.input.iter().map(|part| match part {
            cadre::fact::Part::Text { text } => text.clone(),
            cadre::fact::Part::Blob { .. } => String::new(),
        });
        let deltas = vec![format!("[{}]", heard.collect::<Vec<_>>().join("|"))];
        Ok(cadre::exec::Answer { deltas, ..Default::default() })
    }
}

#[tokio::test]
async fn p2_what_is_said_to_a_turn_while_it_speaks_its_last_word_is_heard() {
    let go = std::sync::Arc::new(tokio::sync::Notify::new());
    let rig = Rig::start_with(|engine| engine.add_provider(std::sync::Arc::new(Slow(go.clone())))).await;
    let say = |text: &str| {
        json!({ "sessionId": "sess_a", "input": [{ "type": "text", "text": text }],
        "options": { "whenBusy": "steer" } })
    };
    let turn = rig.call("submit_turn", say("one")).await["turnId"].clone();
    rig.until("sess_a", |event| event["type"] == "model.requested").await;
    let steered = rig.call("submit_turn", say("two")).await;
    assert_eq!(steered["turnId"], turn);
    go.notify_one();
    rig.turn_over("sess_a", turn.as_str().unwrap()).await;
    let events = rig.checked("sess_a").await;
    let deltas = events.iter().filter(|event| event["type"] == "model.delta");
    let said: Vec<_> = deltas.map(|event| event["payload"]["text"].as_str().unwrap()).collect();
    assert_eq!(said, ["[one]", "[one|two]"]);
    rig.stop().await;
}

#[tokio::test]
async fn a_turn_that_does_not_want_to_wait_is_rejected_too_where_other_threads_take_all_the_room() {
    let rig = Rig::start().await;
    for number in 0..12 {
        let mut busy = named("sess_a", &format!("turn_busy-{number}"), &sleeper(), json!({}));
        busy["threadId"] = format!("thrd_{number}").into();
        assert_eq!(rig.call("submit_turn", busy).await["status"], "accepted");
    }
    let mut more = named("sess_a", "turn_more", &json!([]), json!({ "whenBusy": "reject" }));
    more["threadId"] = json!("thrd_more");
    let refused = rig.refused("submit_turn", more.clone()).await;
    assert_eq!((&refused["code"], &refused["details"]["status"]), (&json!("conflict"), &json!("queued")));
    rig.call("interrupt_turn", json!({ "sessionId": "sess_a", "turnId": "turn_busy-3" })).await;
    assert_eq!(rig.call("submit_turn", more).await["status"], "accepted");
    rig.turn_over("sess_a", "turn_more").await;
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn p3_what_is_steered_under_an_id_of_its_own_is_heard_once() {
    let rig = Rig::start().await;
    rig.busy("sess_a", &[]).await;
    let steer = || named("sess_a", "turn_mine", &json!([{ "say": "x" }]), json!({ "whenBusy": "steer" }));
    let first = rig.call("submit_turn", steer()).await;
    assert_eq!(first["turnId"], "turn_busy");
    assert_eq!(rig.call("submit_turn", steer()).await, first);
    let other = named("sess_a", "turn_mine", &json!([{ "say": "y" }]), json!({ "whenBusy": "steer" }));
    assert_eq!(rig.refused("submit_turn", other).await["details"]["status"], "exists");
    rig.let_go("sess_a").await;
    // More than a session has in mind.
    for number in 0..70 {
        rig.call("submit_turn", named("sess_a", &format!("turn_{number}"), &json!([]), json!({}))).await;
    }
    rig.turn_over("sess_a", "turn_69").await;
    assert_eq!(rig.call("submit_turn", steer()).await, first, "also when the turn that heard it is over");
    let events = rig.checked("sess_a").await;
    let steered = events.iter().filter(|event| event["payload"]["change"] == "steered");
    assert_eq!(steered.count(), 1);
    assert!(!events.iter().any(|event| event["turnId"] == "turn_mine"));
    rig.stop().await;
}

#[tokio::test]
async fn p11_the_id_of_a_turn_that_a_resume_made_is_taken() {
    let rig = Rig::start().await;
    let fail = json!([{ "fail": { "message": "m", "retryable": false } }]);
    let failed = rig.run("sess_a", fail).await;
    let resume = json!({ "sessionId": "sess_a", "threadId": failed["threadId"] });
    let resumed = rig.call("resume_thread", resume.clone()).await;
    assert_eq!((&resumed["status"], &resumed["resumed"]), (&json!("running"), &json!(true)));
    let turn = resumed["turnId"].as_str().unwrap();
    rig.turn_over("sess_a", turn).await;
    let again = rig.refused("submit_turn", named("sess_a", turn, &json!([]), json!({}))).await;
    assert_eq!((&again["code"], &again["details"]["status"]), (&json!("conflict"), &json!("exists")));
    rig.call("wait_subagents", json!({ "parentId": turn, "mode": "all", "timeoutMs": 1_000 })).await;

    // Twelve turns run at once: one that is resumed then waits, and so it says.
    for number in 0..12 {
        let mut busy = named("sess_a", &format!("turn_busy-{number}"), &sleeper(), json!({}));
        busy["threadId"] = format!("thrd_{number}").into();
        rig.call("submit_turn", busy).await;
    }
    let waits = rig.call("resume_thread", resume).await;
    assert_eq!((&waits["status"], &waits["resumed"]), (&json!("queued"), &json!(true)), "{waits}");
    rig.checked("sess_a").await;
    rig.stop().await;
}

#[tokio::test]
async fn an_interrupt_clears_the_queue_of_its_own_thread_and_of_no_other() {
    let rig = Rig::start().await;
    let first = rig.busy("sess_a", &["turn_1", "turn_2"]).await;
    for (turn, script) in [("turn_other", sleeper()), ("turn_3", json!([])), ("turn_4", json!([]))] {
        let mut other = named("sess_a", turn, &script, json!({}));
        other["threadId"] = json!("thrd_other");
        rig.call("submit_turn", other).await;
    }
    let clear = |more: Value| {
        let mut args = json!({ "sessionId": "sess_a", "clearQueue": true });
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    let mixed = clear(json!({ "threadId": first, "turnId": "turn_other" }));
    let refused = rig.refused("interrupt_turn", mixed).await;
    assert_eq!(
        (&refused["code"], &refused["details"]["field"]),
        (&json!("invalid_argument"), &json!("threadId"))
    );
    assert_eq!(rig.queue("sess_a", &first).await, ["turn_1", "turn_2"]);
    assert_eq!(rig.queue("sess_a", "thrd_other").await, ["turn_3", "turn_4"]);
    let by_turn = rig.call("interrupt_turn", clear(json!({ "turnId": "turn_other" }))).await;
    assert_eq!(
        (&by_turn["threadId"], &by_turn["removed"]),
        (&json!("thrd_other"), &json!(["turn_3", "turn_4"]))
    );
    assert_eq!(rig.queue("sess_a", &first).await, ["turn_1", "turn_2"]);
    // Once more for a turn that is over by now: what waits in its thread goes.
    for (turn, script) in [("turn_5", sleeper()), ("turn_6", json!([]))] {
        let mut other = named("sess_a", turn, &script, json!({}));
        other["threadId"] = json!("thrd_other");
        rig.call("submit_turn", other).await;
    }
    let over = rig.call("interrupt_turn", clear(json!({ "turnId": "turn_other" }))).await;
    assert_eq!((&over["status"], &over["removed"]), (&json!("cancelled"), &json!(["turn_6"])));
    let mixed = clear(json!({ "threadId": first, "turnId": "turn_other" }));
    assert_eq!(rig.refused("interrupt_turn", mixed).await["details"]["field"], "threadId");
    let whichever = rig.call("interrupt_turn", clear(json!({}))).await;
    assert_eq!(
        (&whichever["threadId"], &whichever["removed"]),
        (&json!(first), &json!(["turn_1", "turn_2"]))
    );
    let events = rig.checked("sess_a").await;
    assert!(!events.iter().any(|event| event["type"] == "turn.failed" && event["turnId"] == "turn_5"));
    rig.stop().await;
}

#[tokio::test]
async fn an_interrupt_that_is_refused_leaves_the_queue_alone() {
    let rig = Rig::start().await;
    let thread = rig.busy("sess_a", &["turn_1"]).await;
    let spawn = json!({ "sessionId": "sess_a", "agent": "scripted", "input": input(&sleeper()) });
    let child = rig.call("spawn_subagent", spawn).await;
    let args = json!({ "sessionId": "sess_a", "turnId": child["turnId"], "clearQueue": true });
    let refused = rig.refused("interrupt_turn", args).await;
    assert_eq!(refused["code"], "conflict", "{refused}");
    assert_eq!(rig.queue("sess_a", &thread).await, ["turn_1"]);
    rig.stop().await;
}
