//! What a session makes of what comes late, twice, or from nobody.

use std::sync::Arc;

use async_trait::async_trait;
use cadre_cluster::{
    clock::Timestamp,
    host::{EffectResult, Input, Repeat},
};
use serde_json::{Value, json};

use super::{Command, Compaction, Expiry, Reply, Rollback, Seen, Session};
use crate::{
    control,
    entity::{
        Close, Message, Named, Reopened, Slot,
        stage::{self, Stage, classes, script},
    },
    exec::{Outcome, Response, Source, Tool, ToolContext, ToolError, ToolOutput, ToolReturn, ToolSpec},
    fact::{
        Fact, Ids,
        id::{BlobRef, CallId, ThreadId, TurnId},
        payload::Payload,
        status::SubagentStatus,
    },
};

/// A tool that changes something, or that must not run beside others.
struct Careful(ToolSpec);

#[async_trait]
impl Tool for Careful {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn check(&self, _: &Value) -> Result<(), String> {
        Ok(())
    }

    async fn call(&self, _: Value, _: ToolContext) -> Result<ToolReturn, ToolError> {
        Ok(ToolReturn::Value(Value::Null))
    }
}

fn tool(name: &str, read_only: bool, parallel_safe: bool) -> Arc<dyn Tool> {
    Arc::new(Careful(ToolSpec {
        name: name.into(),
        description: "for tests".into(),
        schema: json!({ "type": "object" }),
        read_only,
        parallel_safe,
        repeat: Repeat::Safe,
        deadline_ms: 1_000,
    }))
}

fn stage() -> Stage<Session> {
    let tools = vec![tool("alone", true, false), tool("write", false, true)];
    Stage::new(Session(stage::host(tools)), "sess_stage")
}

impl Stage<Session> {
    fn submit(&mut self, thread: &str, steps: Value) -> TurnId {
        self.submit_with(thread, steps, json!({}))
    }

    fn submit_with(&mut self, thread: &str, steps: Value, options: Value) -> TurnId {
        self.submit_to("scripted", thread, steps, options)
    }

    fn submit_to(&mut self, agent: &str, thread: &str, steps: Value, options: Value) -> TurnId {
        let args = json!({ "sessionId": "sess_stage", "threadId": thread, "agent": agent, "input": [{ "type": "text", "text": "-" }], "options": options });
        let mut args: control::args::SubmitTurn = control::parse(args).unwrap();
        args.input.clear();
        let source = Source::Inline(script(&steps));
        let command = Command::Submit { args: Named(Box::new(args)), source, from: "test".into() };
        match self.give(Input::Command(command)).unwrap().0 {
            Some(Reply::Submitted { turn, .. }) => turn,
            other => panic!("{other:?}"),
        }
    }

    fn queue(&self, thread: &str) -> Vec<TurnId> {
        let threads = &self.state.work.as_ref().unwrap().threads;
        let thread = threads.iter().find(|other| other.id.as_str() == thread).unwrap();
        thread.queue.iter().map(|queued| queued.turn.clone()).collect()
    }

    fn interrupt(&mut self, turn: &TurnId) {
        let args = json!({ "sessionId": "sess_stage", "turnId": turn.as_str() });
        let args = Named(Box::new(control::parse(args).unwrap()));
        self.give(Input::Command(Command::Interrupt { args, by: "test".into() })).unwrap();
    }

    fn calls(&self) -> Vec<CallId> {
        let started = self.told.iter().filter(|fact| matches!(fact.payload, Payload::ToolStarted(_)));
        started.map(|fact| fact.ids.call().unwrap().clone()).collect()
    }

    fn returns(&mut self, turn: &TurnId, call: &CallId) -> Vec<Fact> {
        let output = ToolOutput { structured: Some("1".into()), ..ToolOutput::default() };
        let result = EffectResult::Done(Outcome::Returned(Ok(output)));
        self.give(Input::Effect { id: format!("{turn}/tool/{call}"), result }).unwrap().1
    }
}

fn ended(turn: Option<&TurnId>, group: u32) -> Message {
    Message::ChildEnded {
        parent: Slot { turn: turn.cloned(), group },
        id: "sub_1".into(),
        status: SubagentStatus::Completed,
        live: false,
        error: None,
    }
}

#[test]
fn p3_a_blob_that_expires_is_told_of_where_it_came_from_but_not_long_after_it_was_seen() {
    let mut stage = stage();
    let turn = stage.submit("thrd_1", json!([{ "say": "x" }]));
    let now = stage.now();
    let expiry = |seen| Expiry {
        blob: BlobRef::parse("blob_1").unwrap(),
        at: now,
        size_bytes: 7,
        hash: "ab".into(),
        about: Ids::default().with(turn.clone()),
        seen,
    };
    let hours = |hours: u64| Timestamp(now.0 - hours * 3_600_000);
    let refusal = stage.give(Input::Command(Command::Expire(expiry(hours(13))))).unwrap_err();
    assert_eq!(refusal.to_json()["error"]["details"]["status"], "stale");
    let (reply, told) = stage.give(Input::Command(Command::Expire(expiry(hours(12))))).unwrap();
    assert_eq!((reply, classes(&told)), (Some(Reply::Done), vec!["output.expired"]));
    assert_eq!(
        (told[0].ids.turn(), told[0].ids.output().map(BlobRef::as_str)),
        (Some(&turn), Some("blob_1"))
    );
    let output = stage.state.view.summary.output.as_ref().unwrap();
    assert_eq!((output.expired, output.spilled), (1, 0));
}

#[test]
fn p11_the_result_of_a_tool_that_was_stopped_is_ignored() {
    let mut stage = stage();
    let turn = stage.submit("thrd_1", json!([{ "tool": "sleep", "args": { "ms": 5 } }, { "say": "never" }]));
    let call = stage.calls()[0].clone();
    stage.interrupt(&turn);
    assert_eq!(classes(&stage.told[stage.told.len() - 2..]), ["tool.failed", "turn.failed"]);
    assert!(stage.returns(&turn, &call).is_empty());
    let lost = Input::Effect { id: format!("{turn}/tool/{call}"), result: EffectResult::Lost };
    assert!(stage.give(lost).unwrap().1.is_empty());
    let said = Outcome::Said { attempt: 1, text: "late".into() };
    assert!(
        stage.give(Input::Progress { id: format!("{turn}/model"), progress: said }).unwrap().1.is_empty()
    );
}

#[test]
fn a_thread_that_has_gone_on_since_it_was_looked_at_keeps_its_turns() {
    let mut stage = stage();
    let first = stage.submit("thrd_1", json!([{ "say": "x" }]));
    let seen = |stage: &Stage<Session>| Seen::of(&stage.state.view.threads[0]);
    let rollback = |seen: Seen, turn: &TurnId, number: u64| {
        let rollback = Rollback {
            thread: ThreadId::parse("thrd_1").unwrap(),
            seen,
            to: None,
            turns: vec![(turn.clone(), number)],
            tool_calls: 0,
            reason: None,
            by: "test".into(),
        };
        Input::Command(Command::Rollback(Box::new(rollback)))
    };
    let early = seen(&stage);
    let second = stage.submit("thrd_1", json!([{ "say": "y" }]));
    let refused = stage.give(rollback(early, &first, 1)).unwrap_err();
    assert_eq!((refused.code, &refused.details["status"]), (control::Code::Conflict, &json!("completed")));
    let late = seen(&stage);
    let told = stage.give(rollback(late.clone(), &second, 2)).unwrap().1;
    assert_eq!(classes(&told), ["history.rollback.started", "history.rollback.completed"]);
    // The same once more is about turns that are gone.
    assert!(stage.give(rollback(late, &second, 2)).is_err());
    let compaction = |seen: Seen| {
        let compaction = Compaction {
            thread: ThreadId::parse("thrd_1").unwrap(),
            seen,
            first: None,
            last: first.clone(),
            number: 1,
            turns: 1,
            summary: control::args::SummaryText::Text("in short".into()),
            reason: None,
            by: "test".into(),
        };
        Input::Command(Command::Compact(Box::new(compaction)))
    };
    let unsummed = seen(&stage);
    let told = stage.give(compaction(unsummed.clone())).unwrap().1;
    assert_eq!(classes(&told), ["context.compaction.started", "context.compaction.completed"]);
    assert!(stage.give(compaction(unsummed)).is_err());
}

#[test]
fn p6_a_result_that_comes_twice_counts_once() {
    let mut stage = stage();
    let steps = json!([{ "tool": "sleep" }, { "tool": "sleep" }]);
    let turn = stage.submit("thrd_1", steps);
    let first = stage.calls()[0].clone();
    assert!(classes(&stage.returns(&turn, &first)).contains(&"tool.result"));
    assert!(
        stage.returns(&turn, &first).is_empty(),
        "the second call is not answered by the first one's result"
    );
    let second = stage.calls()[1].clone();
    assert_eq!(classes(&stage.returns(&turn, &second)).last(), Some(&"turn.completed"));
    assert_eq!((stage.count("tool.result"), stage.count("turn.completed")), (2, 1));
}

#[test]
fn what_nobody_has_asked_for_changes_nothing() {
    let mut stage = stage();
    let turn = stage.submit("thrd_1", json!([{ "sleep": 1_000 }, { "say": "x" }]));
    for name in ["", "/", "nonsense", "turn_none/pause", "retry", "timeout"] {
        assert!(stage.due(name).is_empty(), "{name}");
    }
    for name in ["pause", "retry", "sleep/call_none", "action/actn_none", "sleep", "tool/call_none", ""] {
        assert!(stage.due(&format!("{turn}/{name}")).is_empty(), "{name}");
    }
    for id in ["", "nonsense", "turn_none/tool/call_1"] {
        assert!(
            stage.give(Input::Effect { id: id.into(), result: EffectResult::Lost }).unwrap().1.is_empty(),
            "{id}"
        );
    }
    assert!(stage.hear(Message::GoOn { turn: None }).is_empty());
    assert!(stage.hear(Message::GoOn { turn: Some(turn.clone()) }).is_empty());
    let strange = TurnId::parse("turn_none").unwrap();
    for message in [
        ended(None, 9),
        ended(Some(&strange), 0),
        ended(Some(&turn), 7),
        Message::ChildClosed { parent: Slot { turn: Some(turn.clone()), group: 3 } },
        Message::ChildClosed { parent: Slot { turn: None, group: 0 } },
        Message::Close(Close { reason: None, by: "nobody".into() }),
    ] {
        assert!(stage.hear(message).is_empty());
    }
    let run = stage.state.work.as_ref().unwrap().threads[0].run.as_ref().unwrap();
    assert!(!run.is_closing() && run.children.is_empty());
}

#[test]
fn a_session_that_nobody_made_hears_nothing() {
    let mut stage = stage();
    assert!(stage.hear(ended(None, 0)).is_empty() && stage.due("turn_1/deadline").is_empty());
    assert!(stage.give(Input::Command(Command::Archive)).is_err());
    assert!(stage.state.work.is_none());
}

#[test]
fn p11_a_turn_that_is_over_does_not_go_on() {
    let mut stage = stage();
    let turn = stage
        .submit("thrd_1", json!([{ "spawn": { "count": 2, "script": [], "join": "none" } }, { "say": "x" }]));
    assert_eq!(stage.count("turn.completed"), 1);
    let told = stage.told.len();
    stage.hear(Message::GoOn { turn: Some(turn.clone()) });
    stage.due(&format!("{turn}/deadline"));
    stage.hear(ended(Some(&turn), 0));
    assert!(stage.state.work.as_ref().unwrap().is_open(&turn), "one of its children goes on");
    stage.hear(ended(Some(&turn), 0));
    assert!(!stage.state.work.as_ref().unwrap().is_open(&turn));
    stage.hear(ended(Some(&turn), 0));
    stage.interrupt(&turn);
    assert_eq!(stage.told.len(), told, "nothing is said after its end");
}

#[test]
fn p11_a_join_fires_once_and_a_cancel_waits_for_every_child() {
    let mut stage = stage();
    let turn = stage.submit("thrd_1", json!([{ "spawn": { "count": 3, "script": [] } }]));
    stage.hear(ended(Some(&turn), 0));
    stage.interrupt(&turn);
    assert_eq!(stage.count("turn.failed"), 0, "two are not closed");
    stage.interrupt(&turn);
    stage.hear(ended(Some(&turn), 0));
    assert_eq!(stage.count("turn.failed"), 0, "one is not closed");
    stage.hear(ended(Some(&turn), 0));
    assert_eq!(
        (stage.count("turn.failed"), stage.count("tool.result"), stage.count("tool.failed")),
        (1, 0, 1)
    );
    stage.hear(ended(Some(&turn), 0));
    assert_eq!(stage.count("turn.failed"), 1);
}

#[test]
fn p11_a_child_that_is_taken_up_again_while_everything_is_closed_is_waited_for() {
    let mut stage = stage();
    let turn = stage.submit("thrd_1", json!([{ "spawn": { "count": 2, "script": [] } }]));
    stage.hear(ended(Some(&turn), 0));
    stage.interrupt(&turn);
    let parent = Slot { turn: Some(turn.clone()), group: 0 };
    let again = Reopened { id: "sub_1".into(), ended_as: Some(SubagentStatus::Completed), was_closed: true };
    stage.hear(Message::ChildReopened { parent, again });
    stage.hear(ended(Some(&turn), 0));
    assert_eq!(stage.count("turn.failed"), 0, "the one that was taken up again is open");
    let again = Message::ChildEnded {
        parent: Slot { turn: Some(turn.clone()), group: 0 },
        id: "sub_1".into(),
        status: SubagentStatus::Cancelled,
        live: false,
        error: None,
    };
    stage.hear(again);
    assert_eq!(stage.count("turn.failed"), 1);
}

#[test]
fn p11_a_join_waits_for_a_child_that_goes_on_again_and_tells_how_that_ends() {
    let mut stage = stage();
    let turn = stage.submit("thrd_1", json!([{ "spawn": { "count": 2, "script": [] } }]));
    let parent = Slot { turn: Some(turn.clone()), group: 0 };
    let how = |id: &str, status| Message::ChildEnded {
        parent: parent.clone(),
        id: id.into(),
        status,
        live: false,
        error: None,
    };
    stage.hear(how("sub_1", SubagentStatus::Failed));
    let ended_as = Some(SubagentStatus::Failed);
    let again = Reopened { id: "sub_1".into(), ended_as, was_closed: true };
    stage.hear(Message::ChildReopened { parent: parent.clone(), again });
    stage.hear(how("sub_2", SubagentStatus::Completed));
    assert_eq!(stage.count("tool.result"), 0, "one of two goes on");
    stage.hear(how("sub_1", SubagentStatus::Completed));
    assert_eq!((stage.count("tool.result"), stage.count("turn.completed")), (1, 1));
    let Payload::ToolResult(joined) = &stage.last("tool.result").payload else { panic!("another payload") };
    let tally = joined.structured.clone().unwrap();
    assert_eq!((&tally["completed"], &tally["failed"]), (&json!(2), &json!(0)), "{tally:#}");
    assert!(tally.get("notCompleted").is_none(), "{tally:#}");
}

#[test]
fn tools_that_are_not_safe_beside_others_run_alone_and_in_order() {
    let mut stage = stage();
    let steps = json!([{ "tools": [{ "tool": "sleep" }, { "tool": "alone" }, { "tool": "alone" }, { "tool": "sleep" }] }]);
    let turn = stage.submit("thrd_1", steps);
    let mut order = vec![stage.calls().len()];
    for at in 0..4 {
        let call = stage.calls()[at].clone();
        stage.returns(&turn, &call);
        order.push(stage.calls().len());
    }
    assert_eq!(order, [1, 2, 3, 4, 4], "each begins when the one before is observed");
    assert_eq!(stage.count("turn.completed"), 1);
}

#[test]
fn p10_a_tool_that_may_change_something_waits_for_a_decision_and_a_no_is_observed() {
    let mut stage = stage();
    let turn = stage.submit("thrd_1", json!([{ "tool": "write" }, { "say": "went on" }]));
    assert!(stage.calls().is_empty(), "it has not begun");
    let action = stage.last("action.required").ids.action().unwrap().clone();
    let answer = |decision: &str| {
        Command::Respond(Response {
            action: action.clone(),
            decision: decision.into(),
            by: "test".into(),
            reason: None,
            payload: None,
        })
    };
    let wrong = stage.give(Input::Command(answer("perhaps"))).unwrap_err();
    assert_eq!(wrong.field(), Some("decision"));
    stage.give(Input::Command(answer("deny"))).unwrap();
    let Payload::ToolFailed(failed) = &stage.last("tool.failed").payload else { panic!() };
    assert_eq!(failed.error.code, "forbidden");
    assert_eq!(stage.last("turn.completed").ids.turn(), Some(&turn));
    assert!(stage.give(Input::Command(answer("allow"))).is_err(), "decided is decided");
    assert_eq!(stage.count("tool.result"), 0);
}

#[test]
fn p9_a_state_stays_small_whatever_its_runs_wait_for() {
    let mut stage = stage();
    let name = |at: usize| format!("thrd_{at}");
    let args = json!({ "text": "x".repeat(5_000), "ms": 1 });
    let several: Vec<Value> = (0..16).map(|_| json!({ "tool": "sleep", "args": args })).collect();
    for at in 0..6 {
        stage.submit(&name(at), json!([{ "tools": several }]));
    }
    for at in 6..9 {
        let text = "y".repeat(2_000);
        stage.submit(&name(at), json!([{ "approve": { "prompt": text, "decisions": ["yes", "no"] } }]));
    }
    for at in 9..12 {
        let child = json!([{ "say": "z".repeat(15_000) }]);
        stage.submit(&name(at), json!([{ "spawn": { "count": 1_000_000, "script": child } }]));
    }
    for at in 0..64 {
        stage.submit(&name(at % 12), json!([{ "say": "w".repeat(12_000) }]));
    }
    assert_eq!(stage.count("turn.started"), 12);
    let bytes = stage.stored_bytes();
    assert!(bytes < 90 * 1024, "{bytes} bytes");
}

/// What a session keeps free, and so much more.
fn room(bytes: usize) -> usize {
    12 * 1024 + bytes
}

#[test]
fn p7_a_turn_that_waits_for_room_alone_runs_when_the_room_is_there() {
    let mut stage = stage();
    stage.submit("thrd_1", json!([]));
    // Enough for a turn, but not for what is set aside when it is taken and again when it begins.
    stage.room_bytes = room(3_000);
    stage.submit("thrd_1", json!([{ "say": "x" }]));
    assert_eq!(stage.count("turn.started"), 1);
    while stage.go_on() > 0 {}
    assert_eq!(stage.count("turn.completed"), 2);
}

#[test]
fn p7_what_is_taken_out_of_the_queue_makes_room_for_what_waits_in_another_thread() {
    let thread = || ThreadId::parse("thrd_1").unwrap();
    let remove = |turn| Command::RemoveQueued { thread: thread(), turn, by: "test".into() };
    let clear = || {
        let args = json!({ "sessionId": "sess_stage", "threadId": "thrd_1", "turnId": "turn_none", "clearQueue": true });
        let args = Named(Box::new(control::parse(args).unwrap()));
        Command::Interrupt { args, by: "test".into() }
    };
    type Way<'a> = &'a dyn Fn(&mut Stage<Session>, TurnId);
    let ways: [Way<'_>; 4] = [
        &|stage, turn| drop(stage.give(Input::Command(remove(turn))).unwrap()),
        &|stage, _| drop(stage.give(Input::Command(clear())).unwrap()),
        &|stage, turn| stage.interrupt(&turn),
        &|stage, turn| drop(stage.due(&format!("{turn}/deadline"))),
    ];
    for (way, take_out) in ways.into_iter().enumerate() {
        let mut stage = stage();
        stage.submit("thrd_1", json!([{ "sleep": 60_000 }]));
        let waits = stage.submit("thrd_1", json!([]));
        stage.room_bytes = room(3_000);
        stage.submit("thrd_2", json!([{ "say": "x" }]));
        stage.room_bytes = room(1_000);
        while stage.go_on() > 0 {}
        assert_eq!(stage.count("turn.started"), 1, "there is no room for the other");
        take_out(&mut stage, waits);
        stage.room_bytes = room(3_000);
        while stage.go_on() > 0 {}
        assert_eq!(stage.count("turn.started"), 2, "way {way}");
    }
}

#[test]
fn a_turn_that_was_put_to_the_front_or_interrupts_is_not_overtaken_by_an_urgent_one() {
    let mut stage = stage();
    stage.submit("thrd_1", json!([{ "spawn": { "count": 1, "script": [] } }]));
    let priority = |priority: &str| json!({ "priority": priority });
    let normal = stage.submit("thrd_1", json!([]));
    let low = stage.submit_with("thrd_1", json!([]), priority("low"));
    let thread = ThreadId::parse("thrd_1").unwrap();
    let promote = Command::PromoteQueued { thread, turn: low.clone(), by: "test".into() };
    stage.give(Input::Command(promote)).unwrap();
    let Payload::QueueChanged(changed) = &stage.last("queue.changed").payload else { panic!() };
    assert_eq!(changed.by.as_deref(), Some("test"));
    let high = stage.submit_with("thrd_1", json!([]), priority("high"));
    assert_eq!(stage.queue("thrd_1"), [low.clone(), high.clone(), normal.clone()]);
    let interrupts =
        stage.submit_with("thrd_1", json!([]), json!({ "whenBusy": "interrupt", "priority": "low" }));
    let later = stage.submit_with("thrd_1", json!([]), priority("urgent"));
    assert_eq!(
        stage.queue("thrd_1"),
        [interrupts, low, high, later, normal],
        "the running turn is being closed"
    );
}

#[test]
fn p9_a_queue_of_turns_that_all_end_as_they_begin_neither_nests_nor_passes_by_in_one_step() {
    const TURNS: usize = 256;
    let queue = || {
        let mut stage = stage();
        let first = stage.submit("thrd_1", json!([{ "sleep": 60_000 }]));
        for _ in 0..TURNS {
            stage.submit_to("nobody", "thrd_1", json!([]), json!({}));
        }
        stage.interrupt(&first);
        loop {
            let before = stage.count("turn.failed");
            let heard = stage.go_on();
            assert!(stage.count("turn.failed") <= before + 40 * heard.max(1), "too much for one step");
            if heard == 0 {
                break;
            }
        }
        assert_eq!(stage.count("turn.failed"), 1 + TURNS);
    };
    // A frame for each of them would not fit.
    std::thread::Builder::new().stack_size(1024 * 1024).spawn(queue).unwrap().join().unwrap();
}

#[test]
fn p9_turns_of_which_somebody_goes_on_again_are_taken_up_only_while_there_is_room() {
    let mut stage = stage();
    stage.submit("thrd_1", json!([]));
    let goes_on = |at: usize| {
        let turn = TurnId::parse(&format!("turn_{at}")).unwrap();
        let again = Reopened { id: "sub_1".into(), ended_as: Some(SubagentStatus::Failed), was_closed: true };
        Message::ChildReopened { parent: Slot { turn: Some(turn), group: 0 }, again }
    };
    let room_of_the_record = 64 * 1024;
    let mut closed = 0;
    for at in 0..500 {
        stage.room_bytes = room_of_the_record - stage.stored_bytes();
        stage.hear(goes_on(at));
        closed += stage.closes().len();
    }
    let taken_up = stage.state.work.as_ref().unwrap().threads[0].lingering.len();
    assert!(taken_up > 10 && closed > 10 && taken_up + closed >= 500, "{taken_up} {closed}");
    assert!(stage.stored_bytes() < room(0) + 44 * 1024, "{}", stage.stored_bytes());
}

#[test]
fn a_thread_that_is_resumed_asks_the_model_that_was_asked_before_and_again_when_that_fails() {
    let fails = json!([{ "fail": { "message": "m", "retryable": false } }]);
    for asked in [Some("large"), None] {
        let mut stage = stage();
        let options = asked.map_or(json!({}), |model| json!({ "model": model }));
        stage.submit_with("thrd_1", fails.clone(), options);
        for attempt in 2..4 {
            let thread = ThreadId::parse("thrd_1").unwrap();
            stage.give(Input::Command(Command::Resume { thread, by: "test".into() })).unwrap();
            let Payload::TurnSubmitted(submitted) = &stage.last("turn.submitted").payload else { panic!() };
            assert_eq!(submitted.model.as_deref(), asked);
            let Payload::TurnStarted(started) = &stage.last("turn.started").payload else { panic!() };
            assert_eq!((started.model.as_deref(), started.attempt), (asked, attempt));
        }
    }
}
