//! Facts as events: always well-formed, always the same.

use std::collections::BTreeSet;

use cadre_cluster::{
    clock::Timestamp,
    store::{Stamp, Version},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    agui::{About, Event, Fold, Kind, Position, history::Told},
    fact::{
        Cursor, Fact, Failure,
        id::*,
        payload::*,
        scope::{ActionScope, ToolScope, TurnScope},
        status::TurnStatus,
    },
};

fn turn() -> TurnId {
    TurnId::parse("turn_1").unwrap()
}

fn scope() -> TurnScope {
    TurnScope { thread: ThreadId::parse("thrd_1").unwrap(), turn: turn() }
}

fn fact<C: Class<Scope = TurnScope>>(payload: C) -> Fact {
    Fact::new(Timestamp(7), scope(), payload)
}

fn tool<C: Class<Scope = ToolScope>>(call: u8, payload: C) -> Fact {
    let TurnScope { thread, turn } = scope();
    let call = CallId::parse(&format!("call_{call}")).unwrap();
    Fact::new(Timestamp(7), ToolScope { thread, turn, step: StepId::parse("step_1").unwrap(), call }, payload)
}

fn about() -> About {
    About { thread: "t".into(), run: "r".into(), parent: None, state: None }
}

fn told(facts: &[Fact]) -> Vec<Event> {
    let mut fold = Fold::new(about(), turn());
    facts.iter().flat_map(|fact| fold.take(fact)).collect()
}

fn types(events: &[Event]) -> Vec<String> {
    let wire = serde_json::to_value(events).unwrap();
    wire.as_array().unwrap().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

fn text(text: &str) -> Fact {
    fact(ModelDelta { text: text.into(), offset: None })
}

fn asked(step: u32) -> Fact {
    fact(ModelRequested { model: "m".into(), attempt: 1, step, ..Default::default() })
}

fn completed() -> Fact {
    fact(TurnCompleted { status: TurnStatus::Completed, steps: 1, ..Default::default() })
}

fn ended(status: TurnStatus) -> Fact {
    fact(TurnFailed { status, error: Failure::new("boom", "it broke"), ..Default::default() })
}

fn started(call: u8, args: Option<Value>) -> Fact {
    tool(call, ToolStarted { name: "echo".into(), args, ..Default::default() })
}

#[test]
fn a_run_with_a_call_is_told_as_clients_expect_it() {
    let events = told(&[
        fact(TurnSubmitted { source: "api".into(), ..Default::default() }),
        asked(1),
        fact(ReasoningDelta { text: "hm".into() }),
        text("one "),
        text("two"),
        fact(ModelCompleted::default()),
        started(1, Some(json!({ "a": 1 }))),
        tool(1, ToolResult { name: "echo".into(), preview: Some("1".into()), ..Default::default() }),
        asked(2),
        completed(),
        text("after the end"),
    ]);
    assert_eq!(
        types(&events),
        [
            "RUN_STARTED",
            "STEP_STARTED",
            "REASONING_START",
            "REASONING_MESSAGE_START",
            "REASONING_MESSAGE_CONTENT",
            "REASONING_MESSAGE_END",
            "REASONING_END",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "TOOL_CALL_START",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "TOOL_CALL_RESULT",
            "STEP_FINISHED",
            "STEP_STARTED",
            "STEP_FINISHED",
            "RUN_FINISHED",
        ]
    );
    let wire = serde_json::to_value(&events).unwrap();
    assert_eq!(
        wire[0],
        json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r", "protocolVersion": "1.0", "timestamp": 7 })
    );
    assert_eq!(
        wire[8],
        json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": "turn_1.m2", "delta": "one ", "timestamp": 7 })
    );
    assert_eq!(wire[12]["delta"], "{\"a\":1}");
    assert_eq!(
        wire[14],
        json!({ "type": "TOOL_CALL_RESULT", "messageId": "call_1.result", "toolCallId": "call_1", "content": "1", "role": "tool", "timestamp": 7 })
    );
    assert_eq!(wire[18]["outcome"], json!({ "type": "success" }));
}

#[test]
fn what_was_open_when_a_run_ends_is_closed_first() {
    let open = [asked(1), text("half a"), started(1, None), started(2, None)];
    for (end, last) in [
        (completed(), "RUN_FINISHED"),
        (ended(TurnStatus::Cancelled), "RUN_FINISHED"),
        (ended(TurnStatus::Failed), "RUN_ERROR"),
        (ended(TurnStatus::Lost), "RUN_ERROR"),
        (ended(TurnStatus::TimedOut), "RUN_ERROR"),
    ] {
        let events = told(&[&open[..], &[end]].concat());
        well_formed(&events).unwrap();
        assert_eq!(types(&events).last().unwrap(), last);
    }
    let wire = serde_json::to_value(told(&[ended(TurnStatus::Cancelled)])).unwrap();
    assert_eq!(wire[1]["outcome"], json!({ "type": "cancelled" }));
    let wire = serde_json::to_value(told(&[ended(TurnStatus::Failed)])).unwrap();
    assert_eq!(
        wire[1],
        json!({ "type": "RUN_ERROR", "message": "it broke", "code": "boom", "timestamp": 7 })
    );
}

#[test]
fn decisions_that_are_waited_for_are_told_with_what_is_needed_to_answer() {
    let TurnScope { thread, turn } = scope();
    let action = ActionId::parse("actn_1").unwrap();
    let required = ActionRequired {
        action_type: "approval".into(),
        prompt: "Go on?".into(),
        decisions: vec!["allow".into(), "deny".into()],
        ..Default::default()
    };
    let events = told(&[Fact::new(Timestamp(7), ActionScope { thread, turn, action }, required)]);
    let wire = serde_json::to_value(&events).unwrap();
    assert_eq!((&wire[1]["type"], &wire[1]["name"]), (&json!("CUSTOM"), &json!("action.required")));
    assert_eq!(
        (&wire[1]["value"]["actionId"], &wire[1]["value"]["decisions"][0]),
        (&json!("actn_1"), &json!("allow"))
    );
}

#[test]
fn the_state_of_the_client_is_told_once_at_the_beginning() {
    let mut fold = Fold::new(About { state: Some(json!({ "n": 1 })), ..about() }, turn());
    let events: Vec<_> = [asked(1), completed()].iter().flat_map(|fact| fold.take(fact)).collect();
    assert_eq!(types(&events)[..2], ["RUN_STARTED", "STATE_SNAPSHOT"]);
    assert_eq!(events.iter().filter(|event| matches!(event.kind, Kind::StateSnapshot { .. })).count(), 1);
}

#[test]
fn facts_of_other_turns_are_nothing_of_the_run() {
    let other = TurnScope { turn: TurnId::parse("turn_2").unwrap(), ..scope() };
    let mut fold = Fold::new(about(), turn());
    assert_eq!(fold.take(&Fact::new(Timestamp(7), other, TurnCompleted::default())), []);
    assert!(!fold.is_over());
}

#[test]
fn a_run_whose_beginning_or_end_is_gone_is_told_as_far_as_it_goes() {
    let mut fold = Fold::new(about(), turn());
    let mut events = fold.gap(9, json!({ "reason": "trimmed" }));
    events.extend(fold.take(&text("the rest")));
    events.extend(fold.break_off(9, &Failure::new("trimmed", "gone")));
    well_formed(&events).unwrap();
    assert_eq!(types(&events)[..2], ["RUN_STARTED", "CUSTOM"]);
    assert_eq!(types(&events).last().unwrap(), "RUN_ERROR");
    assert!(fold.is_over() && fold.break_off(9, &Failure::default()).is_empty());
}

#[test]
fn the_history_of_a_turn_is_what_its_stream_said() {
    let facts = [
        text("one "),
        text("two"),
        started(1, Some(json!({}))),
        tool(1, ToolResult { name: "echo".into(), preview: Some("r".into()), ..Default::default() }),
        text("three"),
        completed(),
    ];
    let mut history = Told::new(turn());
    let bytes: usize = facts.iter().map(|fact| history.take(fact)).sum();
    let wire = serde_json::to_value(history.messages()).unwrap();
    let said: Vec<_> =
        wire.as_array().unwrap().iter().map(|message| (&message["role"], &message["content"])).collect();
    assert_eq!(
        said,
        [
            (&json!("assistant"), &json!("one two")),
            (&json!("tool"), &json!("r")),
            (&json!("assistant"), &json!("three"))
        ]
    );
    assert_eq!(
        (bytes, &wire[0]["id"], wire[0].get("uiSchema")),
        (13, &json!("turn_1.m1"), Some(&Value::Null))
    );
}

/// What published clients refuse.
fn well_formed(events: &[Event]) -> Result<(), String> {
    let wire = serde_json::to_value(events).unwrap();
    let (mut open, mut over) = (BTreeSet::new(), false);
    for (index, event) in wire.as_array().unwrap().iter().enumerate() {
        let kind = event["type"].as_str().unwrap();
        if over {
            return Err(format!("{kind} after the end"));
        }
        if (index == 0) != (kind == "RUN_STARTED") {
            return Err(format!("{kind} at {index}"));
        }
        if event.as_object().unwrap().values().any(Value::is_null) {
            return Err(format!("null in {event}"));
        }
        let id = ["messageId", "toolCallId", "stepName"].iter().find_map(|name| event[*name].as_str());
        // A result names its message first.
        let id = event["toolCallId"].as_str().or(id).unwrap_or_default().to_owned();
        let (family, what) = match kind.rsplit_once('_') {
            Some((family, what)) if !kind.starts_with("RUN_") => (family, what),
            _ => {
                over = matches!(kind, "RUN_FINISHED" | "RUN_ERROR");
                if over && !open.is_empty() {
                    return Err(format!("open at the end: {open:?}"));
                }
                continue;
            }
        };
        let key = (family.to_owned(), id);
        let fits = match what {
            "START" | "STARTED" => open.insert(key),
            "END" | "FINISHED" => open.remove(&key),
            "CONTENT" | "ARGS" => open.contains(&key),
            "RESULT" => !open.contains(&key),
            _ => true,
        };
        if !fits {
            return Err(format!("{event} with {open:?} open"));
        }
    }
    Ok(())
}

fn any_fact() -> impl Strategy<Value = Fact> {
    prop_oneof![
        1 => Just(fact(TurnSubmitted::default())),
        3 => (1u32..4).prop_map(asked),
        5 => "[a-c]{0,3}".prop_map(|said| text(&said)),
        2 => Just(fact(ModelCompleted::default())),
        1 => any::<bool>().prop_map(|will_retry| fact(ModelFailed { will_retry, ..Default::default() })),
        3 => "[a-c]{0,3}".prop_map(|text| fact(ReasoningDelta { text })),
        1 => "[a-c]{0,3}".prop_map(|text| fact(ReasoningSummary { text })),
        4 => (0u8..3, any::<bool>()).prop_map(|(call, args)| started(call, args.then(|| json!({ "a": 1 })))),
        2 => (0u8..3, any::<bool>()).prop_map(|(call, whole)| tool(call, ToolArgs {
            args: whole.then(|| json!({})), delta: (!whole).then(|| "{".into()), ..Default::default()
        })),
        1 => (0u8..3).prop_map(|call| tool(call, ToolProgress::default())),
        3 => (0u8..3).prop_map(|call| tool(call, ToolResult { name: "echo".into(), ..Default::default() })),
        2 => (0u8..3, any::<bool>()).prop_map(|(call, will_retry)| tool(call, ToolFailed { name: "echo".into(), will_retry, ..Default::default() })),
        1 => Just(completed()),
        1 => prop::sample::select(vec![TurnStatus::Failed, TurnStatus::Cancelled, TurnStatus::Lost]).prop_map(ended),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_is_told_well_formed_and_ends_once(facts in prop::collection::vec(any_fact(), 0..40)) {
        let events = told(&facts);
        prop_assert_eq!(well_formed(&events), Ok(()));
        let ends = facts.iter().any(|fact| matches!(fact.payload, Payload::TurnCompleted(_) | Payload::TurnFailed(_)));
        let last = types(&events).last().cloned().unwrap_or_default();
        prop_assert_eq!(ends, ["RUN_FINISHED", "RUN_ERROR"].contains(&last.as_str()));
    }

    #[test]
    fn p4_wherever_a_reader_was_cut_the_rest_is_what_it_has_not_seen(
        facts in prop::collection::vec(any_fact(), 0..40),
    ) {
        prop_assert_eq!(told(&facts), told(&facts));
        let mut fold = Fold::new(about(), turn());
        let mut all = Vec::new();
        for (fact, version) in facts.iter().zip(1..) {
            let events = fold.take(fact);
            let cursor = Cursor::new(1, Stamp::new(Version(version), 0), 0);
            let positions = (0..events.len()).map(|index| Position::of(cursor, index, events.len()));
            all.extend(positions.zip(events.clone()));
        }
        for (cut, (seen, _)) in all.iter().enumerate() {
            let seen: Position = seen.to_string().parse().unwrap();
            let rest: Vec<_> = all.iter().filter(|(position, _)| *position > seen).collect();
            prop_assert_eq!(rest, all[cut + 1..].iter().collect::<Vec<_>>());
        }
    }
}
