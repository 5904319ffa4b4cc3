//! What entities store, byte by byte: a node reads what former ones wrote, or refuses it by name.
//!
//! Views are maps and hold themselves; what is held here is what has only its order. The states are those of short
//! stories, so that every part of a state that is not a view has something in it.

use std::fmt::Debug;

use cadre_cluster::{
    clock::Timestamp,
    codec::{self, Stored},
    host::Input,
};
use serde_json::{Value, json};

use super::{
    Child, Close, ItemSpec, Job, JobItem, Lineage, Message, Named, Parent, Reopened, Session, Slot, Start,
    Subagent, SubagentSpec, Task, job, kind, records, session,
    stage::{self, Stage, script, session_id, somebody},
    subagent, task,
};
use crate::{
    control,
    exec::Source,
    fact::{
        Failure,
        id::{ItemId, JobId, RunId, SubagentId, TaskId, ThreadId, TurnId},
        status::{ActionStatus, SubagentStatus, TaskStatus},
    },
};

/// The bytes are in `golden/`, a line for each value. Those of a new type are written there by the first run, which fails.
fn hold<T: Stored + PartialEq + Debug>(values: &[T], name: &str) {
    let file = format!("{}/src/entity/golden/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let golden = std::fs::read_to_string(&file).unwrap_or_default();
    let mut lines = String::new();
    for value in values {
        let bytes = codec::encode(value);
        assert_eq!(codec::decode::<T>(&bytes).as_ref(), Ok(value));
        let older = [&[T::VERSION - 1], &bytes[1..]].concat();
        assert!(matches!(codec::decode::<T>(&older), Err(codec::DecodeError::Version { .. })));
        lines.extend(bytes.iter().map(|byte| format!("{byte:02x}")));
        lines.push('\n');
    }
    if golden.is_empty() {
        std::fs::write(&file, &lines).unwrap();
        panic!("{file} is new: look at it, and add it to the commit");
    }
    assert!(
        lines == golden,
        "the layout of a stored {} has changed, which takes another version; it is now\n{lines}",
        T::NAME
    );
}

fn parent() -> Option<Parent> {
    let slot = Slot { turn: Some(TurnId::parse("turn_above").unwrap()), group: 3 };
    Some(Parent { address: somebody(kind::SUBAGENT, "sub_somebody"), slot })
}

fn lineage() -> Lineage {
    Lineage {
        thread: Some(ThreadId::parse("thrd_above").unwrap()),
        turn: Some(TurnId::parse("turn_above").unwrap()),
        task: Some(TaskId::parse("task_above").unwrap()),
        subagent: Some(SubagentId::parse("sub_above").unwrap()),
    }
}

fn start(what: Child, steps: &Value) -> Start {
    Start {
        session: session_id(),
        parent: parent(),
        lineage: lineage(),
        agent: "scripted".into(),
        input: Source::Inline(script(steps)),
        depth: 2,
        what,
        budget: Some(crate::exec::Budget { steps: 9, tokens: Some(8), cost_usd: Some(7.5) }),
    }
}

/// Leaves two children behind, and waits.
fn story() -> Value {
    json!([{ "spawn": { "count": 2, "script": [{ "say": "x" }], "join": "none" } }, { "sleep": 60_000 }])
}

fn close() -> Close {
    Close { reason: Some("enough".into()), by: "test".into() }
}

fn item_spec() -> ItemSpec {
    ItemSpec {
        job: JobId::parse("job_stage").unwrap(),
        item: ItemId::parse("item_1").unwrap(),
        run: RunId::parse("run_1").unwrap(),
        attempt: 2,
        deadline_ms: Some(5),
        retries_max: 3,
        former: None,
    }
}

fn submit(stage: &mut Stage<Session>, thread: &str, steps: &Value, more: Value) {
    let mut args = json!({
        "sessionId": "sess_stage",
        "threadId": thread,
        "agent": "scripted",
        "input": [{ "type": "text", "text": "-" }],
        "options": { "model": "large", "budget": { "steps": 5 }, "deadlineMs": 70_000, "priority": "low" },
    });
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut args: control::args::SubmitTurn = control::parse(args).unwrap();
    args.input.clear();
    let source = Source::Inline(script(steps));
    let command = session::Command::Submit { args: Named(Box::new(args)), source, from: "test".into() };
    stage.give(Input::Command(command)).unwrap();
}

#[test]
fn a_stored_session_is_read_by_later_nodes() {
    let mut stage = Stage::new(Session(stage::host(Vec::new())), "sess_stage");
    let left = json!([{ "spawn": { "count": 1, "script": [], "join": "none" } }]);
    submit(&mut stage, "thrd_1", &left, json!({ "turnId": "turn_named" }));
    submit(&mut stage, "thrd_1", &story(), json!({}));
    submit(&mut stage, "thrd_1", &json!([]), json!({ "turnId": "turn_waits" }));
    let fails = json!([{ "fail": { "message": "m", "retryable": false } }]);
    submit(&mut stage, "thrd_2", &fails, json!({}));
    let thread = &stage.state.work.as_ref().unwrap().threads[0];
    assert!(thread.run.is_some() && thread.queue.len() == 1 && thread.lingering.len() == 1);
    let state = session::State { view: Default::default(), ..stage.state };
    hold(&[state], "session");
}

#[test]
fn a_stored_task_is_read_by_later_nodes() {
    let args = json!({ "objective": "o", "dependsOn": ["task_1"], "timeoutMs": 5_000, "agent": "scripted" });
    let start = start(Child::Task(Named(Box::new(control::parse(args).unwrap()))), &story());
    let mut stage = Stage::new(Task::new(stage::host(Vec::new()), stage::store()), "task_stage");
    stage.give(Input::Command(task::Command::Create(Box::new(start)))).unwrap();
    let blocked = task::State { view: Default::default(), ..stage.state.clone() };
    let ended = |status| Message::DependencyEnded { task: TaskId::parse("task_1").unwrap(), status };
    stage.hear(ended(TaskStatus::Completed));
    stage.hear(Message::Watch { task: TaskId::parse("task_2").unwrap() });
    let cancel = task::Command::Cancel { reason: Some("r".into()), propagate: true, by: "test".into() };
    stage.give(Input::Command(cancel)).unwrap();
    assert_eq!(stage.state.work.as_ref().unwrap().status, TaskStatus::Cancelling);
    let cancelling = task::State { view: Default::default(), ..stage.state };
    hold(&[blocked, cancelling], "task");
}

#[test]
fn a_stored_subagent_is_read_by_later_nodes() {
    let mut stage = Stage::new(Subagent(stage::host(Vec::new())), "sub_stage");
    let spec = SubagentSpec { role: Some("r".into()), deadline_ms: Some(9_000), ..SubagentSpec::default() };
    stage.hear(Message::Start(Box::new(start(Child::Subagent(spec), &story()))));
    let running = subagent::State { view: Default::default(), ..stage.state.clone() };
    stage.hear(Message::Close(close()));
    let closing = subagent::State { view: Default::default(), ..stage.state };
    hold(&[running, closing], "subagent");
}

#[test]
fn a_stored_job_is_read_by_later_nodes() {
    let mut stage = Stage::new(Job::new(stage::host(Vec::new()), stage::store()), "job_stage");
    let prepare = job::Command::Prepare { session: session_id(), fingerprint: 7, items: 3 };
    stage.give(Input::Command(prepare)).unwrap();
    let preparing = job::State { view: Default::default(), ..stage.state.clone() };
    let create = job::Create {
        session: session_id(),
        parent: parent(),
        lineage: lineage(),
        depth: 1,
        fingerprint: 7,
        items: 3,
        spec: Named(Box::new(job::Spec { instruction: "i".into(), ..job::Spec::default() })),
    };
    stage.give(Input::Command(job::Command::Create(Box::new(create)))).unwrap();
    let running = job::State { view: Default::default(), ..stage.state.clone() };
    let cancel = job::Command::Cancel { reason: Some("r".into()), by: "test".into() };
    stage.give(Input::Command(cancel)).unwrap();
    let cancelled = job::State { view: Default::default(), ..stage.state };
    hold(&[preparing, running, cancelled], "job");
}

#[test]
fn a_stored_item_is_read_by_later_nodes() {
    let mut stage = Stage::new(JobItem(stage::host(Vec::new())), "run_1");
    stage.hear(Message::Start(Box::new(start(Child::Item(item_spec()), &story()))));
    assert!(stage.state.work.is_some());
    hold(&[stage.state], "item");
}

#[test]
fn a_message_on_its_way_is_read_by_later_nodes() {
    let slot = || Slot { turn: Some(TurnId::parse("turn_1").unwrap()), group: 2 };
    let task = || TaskId::parse("task_1").unwrap();
    let spec = SubagentSpec { role: Some("r".into()), fingerprint: 7, ..SubagentSpec::default() };
    let job = job::NewJob { fingerprint: 7, items: 3, spec: Named(Box::default()) };
    let started = |what| Message::Start(Box::new(start(what, &json!([]))));
    let ended = |error| Message::ChildEnded {
        parent: slot(),
        id: "sub_1".into(),
        status: SubagentStatus::Failed,
        live: true,
        error,
    };
    let ended_as = Some(SubagentStatus::Failed);
    let messages = [
        Message::GoOn { turn: None },
        started(Child::Subagent(spec)),
        started(Child::Item(item_spec())),
        started(Child::Job(job)),
        Message::Close(close()),
        ended(None),
        ended(Some(Failure::new("c", "m"))),
        Message::ChildClosed { parent: slot() },
        Message::ChildReopened {
            parent: slot(),
            again: Reopened { id: "sub_1".into(), ended_as, was_closed: true },
        },
        Message::Watch { task: task() },
        Message::Unwatch { task: task() },
        Message::DependencyEnded { task: task(), status: TaskStatus::Failed },
        Message::Forget,
    ];
    hold(&messages, "message");
}

#[test]
fn stored_records_are_read_by_later_nodes() {
    let owner = |status| records::Owner { kind: "task".into(), id: "task_1".into(), status };
    hold(&[owner(None), owner(Some(ActionStatus::Expired))], "owner");
    let known = |answered| records::KnownTurn {
        thread: ThreadId::parse("thrd_1").unwrap(),
        fingerprint: 7,
        answered,
    };
    hold(&[known(None), known(Some(TurnId::parse("turn_1").unwrap()))], "known_turn");
    hold(&[records::TurnBack { at: Timestamp(5), to: 4 }], "turn_back");
}
