//! What later turns of a thread see of its past: turns that are taken back, and summaries that stand for turns.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use cadre::{
    blob::NewBlob,
    fact::id::{BlobRef, SessionId},
    replay::{ReplayCase, Verdict, fold},
};
use common::{Rig, count, turn};
use serde_json::{Value, json};

const S: &str = "sess_h";

impl Rig {
    /// Turns of those names, one after the other, to their ends.
    async fn turns(&self, names: impl IntoIterator<Item = &str>) {
        for name in names {
            let mut args = turn(S, json!([{ "say": name }]));
            args["turnId"] = name.into();
            self.call("submit_turn", args).await;
            self.turn_over(S, name).await;
        }
    }

    async fn thread_id(&self) -> Value {
        self.call("get_session", json!({ "sessionId": S })).await["threads"][0]["threadId"].clone()
    }

    async fn thread(&self) -> Value {
        self.call("get_thread_read", json!({ "sessionId": S, "threadId": self.thread_id().await })).await
    }

    /// The turns that later turns see, in their order, as far as they are told of.
    async fn history(&self) -> Vec<String> {
        let thread = self.thread().await;
        let turns = thread["turns"].as_array().unwrap().iter();
        let left = turns.filter(|turn| turn["rolledBackAt"].is_null());
        left.map(|turn| turn["turnId"].as_str().unwrap().to_owned()).collect()
    }

    async fn rollback(&self, args: Value) -> Value {
        self.call("rollback_thread", of(args)).await
    }

    async fn compact(&self, args: Value) -> Value {
        self.call("compact_context", of(args)).await
    }

    /// A command is refused with this code, and this field or status.
    async fn refuses(&self, name: &str, args: Value, code: &str, detail: &str) -> Value {
        let refused = self.refused(name, of(args.clone())).await;
        assert_eq!(refused["code"], code, "{name} {args}: {refused}");
        let of = if code == "conflict" { "status" } else { "field" };
        assert_eq!(refused["details"][of].as_str().unwrap_or_default(), detail, "{name} {args}: {refused}");
        refused
    }

    async fn replays_equal(&self, scope: Value) {
        let exported = self.call("export_replay", of(scope.clone())).await;
        let blob = BlobRef::parse(exported["ref"].as_str().unwrap()).unwrap();
        let (content, _) = self.runtime.blobs().read_all("local", &blob).await.unwrap();
        let report = fold(&ReplayCase::parse(&content).unwrap());
        assert_eq!(report.verdict, Verdict::Equal, "{scope}: {report}");
    }
}

fn of(mut args: Value) -> Value {
    args["sessionId"] = S.into();
    args
}

/// What facts of a class say.
fn said(events: &[Value], class: &str) -> Vec<Value> {
    events.iter().filter(|event| event["type"] == class).map(|event| event["payload"].clone()).collect()
}

#[tokio::test]
async fn the_last_turns_are_taken_back_and_stay_to_be_read() {
    let rig = Rig::start().await;
    rig.turns(["u1", "u2", "u3", "u4"]).await;
    let before = rig.events(S).await.len();
    let told = rig.rollback(json!({ "toTurnId": "u2", "reason": "the wrong way" })).await;
    assert_eq!(
        (&told["turns"], &told["toTurnId"], &told["remaining"], &told["status"]),
        (&json!(["u3", "u4"]), &json!("u2"), &json!(2), &json!("idle"))
    );
    let events = rig.checked(S).await;
    assert_eq!(events.len(), before + 2, "nothing that happened is taken out of the feed");
    let started = &said(&events, "history.rollback.started")[0];
    assert_eq!((&started["toTurnId"], &started["turns"]), (&json!("u2"), &json!(["u3", "u4"])));
    assert_eq!((&started["reason"], &started["by"]), (&json!("the wrong way"), &json!("local")));
    let completed = &said(&events, "history.rollback.completed")[0];
    assert_eq!((&completed["turns"], &completed["irreversible"]), (&json!(["u3", "u4"]), &Value::Null));

    let thread = rig.thread().await;
    assert_eq!((thread["turns"].as_array().unwrap().len(), &thread["status"]), (4, &json!("idle")));
    assert_eq!(thread["context"], json!({ "turns": 2, "rolledBack": 2 }));
    assert_eq!(rig.history().await, ["u1", "u2"]);
    let page = rig.call("get_session", json!({ "sessionId": S, "limit": 1 })).await;
    assert!(page["threads"][0]["turns"][0]["rolledBackAt"].is_string());
    assert_eq!(page["historySummary"]["rollbacks"], 1);

    rig.turns(["u5"]).await;
    assert_eq!(rig.history().await, ["u1", "u2", "u5"]);
    // Further back, over what was taken back before.
    let told = rig.rollback(json!({ "turns": 2 })).await;
    assert_eq!((&told["turns"], &told["toTurnId"]), (&json!(["u2", "u5"]), &json!("u1")));
    assert_eq!(rig.history().await, ["u1"]);
    let told = rig.rollback(json!({ "turns": 1 })).await;
    assert_eq!(
        (&told["turns"], &told["toTurnId"], &told["remaining"]),
        (&json!(["u1"]), &Value::Null, &json!(0))
    );
    assert!(rig.history().await.is_empty());
    rig.turns(["u6"]).await;
    assert_eq!(rig.history().await, ["u6"]);
    rig.checked(S).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_rollback_that_makes_no_sense_is_refused_in_words() {
    let rig = Rig::start().await;
    rig.turns(["u1", "u2"]).await;
    let mut other = turn(S, json!([{ "say": "x" }]));
    (other["threadId"], other["turnId"]) = ("thrd_other".into(), "v1".into());
    rig.call("submit_turn", other).await;
    rig.turn_over(S, "v1").await;
    let events = rig.events(S).await.len();
    for (args, code, detail) in [
        (json!({}), "invalid_argument", "toTurnId"),
        (json!({ "toTurnId": "u1", "turns": 1 }), "invalid_argument", "toTurnId"),
        (json!({ "toTurnId": "a b" }), "invalid_argument", "toTurnId"),
        (json!({ "turns": 0 }), "invalid_argument", "turns"),
        (json!({ "turns": 257 }), "invalid_argument", "turns"),
        (json!({ "turns": "all" }), "invalid_argument", "turns"),
        (json!({ "turns": 3 }), "invalid_argument", "turns"),
        (json!({ "turns": 1, "reason": "x".repeat(2049) }), "invalid_argument", "reason"),
        (json!({ "toTurnId": "v1" }), "invalid_argument", "toTurnId"),
        (json!({ "toTurnId": "u1", "threadId": "thrd_other" }), "invalid_argument", "toTurnId"),
        (json!({ "toTurnId": "turn_nobody" }), "not_found", ""),
        (json!({ "turns": 1, "threadId": "thrd_nobody" }), "not_found", ""),
    ] {
        rig.refuses("rollback_thread", args, code, detail).await;
    }
    let nobody = rig.refused("rollback_thread", json!({ "sessionId": "sess_nobody", "turns": 1 })).await;
    assert_eq!(nobody["code"], "not_found");
    let stranger = rig.as_other("rollback_thread", of(json!({ "turns": 1 }))).await.unwrap_err();
    assert_eq!(stranger.code.as_str(), "not_found", "p8: what is another tenant's does not exist");
    // The last turn is the last turn already.
    let told = rig.answer("rollback_thread", of(json!({ "toTurnId": "u2" }))).await;
    assert_eq!((&told.result["turns"], &told.result["status"]), (&json!([]), &json!("completed")));
    assert!(told.cursor.is_none());
    assert_eq!(rig.events(S).await.len(), events, "what was refused left nothing behind");

    rig.rollback(json!({ "toTurnId": "u1" })).await;
    let forward =
        rig.refuses("rollback_thread", json!({ "toTurnId": "u2" }), "conflict", "rolled_back").await;
    assert!(forward["message"].as_str().unwrap().contains("forward"));
    rig.stop().await;
}

#[tokio::test]
async fn a_thread_at_work_keeps_its_history() {
    let rig = Rig::start().await;
    rig.turns(["u1", "u2"]).await;
    let ask = json!([{ "approve": { "prompt": "go on?", "decisions": ["allow", "deny"] } }]);
    let mut asking = turn(S, ask);
    asking["turnId"] = "u3".into();
    rig.call("submit_turn", asking).await;
    let asked = rig.until(S, |event| event["type"] == "action.required").await;
    let both = [("rollback_thread", json!({ "turns": 1 })), ("compact_context", json!({ "summary": "s" }))];
    for (name, args) in &both {
        let refused = rig.refuses(name, args.clone(), "conflict", "blocked").await;
        assert!(refused["message"].as_str().unwrap().contains("u3"), "{refused}");
    }
    rig.call("respond_action", json!({ "actionId": asked["actionId"], "decision": "allow" })).await;
    rig.turn_over(S, "u3").await;

    // Twelve turns run at once in a session, in as many threads: one more waits though its own thread is free.
    for number in 0..12 {
        let mut busy = turn(S, json!([{ "sleep": 60_000 }]));
        busy["threadId"] = format!("thrd_{number}").into();
        rig.call("submit_turn", busy).await;
    }
    for (name, args) in &both {
        let mut running = args.clone();
        running["threadId"] = "thrd_3".into();
        rig.refuses(name, running, "conflict", "running").await;
    }
    let mut waits = turn(S, json!([{ "say": "x" }]));
    waits["turnId"] = "u4".into();
    assert_eq!(rig.call("submit_turn", waits).await["status"], "queued");
    for (name, args) in &both {
        let refused = rig.refuses(name, args.clone(), "conflict", "queued").await;
        assert!(refused["message"].as_str().unwrap().contains("u4"), "{refused}");
    }
    let thread = rig.thread_id().await;
    let remove = json!({ "sessionId": S, "threadId": thread, "turnId": "u4" });
    rig.call("remove_queued_turn", remove).await;
    // A turn that never ran is one of the history all the same, and the first to go.
    assert_eq!(rig.rollback(json!({ "turns": 2 })).await["turns"], json!(["u3", "u4"]));

    rig.call("archive_session", json!({ "sessionId": S })).await;
    for (name, args) in both {
        rig.refuses(name, args, "conflict", "archived").await;
    }
    rig.call("interrupt_turn", json!({ "sessionId": S, "threadId": "thrd_0" })).await;
    rig.stop().await;
}

#[tokio::test]
async fn p3_the_same_key_takes_turns_back_once() {
    let rig = Rig::start().await;
    rig.turns(["u1", "u2", "u3", "u4"]).await;
    let back = of(json!({ "turns": 1 }));
    let first = rig.keyed("key-rollback", "rollback_thread", back.clone()).await.unwrap();
    let sum = of(json!({ "summary": "in short", "upToTurnId": "u2" }));
    let summed = rig.keyed("key-compact", "compact_context", sum.clone()).await.unwrap();
    let forward = rig.keyed("key-forward", "rollback_thread", of(json!({ "toTurnId": "u4" }))).await;
    rig.turns(["u5"]).await;
    let rig = rig.crash().await;
    assert_eq!(rig.keyed("key-rollback", "rollback_thread", back).await.unwrap(), first);
    assert_eq!(rig.keyed("key-compact", "compact_context", sum).await.unwrap(), summed);
    assert_eq!(rig.keyed("key-forward", "rollback_thread", of(json!({ "toTurnId": "u4" }))).await, forward);
    assert_eq!(forward.unwrap_err().code.as_str(), "conflict");
    let reused = rig.keyed("key-rollback", "rollback_thread", of(json!({ "turns": 2 }))).await.unwrap_err();
    assert_eq!(reused.code.as_str(), "conflict");
    assert_eq!(rig.history().await, ["u1", "u2", "u3", "u5"]);
    let events = rig.checked(S).await;
    assert_eq!(count(&events, "history.rollback.completed"), 1);
    assert_eq!(count(&events, "context.compaction.completed"), 1);
    rig.stop().await;
}

#[tokio::test]
async fn what_was_taken_back_is_not_tried_again_and_what_tools_did_is_said() {
    let rig = Rig::start().await;
    rig.turns(["u1"]).await;
    let script = json!([
        { "tool": "echo", "args": {} },
        { "tool": "echo", "args": {} },
        { "spawn": { "count": 1, "script": [{ "sleep": 60_000 }], "join": "none" } },
        { "fail": { "message": "broken", "retryable": false } }
    ]);
    let failed = rig.run(S, script).await;
    assert_eq!(failed["type"], "turn.failed");
    let told = rig.rollback(json!({ "turns": 1 })).await;
    assert_eq!(told["turns"], json!([failed["turnId"]]));
    let completed = &said(&rig.checked(S).await, "history.rollback.completed")[0];
    assert_eq!(completed["irreversible"], json!(["3 tool calls", "1 turn whose children go on"]));
    let thread = rig.thread_id().await;
    let resumed = rig.call("resume_thread", json!({ "sessionId": S, "threadId": thread })).await;
    assert_eq!(resumed["resumed"], false, "nothing is left that did not complete");
    rig.call("interrupt_turn", json!({ "sessionId": S, "turnId": failed["turnId"] })).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_summary_stands_for_the_beginning_until_its_last_turn_is_taken_back() {
    let rig = Rig::start().await;
    rig.turns(["u1", "u2", "u3", "u4", "u5"]).await;
    let text = "They talked about Lisbon. ".repeat(400);
    let told = rig.compact(json!({ "summary": text, "upToTurnId": "u2", "reason": "long" })).await;
    assert_eq!(
        (&told["firstTurnId"], &told["lastTurnId"], &told["turns"]),
        (&json!("u1"), &json!("u2"), &json!(2))
    );
    let events = rig.checked(S).await;
    let started = &said(&events, "context.compaction.started")[0];
    assert_eq!((&started["trigger"], &started["reason"]), (&json!("command"), &json!("long")));
    let completed = &said(&events, "context.compaction.completed")[0];
    assert_eq!((&completed["summary"], &completed["tokensBefore"]), (&json!(text), &Value::Null));

    let context = rig.thread().await["context"].clone();
    assert_eq!(
        (&context["summary"], &context["turns"]),
        (&json!(text), &json!(5)),
        "whole, where one thread is read"
    );
    let boundary = &context["boundary"];
    assert_eq!((&boundary["lastTurnId"], &boundary["turns"]), (&json!("u2"), &json!(2)));
    assert_eq!(boundary["summaryBytes"], text.len());
    let snapshot = rig.call("get_session", json!({ "sessionId": S })).await;
    let last = &snapshot["contextBoundary"]["lastCompaction"];
    assert_eq!((&last["lastTurnId"], &last["tokensAvailability"]), (&json!("u2"), &json!("unknown")));
    assert!(last["summary"].as_str().unwrap().ends_with('…'));

    // A later one takes its place; back to before that, the former one stands again.
    let blob = BlobRef::parse("blob_summary").unwrap();
    let new = NewBlob {
        blob,
        media_type: "text/plain".into(),
        session: Some(SessionId::parse(S).unwrap()),
        content: "in short".into(),
    };
    rig.runtime.blobs().write("local", new).await.unwrap();
    rig.compact(json!({ "summary": { "ref": "blob_summary" } })).await;
    let context = rig.thread().await["context"].clone();
    assert_eq!(context["boundary"]["summaryRef"], "blob_summary");
    assert_eq!((&context["boundary"]["turns"], &context["summary"]), (&json!(5), &Value::Null));
    let rig = rig.crash().await;
    rig.refuses("compact_context", json!({ "summary": "s", "upToTurnId": "u4" }), "conflict", "compacted")
        .await;
    rig.rollback(json!({ "turns": 2 })).await;
    let context = rig.thread().await["context"].clone();
    assert_eq!((&context["boundary"]["lastTurnId"], &context["summary"]), (&json!("u2"), &json!(text)));
    // The same place in other words.
    rig.compact(json!({ "summary": "Lisbon.", "upToTurnId": "u2" })).await;
    assert_eq!(rig.thread().await["context"]["summary"], "Lisbon.");
    rig.rollback(json!({ "toTurnId": "u2" })).await;
    assert_eq!(rig.thread().await["context"]["summary"], "Lisbon.", "its last turn stays");
    rig.rollback(json!({ "toTurnId": "u1" })).await;
    assert_eq!(rig.thread().await["context"], json!({ "turns": 1, "rolledBack": 4 }));
    let snapshot = rig.call("get_session", json!({ "sessionId": S })).await;
    assert!(snapshot["contextBoundary"]["lastCompaction"].is_null());
    rig.checked(S).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_summary_of_nothing_or_by_nobody_is_refused() {
    let rig = Rig::start().await;
    rig.call("create_session", of(json!({}))).await;
    rig.refuses("compact_context", json!({ "summary": "s" }), "conflict", "idle").await;
    rig.turns(["u1", "u2"]).await;
    for (args, code, detail) in [
        (json!({}), "invalid_argument", "summary"),
        (json!({ "summary": "" }), "invalid_argument", "summary"),
        (json!({ "summary": " \n" }), "invalid_argument", "summary"),
        (json!({ "summary": 5 }), "invalid_argument", "summary"),
        (json!({ "summary": ["s"] }), "invalid_argument", "summary"),
        (json!({ "summary": {} }), "invalid_argument", "summary.ref"),
        (json!({ "summary": { "ref": "a b" } }), "invalid_argument", "summary.ref"),
        (json!({ "summary": "x".repeat(16 * 1024 + 1) }), "invalid_argument", "summary"),
        (json!({ "summary": { "ref": "blob_nobody" } }), "not_found", "summary.ref"),
        (json!({ "summary": "s", "upToTurnId": "turn_nobody" }), "not_found", ""),
        (json!({ "summary": "s", "threadId": "thrd_nobody" }), "not_found", ""),
        (json!({ "summary": "s", "reason": "x".repeat(2049) }), "invalid_argument", "reason"),
    ] {
        rig.refuses("compact_context", args, code, detail).await;
    }
    let stranger = rig.as_other("compact_context", of(json!({ "summary": "s" }))).await.unwrap_err();
    assert_eq!(stranger.code.as_str(), "not_found");
    rig.rollback(json!({ "turns": 1 })).await;
    rig.refuses("compact_context", json!({ "summary": "s", "upToTurnId": "u2" }), "conflict", "rolled_back")
        .await;
    assert_eq!(count(&rig.checked(S).await, "context.compaction.started"), 0);
    rig.stop().await;
}

#[tokio::test]
async fn a_turn_sees_what_was_not_taken_back_and_the_summary_of_the_rest() {
    let rig = Rig::start().await;
    rig.turns(["u1", "u2", "u3", "u4"]).await;
    rig.rollback(json!({ "toTurnId": "u2" })).await;
    rig.turns(["u5"]).await;
    let rig = rig.crash().await;
    rig.turns(["u6"]).await;
    rig.compact(json!({ "summary": "in short", "upToTurnId": "u5" })).await;
    rig.turns(["u7"]).await;
    rig.rollback(json!({ "toTurnId": "u2" })).await;
    rig.turns(["u8"]).await;
    let thread = rig.thread_id().await;
    let thread = thread.as_str().unwrap();
    let events = rig.checked(S).await;
    let seen = |turn: &str| -> Vec<String> {
        let is = |event: &&Value| event["type"] == "context.resolved" && event["turnId"] == turn;
        let resolved = &events.iter().find(is).unwrap()["payload"]["selected"];
        let refs = resolved.as_array().unwrap().iter().map(|one| one["ref"].as_str().unwrap());
        refs.map(|one| one.replace(&format!("thread://{thread}/"), "")).collect()
    };
    assert_eq!(seen("u4"), ["turns/1-3"]);
    assert_eq!(seen("u5"), ["turns/1-2"]);
    assert_eq!(seen("u6"), ["turns/1-2", "turns/5-5"]);
    assert_eq!(seen("u7"), ["summaries/5", "turns/6-6"]);
    assert_eq!(seen("u8"), ["turns/1-2"]);
    rig.stop().await;
}

#[tokio::test]
async fn p5_a_replay_of_a_rolled_back_and_summed_up_session_is_equal() {
    let rig = Rig::start().await;
    rig.turns(["u1", "u2", "u3"]).await;
    rig.compact(json!({ "summary": "in short", "upToTurnId": "u2" })).await;
    rig.rollback(json!({ "turns": 1 })).await;
    rig.turns(["u4", "u5"]).await;
    rig.compact(json!({ "summary": "shorter" })).await;
    rig.replays_equal(json!({})).await;
    rig.rollback(json!({ "toTurnId": "u4" })).await;
    let rig = rig.crash().await;
    for scope in [
        json!({}),
        json!({ "threadId": rig.thread_id().await }),
        json!({ "turnId": "u5" }),
        json!({ "turnId": "u1" }),
    ] {
        rig.replays_equal(scope).await;
    }
    // A summary is about a turn that has ended, not work of it.
    let exported = rig.call("export_evidence", of(json!({}))).await;
    let blob = BlobRef::parse(exported["ref"].as_str().unwrap()).unwrap();
    let (content, _) = rig.runtime.blobs().read_all("local", &blob).await.unwrap();
    let pack: Value = serde_json::from_slice(&content).unwrap();
    let outcomes = pack["verification"].as_array().unwrap();
    assert!(
        !outcomes.is_empty() && outcomes.iter().all(|outcome| outcome["status"] != "failed"),
        "{outcomes:?}"
    );
    rig.stop().await;
}

#[tokio::test]
async fn turns_that_are_tried_anew_again_and_again_leave_the_way_back_open() {
    let rig = Rig::start().await;
    rig.turns(["u1"]).await;
    let names: Vec<String> = (0..90).map(|number| format!("v{number}")).collect();
    for pair in names.chunks(2) {
        let [dropped, kept] = pair else { panic!("an odd number of names") };
        rig.turns([dropped.as_str()]).await;
        rig.rollback(json!({ "turns": 1 })).await;
        rig.turns([kept.as_str()]).await;
    }
    let thread = rig.thread().await;
    assert_eq!((&thread["context"]["turns"], &thread["context"]["rolledBack"]), (&json!(46), &json!(45)));
    let refused = rig.refused("rollback_thread", of(json!({ "turns": 47 }))).await;
    assert_eq!(refused["details"]["field"], "turns");
    let told = rig.rollback(json!({ "toTurnId": "v1" })).await;
    let kept: Vec<&String> = names.iter().skip(1).step_by(2).skip(1).collect();
    assert_eq!(told["turns"], json!(kept));
    // Right over all of them.
    rig.turns(["w1"]).await;
    assert_eq!(rig.compact(json!({ "summary": "s", "upToTurnId": "u1" })).await["turns"], 1);
    assert_eq!(rig.rollback(json!({ "turns": 3 })).await["turns"], json!(["u1", "v1", "w1"]));
    rig.replays_equal(json!({})).await;
    rig.stop().await;
}

#[tokio::test]
async fn p9_as_many_turns_as_may_go_at_once_go_under_the_longest_ids() {
    let rig = Rig::start().await;
    let names: Vec<String> = (0..260).map(|number| format!("{number:x<128}")).collect();
    rig.turns(names.iter().map(String::as_str)).await;
    let far = json!({ "toTurnId": names[0] });
    let far = rig.refuses("rollback_thread", far, "invalid_argument", "toTurnId").await;
    assert!(far["message"].as_str().unwrap().contains("last 257"), "{far}");
    let far = json!({ "upToTurnId": names[0], "summary": "s" });
    rig.refuses("compact_context", far, "invalid_argument", "upToTurnId").await;
    let back = of(json!({ "toTurnId": names[3] }));
    let told = rig.keyed("key-longest", "rollback_thread", back.clone()).await.unwrap();
    assert_eq!((&told.result["turns"], &told.result["remaining"]), (&json!(names[4..]), &json!(4)));
    let rig = rig.crash().await;
    assert_eq!(rig.keyed("key-longest", "rollback_thread", back).await.unwrap(), told);
    assert_eq!(rig.rollback(json!({ "turns": 4 })).await["turns"], json!(names[..4]));
    rig.replays_equal(json!({})).await;
    rig.stop().await;
}
