//! What a subagent makes of what comes late, twice, or from nobody.

use cadre_cluster::host::{EffectResult, Input};
use serde_json::{Value, json};

use super::{Command, Subagent};
use crate::{
    entity::{
        Child, Close, Lineage, Message, Parent, Reopened, Slot, Start, SubagentSpec, kind,
        stage::{self, Stage, classes, script, session_id, somebody},
    },
    exec::Source,
    fact::{payload::Payload, status::SubagentStatus},
};

fn stage() -> Stage<Subagent> {
    Stage::new(Subagent(stage::host(Vec::new())), "sub_stage")
}

fn parent(id: &str) -> Option<Parent> {
    Some(Parent { address: somebody(kind::SESSION, id), slot: Slot { turn: None, group: 0 } })
}

fn start(parent: Option<Parent>, steps: &Value) -> Message {
    Message::Start(Box::new(Start {
        session: session_id(),
        parent,
        lineage: Lineage::default(),
        agent: "scripted".into(),
        input: Source::Inline(script(steps)),
        depth: 1,
        what: Child::Subagent(SubagentSpec { deadline_ms: Some(1_000), ..SubagentSpec::default() }),
        budget: None,
    }))
}

/// As the one whom everything on a stage is heard from.
fn own_parent() -> Option<Parent> {
    Some(Parent { address: somebody(kind::SUBAGENT, "sub_somebody"), slot: Slot { turn: None, group: 0 } })
}

fn close() -> Message {
    Message::Close(Close { reason: Some("enough".into()), by: "test".into() })
}

fn child(status: SubagentStatus, live: bool) -> Message {
    let parent = Slot { turn: None, group: 0 };
    Message::ChildEnded { parent, id: "sub_child".into(), status, live, error: None }
}

#[test]
fn a_second_start_by_whomever_changes_nothing() {
    let mut stage = stage();
    assert_eq!(
        stage
            .hear(start(parent("sess_one"), &json!([{ "sleep": 1 }])))
            .first()
            .map(|fact| fact.event_type().as_str()),
        Some("subagent.spawned")
    );
    let before = stage.state.clone();
    assert!(stage.hear(start(parent("sess_one"), &json!([{ "say": "again" }]))).is_empty());
    assert!(stage.hear(start(parent("sess_two"), &json!([{ "say": "stolen" }]))).is_empty());
    assert_eq!(stage.state, before);
}

#[test]
fn what_is_not_a_subagent_and_what_was_never_started_is_nothing() {
    let mut stage = stage();
    assert!(stage.hear(close()).is_empty() && stage.due("turn_1/deadline").is_empty());
    assert!(stage.hear(Message::GoOn { turn: None }).is_empty());
    let command = Command::Close { reason: None, by: "test".into() };
    assert!(stage.give(Input::Command(command)).is_err());
    assert!(stage.state.work.is_none());
}

#[test]
fn p11_it_ends_once_whatever_comes_after() {
    let mut stage = stage();
    stage.hear(start(own_parent(), &json!([{ "sleep": 10_000 }])));
    let turn = stage.last("turn.started").ids.turn().unwrap().to_string();
    assert_eq!(classes(&stage.hear(close())), ["turn.failed", "subagent.closed"]);
    let told = stage.told.len();
    stage.hear(close());
    stage.due(&format!("{turn}/deadline"));
    stage.due(&format!("{turn}/sleep/call_1"));
    stage.hear(Message::GoOn { turn: None });
    stage.hear(child(SubagentStatus::Completed, false));
    stage.hear(Message::ChildClosed { parent: Slot { turn: None, group: 0 } });
    stage.give(Input::Effect { id: format!("{turn}/model"), result: EffectResult::Lost }).unwrap();
    assert_eq!(stage.told.len(), told);
    assert!(stage.state.work.as_ref().unwrap().closed);
}

#[test]
fn only_its_parent_closes_it() {
    let mut stage = stage();
    stage.hear(start(parent("sess_one"), &json!([{ "sleep": 10_000 }])));
    assert!(stage.hear(close()).is_empty());
    let from = somebody(kind::SESSION, "sess_one");
    let told = stage.give(Input::Message { from, message: close() }).unwrap().1;
    assert_eq!(classes(&told), ["turn.failed", "subagent.closed"]);
}

#[test]
fn p11_a_close_waits_for_children_and_a_second_one_does_not_hurry_it() {
    let mut stage = stage();
    stage.hear(start(own_parent(), &json!([{ "spawn": { "count": 2, "script": [] } }])));
    stage.hear(close());
    stage.hear(child(SubagentStatus::Cancelled, true));
    stage.hear(close());
    stage.hear(child(SubagentStatus::Cancelled, false));
    assert_eq!(stage.count("subagent.closed"), 0, "a child's own children go on");
    stage.hear(Message::ChildClosed { parent: Slot { turn: None, group: 0 } });
    assert_eq!(stage.count("subagent.closed"), 1);
}

#[test]
fn a_deadline_ends_it_and_the_timers_of_a_former_attempt_do_not_touch_the_next() {
    let mut stage = stage();
    stage.hear(start(parent("sess_one"), &json!([{ "sleep": 10_000 }])));
    let first = stage.last("turn.started").ids.turn().unwrap().to_string();
    stage.pass(1_000);
    stage.due(&format!("{first}/deadline"));
    let Payload::SubagentFailed(failed) = &stage.last("subagent.failed").payload else { panic!() };
    assert_eq!(failed.status, SubagentStatus::TimedOut);
    let resume = Command::Resume { source: None, reason: None, by: "test".into() };
    stage.give(Input::Command(resume)).unwrap();
    let second = stage.last("turn.started").ids.turn().unwrap().to_string();
    assert_ne!(first, second);
    assert!(stage.due(&format!("{first}/deadline")).is_empty());
    assert_eq!(stage.state.work.as_ref().unwrap().status, SubagentStatus::Running);
    stage.due(&format!("{second}/deadline"));
    assert_eq!(stage.count("subagent.failed"), 2, "each attempt ends once");
}

/// A child that had failed was resumed.
fn goes_on(id: &str, was_closed: bool) -> Message {
    let again = Reopened { id: id.into(), ended_as: Some(SubagentStatus::Failed), was_closed };
    Message::ChildReopened { parent: Slot { turn: None, group: 0 }, again }
}

fn closed(id: &str) -> (String, Option<String>) {
    (id.to_owned(), Some("enough".into()))
}

#[test]
fn p11_an_order_to_close_stands_until_the_tree_is_closed_also_for_who_goes_on_again_below_one_that_has_ended()
{
    let mut stage = stage();
    stage.hear(start(own_parent(), &json!([{ "spawn": { "count": 2, "script": [], "join": "none" } }])));
    assert_eq!(stage.count("subagent.completed"), 1);
    stage.hear(child(SubagentStatus::Failed, false));
    stage.hear(close());
    assert_eq!(stage.closes().len(), 2);
    stage.hear(goes_on("sub_child", true));
    assert_eq!(stage.closes(), [closed("sub_somebody")], "it was resumed, and the order stands");
    stage.hear(goes_on("sub_child", false));
    assert_eq!(stage.closes(), [closed("sub_somebody")], "resumed while children of its own live on");
    stage.hear(child(SubagentStatus::Cancelled, false));
    assert!(!stage.state.work.as_ref().unwrap().closed, "the other one is not closed");
    stage.hear(child(SubagentStatus::Cancelled, false));
    assert!(stage.state.work.as_ref().unwrap().closed);
    stage.hear(goes_on("sub_child", true));
    assert!(stage.closes().is_empty(), "the order was carried out before that");
}

#[test]
fn p11_an_order_to_close_is_not_one_to_what_a_resume_starts_anew() {
    let mut stage = stage();
    let steps =
        json!([{ "spawn": { "count": 2, "script": [], "join": "none" } }, { "fail": { "message": "m" } }]);
    stage.hear(start(own_parent(), &steps));
    while let Some(turn) = stage.timers.keys().find(|name| name.ends_with("/retry")).cloned() {
        stage.due(&turn);
    }
    assert_eq!(stage.count("subagent.failed"), 1);
    stage.hear(close());
    assert_eq!(stage.closes().len(), 2);
    let steps = Some(Source::Inline(script(&json!([{ "sleep": 1_000 }]))));
    stage.give(Input::Command(Command::Resume { source: steps, reason: None, by: "test".into() })).unwrap();
    stage.hear(child(SubagentStatus::Failed, false));
    stage.hear(goes_on("sub_child", true));
    assert!(stage.closes().is_empty(), "it goes on, and so may they");
    stage.hear(close());
    assert_eq!(stage.closes().len(), 2, "all of them are told once more, for any may have gone on again");
}

#[test]
fn p9_an_order_to_close_that_is_given_again_is_told_to_nobody_twice() {
    let mut stage = stage();
    let count = 1_500;
    stage.hear(start(own_parent(), &json!([{ "spawn": { "count": count, "script": [], "join": "none" } }])));
    let go_on = || Message::GoOn { turn: None };
    stage.hear(go_on());
    stage.sent.clear();
    let mut told = 0;
    for _ in 0..5 {
        stage.hear(close());
        told += stage.closes().len();
    }
    stage.hear(go_on());
    assert_eq!(told + stage.closes().len(), count);
}

#[test]
fn p9_of_an_order_to_close_that_stands_no_long_reason_is_kept() {
    let mut stage = stage();
    stage.hear(start(own_parent(), &json!([{ "spawn": { "count": 2, "script": [], "join": "none" } }])));
    let before = stage.stored_bytes();
    stage.hear(Message::Close(Close { reason: Some("\u{fc}".repeat(1_000)), by: "test".into() }));
    assert!(stage.stored_bytes() < before + 400, "{} {before}", stage.stored_bytes());
}
