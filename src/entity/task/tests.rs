//! What a task makes of what comes late, twice, or from nobody.

use cadre_cluster::host::{EffectResult, Input};
use serde_json::{Value, json};

use super::{Command, Task};
use crate::{
    control,
    entity::{
        Child, Close, Lineage, Message, Named, Parent, Reopened, Slot, Start, kind,
        stage::{self, Stage, classes, session_id, somebody},
    },
    exec::{Outcome, Source},
    fact::{
        Part,
        id::TaskId,
        payload::Payload,
        status::{SubagentStatus, TaskStatus},
    },
};

fn stage(more: Value) -> Stage<Task> {
    stage_of(more, Vec::new())
}

fn scripted(steps: &Value) -> Stage<Task> {
    stage_of(json!({ "agent": "scripted" }), stage::script(steps))
}

fn stage_of(more: Value, input: Vec<Part>) -> Stage<Task> {
    let mut args = json!({ "objective": "o" });
    args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let start = Start {
        session: session_id(),
        parent: None,
        lineage: Lineage::default(),
        agent: "scripted".into(),
        input: Source::Inline(input),
        depth: 0,
        what: Child::Task(Named(Box::new(control::parse(args).unwrap()))),
        budget: None,
    };
    let mut stage = Stage::new(Task::new(stage::host(Vec::new()), stage::store()), "task_stage");
    stage.give(Input::Command(Command::Create(Box::new(start)))).unwrap();
    stage
}

fn by() -> String {
    "test".into()
}

fn task(id: &str) -> TaskId {
    TaskId::parse(id).unwrap()
}

impl Stage<Task> {
    fn status(&self) -> TaskStatus {
        self.state.work.as_ref().unwrap().status
    }

    fn tell(&mut self, command: Command) {
        self.give(Input::Command(command)).unwrap();
    }

    fn update(&mut self, change: Value) {
        let mut args = json!({ "taskId": "task_stage" });
        args.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        self.tell(Command::Update(Named(Box::new(control::parse(args).unwrap()))));
    }

    fn make_progress(&mut self) {
        let args = control::parse(json!({ "taskId": "task_stage", "summary": "s" })).unwrap();
        self.tell(Command::Progress(Named(Box::new(args))));
    }

    /// Somebody has looked whether it waits for itself.
    fn looked(&mut self, found: bool) {
        let result = EffectResult::Done(Outcome::Cycle { found });
        self.give(Input::Effect { id: "cycle".into(), result }).unwrap();
    }

    fn looks(&self) -> usize {
        self.effects.iter().filter(|effect| *effect == "cycle").count()
    }

    fn complete(&mut self) {
        let args = control::parse(json!({ "taskId": "task_stage" })).unwrap();
        self.tell(Command::Complete { args: Named(Box::new(args)), by: by() });
    }
}

#[test]
fn p11_a_task_that_is_over_is_neither_late_nor_lost_nor_tried_again() {
    let policy = json!({ "maxAttempts": 3, "backoffMs": 1, "maxBackoffMs": 1 });
    let mut stage =
        stage(json!({ "timeoutMs": 5, "constraints": { "heartbeatMs": 5 }, "retryPolicy": policy }));
    stage.complete();
    let told = stage.told.len();
    for name in ["timeout", "heartbeat", "retry", "nonsense", "turn_1/deadline"] {
        stage.due(name);
    }
    stage.hear(Message::Close(Close { reason: None, by: by() }));
    stage.hear(Message::GoOn { turn: None });
    stage.hear(Message::DependencyEnded { task: task("task_other"), status: TaskStatus::Completed });
    assert_eq!((stage.told.len(), stage.status()), (told, TaskStatus::Completed));
}

#[test]
fn a_task_is_closed_by_nobody_who_is_not_its_parent() {
    let mut stage = stage(json!({}));
    assert!(stage.hear(Message::Close(Close { reason: None, by: by() })).is_empty());
    assert_eq!(stage.status(), TaskStatus::Running);
}

#[test]
fn p11_a_retry_that_was_waiting_does_not_come_after_a_cancel() {
    let policy = json!({ "maxAttempts": 3, "backoffMs": 1_000, "maxBackoffMs": 1_000 });
    let mut stage = stage(json!({ "retryPolicy": policy }));
    let error = crate::fact::Failure::new("broken", "m").retryable();
    stage.tell(Command::Fail { error, by: by() });
    assert_eq!(stage.status(), TaskStatus::Retrying);
    stage.due("timeout");
    assert_eq!(stage.status(), TaskStatus::Retrying, "an attempt that is over cannot be too late");
    stage.tell(Command::Cancel { reason: None, propagate: true, by: by() });
    assert_eq!(stage.status(), TaskStatus::Cancelled);
    let told = stage.told.len();
    stage.due("retry");
    assert_eq!((stage.told.len(), stage.count("task.attempt.started")), (told, 1));
}

#[test]
fn only_what_it_waits_for_unblocks_it_and_only_when_it_completes() {
    let mut stage = stage(json!({ "dependsOn": ["task_1", "task_2"] }));
    let ended = |id: &str, status| Message::DependencyEnded { task: task(id), status };
    assert!(stage.hear(ended("task_3", TaskStatus::Completed)).is_empty(), "nobody waits for that one");
    stage.hear(ended("task_1", TaskStatus::Failed));
    stage.hear(ended("task_2", TaskStatus::Completed));
    assert_eq!(stage.status(), TaskStatus::Blocked);
    assert!(stage.hear(ended("task_2", TaskStatus::Failed)).is_empty(), "completed is completed");
    stage.hear(ended("task_1", TaskStatus::Completed));
    assert_eq!(stage.status(), TaskStatus::Running);
    assert!(stage.hear(ended("task_1", TaskStatus::Completed)).is_empty());
    assert_eq!(stage.count("task.attempt.started"), 1);
}

#[test]
fn a_task_that_nobody_made_says_so_to_who_waits_and_nothing_else() {
    let mut stage = Stage::new(Task::new(stage::host(Vec::new()), stage::store()), "task_stage");
    let watch = Message::Watch { task: task("task_1") };
    let from = somebody(kind::TASK, "task_1");
    assert!(stage.give(Input::Message { from, message: watch }).unwrap().1.is_empty());
    assert!(stage.hear(Message::Close(Close { reason: None, by: by() })).is_empty());
    assert!(stage.due("timeout").is_empty());
    assert!(stage.give(Input::Command(Command::Start { by: by(), reason: None })).is_err());
    assert!(stage.state.work.is_none());
}

#[test]
fn a_message_of_a_child_that_it_never_had_changes_no_count() {
    let mut stage = stage(json!({}));
    let from = somebody(kind::TASK, "task_strange");
    let parent = Slot { turn: None, group: 4 };
    let ended = Message::ChildEnded {
        parent,
        id: "task_strange".into(),
        status: SubagentStatus::Failed,
        live: false,
        error: None,
    };
    let (_, told) = stage.give(Input::Message { from, message: ended }).unwrap();
    assert!(classes(&told).is_empty());
    stage.complete();
    assert_eq!(stage.status(), TaskStatus::Completed);
}

#[test]
fn p11_an_order_to_close_holds_for_all_below_a_task_whichever_part_of_it_is_still_open() {
    let mut stage = scripted(&json!([{ "spawn": { "count": 2, "script": [], "join": "none" } }]));
    assert_eq!(stage.status(), TaskStatus::Completed);
    stage.tell(Command::Cancel { reason: Some("enough".into()), propagate: true, by: by() });
    assert_eq!(stage.closes().len(), 2);
    // What its attempt has started is being closed, and a part of it that had failed goes on.
    let again = |was_closed| {
        let again = Reopened { id: "task_part".into(), ended_as: Some(SubagentStatus::Failed), was_closed };
        Message::ChildReopened { parent: Slot { turn: None, group: 0 }, again }
    };
    for was_closed in [true, false] {
        stage.hear(again(was_closed));
        assert_eq!(stage.closes(), [("sub_somebody".to_owned(), Some("enough".to_owned()))]);
    }
}

#[test]
fn p11_a_task_that_was_cancelled_alone_and_is_then_closed_with_its_parent_passes_that_on() {
    let mut stage = stage(json!({}));
    let above = Slot { turn: None, group: 0 };
    stage.state.work.as_mut().unwrap().parent =
        Some(Parent { address: somebody(kind::SUBAGENT, "sub_somebody"), slot: above.clone() });
    let args = json!({ "sessionId": "sess_stage", "taskId": "task_stage", "input": [{ "type": "text", "text": "[]" }] });
    let args = Named(Box::new(control::parse(args).unwrap()));
    stage.tell(Command::Spawn { args, source: Source::text("[]") });
    stage.tell(Command::Cancel { reason: None, propagate: false, by: by() });
    assert_eq!((stage.status(), stage.closes().len()), (TaskStatus::Cancelled, 0));
    stage.hear(Message::Close(Close { reason: Some("enough".into()), by: by() }));
    assert_eq!(stage.closes().len(), 1);
    let again = Reopened { id: "sub_1".into(), ended_as: Some(SubagentStatus::Failed), was_closed: false };
    stage.hear(Message::ChildReopened { parent: above, again });
    assert_eq!(stage.closes(), [("sub_somebody".to_owned(), Some("enough".to_owned()))]);
}

#[test]
fn p6_a_worker_outside_that_shows_signs_of_life_is_not_lost_whoever_is_to_run_the_next_attempt() {
    let mut stage = stage(json!({ "constraints": { "heartbeatMs": 500 } }));
    stage.update(json!({ "agent": "scripted" }));
    for _ in 0..3 {
        stage.pass(400);
        stage.make_progress();
        assert_eq!(stage.timers.get("heartbeat"), Some(&stage.now().in_ms(500)));
    }
    stage.update(json!({ "constraints": {} }));
    assert_eq!(stage.timers.get("heartbeat"), None, "nobody asks for signs of life any more");
    stage.update(json!({ "constraints": { "heartbeatMs": 100 } }));
    assert_eq!(stage.timers.get("heartbeat"), Some(&stage.now().in_ms(100)));
}

#[test]
fn p7_a_task_looks_again_whether_it_waits_for_itself_when_it_waits_once_more() {
    let mut stage = stage(json!({ "dependsOn": ["task_1"] }));
    assert_eq!(stage.looks(), 1);
    stage.tell(Command::Pause { reason: None, by: by() });
    stage.looked(true);
    assert_eq!(stage.status(), TaskStatus::Paused);
    stage.tell(Command::Resume { by: by(), reason: None });
    assert_eq!((stage.status(), stage.looks()), (TaskStatus::Blocked, 2));
    stage.looked(true);
    assert_eq!(stage.status(), TaskStatus::Failed);
    stage.tell(Command::Retry { reason: None, by: by() });
    assert_eq!((stage.status(), stage.looks()), (TaskStatus::Blocked, 3));
    stage.looked(false);
    assert_eq!(stage.status(), TaskStatus::Blocked);
}

#[test]
fn a_task_that_somebody_starts_or_retries_says_who() {
    let mut stage = stage(json!({ "autoStart": false }));
    let who = |stage: &Stage<Task>| match &stage.last("task.started").payload {
        Payload::TaskStarted(started) => started.by.clone(),
        other => panic!("{other:?}"),
    };
    stage.tell(Command::Start { by: by(), reason: None });
    assert_eq!(who(&stage), Some(by()));
    stage.tell(Command::Fail { error: crate::fact::Failure::new("c", "m"), by: by() });
    stage.tell(Command::Retry { reason: None, by: "another".into() });
    assert_eq!(who(&stage), Some("another".into()));
}
