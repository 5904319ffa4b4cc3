//! Histories of sessions and their turns, and what is read from them.

use super::{Story, call, id, thread, turn};
use crate::{
    fact::{
        Failure,
        id::{ActionId, BlobRef, ThreadId},
        payload::*,
        scope::{ActionScope, SessionScope},
        status::{ActionStatus, SessionStatus, ThreadStatus, TurnStatus},
    },
    view::{SessionView, StepStatus, SubagentView, TurnView, snapshot::ThreadRead},
};

fn fold(story: &Story) -> (SessionView, Vec<TurnView>) {
    let mut view = SessionView::default();
    let ended = story.facts.iter().filter_map(|fact| view.apply(fact)).collect();
    (view, ended)
}

fn begun() -> Story {
    Story::default()
        .then(
            SessionScope {},
            SessionCreated {
                title: Some("Trip".into()),
                agent: Some("scripted".into()),
                ..Default::default()
            },
        )
        .then(thread("t1"), ThreadStarted::default())
}

fn submitted(status: TurnStatus) -> TurnSubmitted {
    TurnSubmitted { status, source: "api".into(), priority: Some("high".into()), ..Default::default() }
}

fn started() -> TurnStarted {
    TurnStarted { agent: "scripted".into(), attempt: 1, ..Default::default() }
}

fn running() -> Story {
    begun().then(turn("u1"), submitted(TurnStatus::Accepted)).then(turn("u1"), started())
}

fn required(story: Story, turn: &str, action: &str, kind: &str) -> Story {
    let scope = ActionScope { thread: id("t1"), turn: id(turn), action: id(action) };
    let payload = ActionRequired {
        action_type: kind.into(),
        prompt: "May I?".into(),
        decisions: vec!["allow".into(), "deny".into()],
        ..Default::default()
    };
    story.then(scope, payload)
}

fn resolved(story: Story, turn: &str, action: &str) -> Story {
    let scope = ActionScope { thread: id("t1"), turn: id(turn), action: id(action) };
    story.then(
        scope,
        ActionResolved { status: ActionStatus::Resolved, decision: "allow".into(), ..Default::default() },
    )
}

fn status(view: &SessionView) -> (ThreadStatus, Option<TurnStatus>) {
    let thread = &view.threads[0];
    (thread.status, thread.turns.first().map(|turn| turn.status))
}

#[test]
fn a_session_without_turns_is_idle() {
    let (view, ended) = fold(&begun());
    assert_eq!((view.title.as_deref(), view.agent.as_deref()), (Some("Trip"), Some("scripted")));
    assert_eq!((view.status, status(&view)), (SessionStatus::Active, (ThreadStatus::Idle, None)));
    assert!(ended.is_empty() && view.created_at < view.updated_at);
}

#[test]
fn what_a_turn_does_is_told_step_by_step_and_leaves_the_state_when_it_ends() {
    let story = running()
        .then(
            turn("u1"),
            RoutingDecided {
                selected_model: "m".into(),
                decision_source: "agent".into(),
                ..Default::default()
            },
        )
        .then(turn("u1"), ModelRequested { model: "m".into(), ..Default::default() })
        .then(turn("u1"), ModelDelta { text: "Hello ".into(), ..Default::default() });
    let (view, _) = fold(&story);
    assert_eq!(status(&view), (ThreadStatus::Running, Some(TurnStatus::Streaming)));
    assert_eq!(view.threads[0].active_turn_id.as_ref().unwrap().as_str(), "u1");

    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Default::default() };
    let story = story
        .then(turn("u1"), ModelDelta { text: "world".into(), ..Default::default() })
        .then(turn("u1"), ModelCompleted { usage: Some(usage.clone()), calls: 1, ..Default::default() })
        .then(
            call("u1", "c1"),
            ToolStarted {
                name: "big".into(),
                args: Some(serde_json::json!({ "bytes": 9 })),
                ..Default::default()
            },
        )
        .then(
            call("u1", "c1"),
            ToolResult { name: "big".into(), preview: Some("xxx".into()), ..Default::default() },
        )
        .with::<BlobRef>("blob_1")
        .then(turn("u1"), TurnCompleted { status: TurnStatus::Completed, steps: 2, ..Default::default() });
    let (view, ended) = fold(&story);
    assert_eq!(status(&view), (ThreadStatus::Completed, None));
    assert_eq!(view.threads[0].active_turn_id, None);
    let [turn] = ended.as_slice() else { panic!("{ended:?}") };
    assert_eq!((turn.number, turn.status), (Some(1), TurnStatus::Completed));
    assert_eq!((turn.text.as_str(), turn.text_bytes, &turn.usage), ("Hello world", 11, &Some(usage)));
    let steps: Vec<_> = turn
        .steps
        .iter()
        .map(|step| (step.name.as_deref().unwrap(), step.preview.as_deref(), step.status))
        .collect();
    assert_eq!(
        steps,
        [("m", Some("Hello world"), StepStatus::Completed), ("big", Some("xxx"), StepStatus::Completed)]
    );
    assert_eq!(turn.output_refs[0].reference.as_str(), "blob_1");
    assert_eq!(turn.routing_decision.as_ref().unwrap().selected_model.as_deref(), Some("m"));
    assert_eq!(view.summary.routing, turn.routing_decision);
}

#[test]
fn a_thread_is_blocked_for_as_long_as_any_decision_is_waited_for() {
    let story = required(running(), "u1", "a1", "tool_permission");
    let story = required(story, "u1", "a2", "input");
    let (view, _) = fold(&story);
    assert_eq!(status(&view), (ThreadStatus::Blocked, Some(TurnStatus::WaitingPermission)));
    let read = ThreadRead::of(&view, &view.threads[0], None);
    assert_eq!(read.pending_requests.len(), 2);
    assert_eq!(read.pending_requests[0].decisions, ["allow", "deny"]);

    let story = resolved(story, "u1", "a1");
    assert_eq!(status(&fold(&story).0), (ThreadStatus::Blocked, Some(TurnStatus::WaitingInput)));
    let story = resolved(story, "u1", "a2");
    let (view, _) = fold(&story);
    assert_eq!(status(&view), (ThreadStatus::Running, Some(TurnStatus::Running)));
    assert!(!view.threads[0].turns[0].is_pending());
}

#[test]
fn decisions_beyond_what_is_told_of_still_block() {
    let names: Vec<_> = (0..11).map(|number| format!("a{number}")).collect();
    let story = names.iter().fold(running(), |story, name| required(story, "u1", name, "approval"));
    let (view, _) = fold(&story);
    let turn = &view.threads[0].turns[0];
    assert_eq!((turn.pending_requests.len(), turn.pending_omitted), (TurnView::PENDING_MAX, 3));
    let story = names.iter().skip(1).fold(story, |story, name| resolved(story, "u1", name));
    assert_eq!(status(&fold(&story).0).0, ThreadStatus::Blocked);
    assert_eq!(status(&fold(&resolved(story, "u1", "a0")).0).0, ThreadStatus::Running);
}

#[test]
fn the_queue_is_told_in_its_order_with_what_was_submitted() {
    let queued = |story: Story, name: &str| story.then(turn(name), submitted(TurnStatus::Queued));
    let story = queued(queued(queued(running(), "u2"), "u3"), "u4").then(
        thread("t1"),
        QueueChanged {
            change: QueueChange::Promoted,
            queue: vec![id("u4"), id("u2"), id("u3")],
            ..Default::default()
        },
    );
    let (view, _) = fold(&story);
    let queue = view.threads[0].queued_turns();
    let order: Vec<_> = queue.iter().map(|turn| (turn.turn_id.as_str(), turn.position)).collect();
    assert_eq!(order, [("u4", 1), ("u2", 2), ("u3", 3)]);
    assert!(queue.iter().all(|turn| turn.source.as_deref() == Some("api") && turn.submitted_at.is_some()));

    let story = story
        .then(turn("u1"), TurnFailed { status: TurnStatus::Cancelled, ..Default::default() })
        .then(
            turn("u2"),
            TurnFailed {
                status: TurnStatus::Cancelled,
                reason: Some("removed".into()),
                ..Default::default()
            },
        )
        .then(turn("u4"), started());
    let (view, ended) = fold(&story);
    let numbers: Vec<_> = ended.iter().map(|turn| (turn.turn_id.as_str(), turn.number.unwrap())).collect();
    assert_eq!(numbers, [("u1", 1), ("u2", 2)]);
    assert!(ended[1].submitted_at.is_some() && ended[1].started_at.is_none());
    let left: Vec<_> = view.threads[0].queue.iter().map(|turn| turn.as_str()).collect();
    assert_eq!((left.as_slice(), view.threads[0].status), (["u3"].as_slice(), ThreadStatus::Running));
}

#[test]
fn how_the_last_turn_ended_is_how_an_idle_thread_stands() {
    for (ended, expected, incidents) in [
        (TurnStatus::Failed, ThreadStatus::Failed, 1),
        (TurnStatus::TimedOut, ThreadStatus::Failed, 1),
        (TurnStatus::Cancelled, ThreadStatus::Cancelled, 0),
        (TurnStatus::Lost, ThreadStatus::Unknown, 1),
    ] {
        let error = Failure::new("code", "message");
        let story = running().then(turn("u1"), TurnFailed { status: ended, error, ..Default::default() });
        let (view, turns) = fold(&story);
        assert_eq!((view.threads[0].status, turns[0].status), (expected, ended));
        assert_eq!(view.incidents_of(&id::<ThreadId>("t1")).len(), incidents, "{ended}");
    }
}

#[test]
fn a_failed_request_that_is_repeated_is_retrying() {
    let failed = ModelFailed {
        error: Failure::new("overloaded", "later").retryable(),
        will_retry: true,
        ..Default::default()
    };
    let story = running().then(turn("u1"), ModelRequested::default()).then(turn("u1"), failed);
    assert_eq!(status(&fold(&story).0), (ThreadStatus::Running, Some(TurnStatus::Retrying)));
    let story = story.then(turn("u1"), ModelRequested::default());
    assert_eq!(status(&fold(&story).0).1, Some(TurnStatus::Streaming));
}

#[test]
fn facts_after_its_end_do_not_bring_a_turn_back() {
    let story = running()
        .then(turn("u1"), TurnCompleted { status: TurnStatus::Completed, ..Default::default() })
        .then(turn("u1"), ModelDelta { text: "late".into(), ..Default::default() });
    let story = required(story, "u1", "a1", "approval");
    let (view, ended) = fold(&story);
    assert_eq!((status(&view), ended.len()), ((ThreadStatus::Completed, None), 1));
}

#[test]
fn only_the_turns_heard_of_last_are_told_of_in_detail() {
    let mut story = begun();
    for number in 0..10 {
        let name = format!("u{number}");
        story = story
            .then(turn(&name), started())
            .then(turn(&name), ModelRequested::default())
            .then(turn(&name), ModelDelta { text: "words".into(), ..Default::default() });
    }
    let (view, _) = fold(&story);
    let detailed: Vec<_> = view.threads[0].turns.iter().map(|turn| !turn.steps.is_empty()).collect();
    assert_eq!(detailed, [false, false, true, true, true, true, true, true, true, true]);
    assert!(view.threads[0].turns.iter().all(|turn| turn.steps_total == 1 && turn.text_bytes == 5));
}

#[test]
fn a_subagent_tells_of_its_turn_and_is_small_when_it_has_ended() {
    use crate::fact::{
        Ids,
        id::{SubagentId, TurnId},
        scope::SubagentScope,
        status::SubagentStatus,
    };
    let scope = || SubagentScope { subagent: id("sub_1") };
    let around =
        Ids::default().with(id::<ThreadId>("t1")).with(id::<TurnId>("u1")).with(id::<SubagentId>("sub_1"));
    let spawned = SubagentSpawned {
        status: SubagentStatus::Queued,
        agent: "scripted".into(),
        depth: 2,
        parent_turn_id: Some(id("u0")),
        ..Default::default()
    };
    let story = Story::default()
        .then(scope(), spawned)
        .then(turn("u1"), started())
        .then(turn("u1"), ModelRequested { model: "script".into(), ..Default::default() })
        .then(turn("u1"), ModelDelta { text: "done".into(), ..Default::default() })
        .then(turn("u1"), ModelCompleted::default())
        .then(turn("u1"), TurnCompleted { status: TurnStatus::Completed, steps: 1, ..Default::default() })
        .then(scope(), SubagentCompleted { status: SubagentStatus::Completed, ..Default::default() })
        .within(&around);
    let mut view = SubagentView::default();
    story.facts.iter().for_each(|fact| view.apply(fact));
    assert_eq!((view.status, view.depth, view.attempt), (SubagentStatus::Completed, 2, 1));
    assert_eq!(view.turn.as_ref().unwrap().text, "done");
    assert!(view.ended_at.is_some() && view.is_over());
    let read = ThreadRead::of_subagent(&view).unwrap();
    assert_eq!((read.status, read.turns.len()), (ThreadStatus::Completed, 1));
    let size = serde_json::to_string(&view).unwrap().len();
    assert!(size < 1024, "{size} bytes");
}

#[test]
fn an_action_that_nobody_waits_for_any_more_is_over_with_its_turn() {
    let story = required(running(), "u1", "a1", "approval")
        .then(turn("u1"), TurnFailed { status: TurnStatus::Cancelled, ..Default::default() });
    let (view, ended) = fold(&story);
    assert_eq!(view.threads[0].status, ThreadStatus::Cancelled);
    assert_eq!(ended[0].steps[0].status, StepStatus::Cancelled);
    assert_eq!(ended[0].steps[0].action_id, Some(id::<ActionId>("a1")));
    assert!(!ended[0].is_pending());
}

#[test]
fn a_queue_longer_than_can_be_told_of_empties_all_the_same() {
    let names: Vec<_> = (0..80).map(|number| format!("q{number}")).collect();
    let story =
        names.iter().fold(running(), |story, name| story.then(turn(name), submitted(TurnStatus::Queued)));
    let (view, _) = fold(&story);
    let thread = &view.threads[0];
    assert_eq!(thread.queue.len() + thread.queue_omitted as usize, 80);
    assert!(thread.queue_omitted > 0);
    let done = || TurnCompleted { status: TurnStatus::Completed, ..Default::default() };
    let story = names.iter().fold(story.then(turn("u1"), done()), |story, name| {
        story.then(turn(name), started()).then(turn(name), done())
    });
    let (view, ended) = fold(&story);
    assert_eq!((status(&view), ended.len()), ((ThreadStatus::Completed, None), 81));
    assert_eq!(view.threads[0].queue_omitted, 0);
}
