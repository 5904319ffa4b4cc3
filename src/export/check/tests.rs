//! One feed that is fine, and for each check feeds that it must not let pass.

use std::collections::BTreeMap;

use cadre_cluster::{
    clock::Timestamp,
    feed::Cursor,
    store::{Stamp, Version},
};

use super::Checks;
use crate::fact::{
    Class, Event, Fact, Id,
    id::{ActionId, CallId, SessionId, StepId, TaskId, ThreadId, TurnId},
    payload::*,
    scope::{ActionScope, TaskScope, ToolScope, TurnScope},
    status::{ActionStatus, TaskStatus, TurnStatus},
};

/// A feed, as checks see it.
#[derive(Default)]
struct Feed {
    events: Vec<Event>,
    sequences: BTreeMap<String, u64>,
}

fn turn() -> TurnScope {
    TurnScope { thread: ThreadId::with_suffix("1"), turn: TurnId::with_suffix("1") }
}

fn task() -> TaskScope {
    TaskScope { task: TaskId::with_suffix("1") }
}

fn call() -> ToolScope {
    let TurnScope { thread, turn } = turn();
    ToolScope { thread, turn, step: StepId::with_suffix("1"), call: CallId::with_suffix("1") }
}

fn action() -> ActionScope {
    let TurnScope { thread, turn } = turn();
    ActionScope { thread, turn, action: ActionId::with_suffix("1") }
}

impl Feed {
    fn then<C: Class>(self, scope: C::Scope, payload: C) -> Self {
        let stream = if C::TYPE.as_str().starts_with("task.") { "task:task_1" } else { "session:sess_1" };
        self.says(stream, Fact::new(Timestamp(1), scope, payload))
    }

    fn says(mut self, stream: &str, fact: Fact) -> Self {
        let sequence = self.sequences.entry(stream.to_owned()).or_default();
        *sequence += 1;
        let version = Version(self.events.len() as u64 + 1);
        self.events.push(Event {
            cursor: Cursor::new(0, Stamp::new(version, 0), 0),
            session: SessionId::with_suffix("1"),
            stream: stream.to_owned(),
            sequence: *sequence,
            trace: None,
            fact,
        });
        self
    }

    fn started(self) -> Self {
        self.then(turn(), TurnSubmitted { status: TurnStatus::Accepted, ..Default::default() })
            .then(turn(), TurnStarted::default())
    }

    fn ended(self) -> Self {
        self.then(turn(), TurnCompleted { status: TurnStatus::Completed, ..Default::default() })
    }

    /// A turn that is over.
    fn turn() -> Self {
        Self::default().started().ended()
    }

    /// A task that is over.
    fn task() -> Self {
        Self::default()
            .then(task(), TaskCreated { status: TaskStatus::Accepted, ..Default::default() })
            .then(task(), TaskStarted { status: TaskStatus::Running, ..Default::default() })
            .then(task(), TaskFailed { status: TaskStatus::Failed, ..Default::default() })
    }

    /// The checks that failed.
    fn failed(&self) -> Vec<String> {
        let mut checks = Checks::default();
        for event in &self.events {
            checks.see(event, false);
            checks.take(event);
        }
        let outcomes = checks.outcomes(false).into_iter();
        outcomes.filter(|outcome| outcome.status != "passed").map(|outcome| outcome.name).collect()
    }
}

fn asked() -> ActionRequired {
    ActionRequired { prompt: "?".into(), ..Default::default() }
}

fn answered() -> ActionResolved {
    ActionResolved { status: ActionStatus::Resolved, decision: "allow".into(), ..Default::default() }
}

#[test]
fn a_feed_that_keeps_its_promises_passes_every_check() {
    let feed = Feed::task()
        .then(task(), TaskRetrying { status: TaskStatus::Retrying, ..Default::default() })
        .then(task(), TaskStarted { status: TaskStatus::Running, ..Default::default() })
        .then(task(), TaskUpdated { objective: Some("more".into()), ..Default::default() })
        .then(task(), TaskCompleted { status: TaskStatus::Completed, ..Default::default() })
        .then(task(), TaskArchived::default())
        .started()
        .then(action(), asked())
        .then(action(), answered())
        .then(call(), ToolStarted::default())
        .then(call(), ToolResult::default())
        .ended();
    // Somebody else says that it has delegated to the task: that is about them.
    let feed = feed.says("session:sess_1", Fact::new(Timestamp(1), task(), TaskDelegated::default()));
    assert_eq!(feed.failed(), [""; 0]);
}

#[test]
fn a_gap_in_a_stream_is_noticed() {
    let mut feed = Feed::turn();
    feed.events.remove(1);
    assert_eq!(feed.failed(), ["sequences_are_gapless"]);
}

#[test]
fn a_second_end_is_noticed() {
    assert_eq!(Feed::turn().ended().failed(), ["ends_are_told_once"]);
    let again = Feed::task().then(task(), TaskLost { status: TaskStatus::Lost, ..Default::default() });
    assert_eq!(again.failed(), ["ends_are_told_once"]);
}

#[test]
fn work_after_the_end_of_its_turn_is_noticed() {
    let late: Vec<Feed> = vec![
        Feed::turn().then(turn(), ModelDelta::default()),
        Feed::turn().then(turn(), HookStarted::default()),
        Feed::turn().then(turn(), CostRecorded::default()),
        Feed::turn().then(turn(), PermissionRequested::default()),
        Feed::turn().then(turn(), RateLimitHit::default()),
        Feed::turn().then(turn(), OutputTruncated::default()),
        Feed::turn().started(),
    ];
    for feed in late {
        let last = feed.events.last().map(|event| event.fact.event_type());
        assert_eq!(feed.failed(), ["nothing_follows_an_end"], "{last:?}");
    }
}

#[test]
fn a_word_of_a_task_after_its_end_is_noticed_and_only_a_retry_opens_it_again() {
    let late: Vec<Feed> = vec![
        Feed::task().then(task(), TaskResumed { status: TaskStatus::Running, ..Default::default() }),
        Feed::task().then(task(), TaskQueued { status: TaskStatus::Queued, ..Default::default() }),
        Feed::task().then(task(), TaskUpdated { objective: Some("other".into()), ..Default::default() }),
        Feed::task()
            .then(task(), TaskUpdated { status: Some(TaskStatus::Running), ..Default::default() })
            .then(task(), TaskProgress::default()),
        Feed::task().then(task(), TaskPaused { status: TaskStatus::Paused, ..Default::default() }),
        Feed::task()
            .then(task(), TaskCancelRequested { status: TaskStatus::Cancelling, ..Default::default() }),
    ];
    for feed in late {
        let last = feed.events.last().map(|event| event.fact.event_type());
        assert_eq!(feed.failed(), ["nothing_follows_an_end"], "{last:?}");
    }
}

#[test]
fn a_decision_without_a_question_or_twice_or_for_nobody_is_noticed() {
    let check = ["decisions_are_resolved_or_pending"];
    let begun = || Feed::default().started();
    assert_eq!(begun().then(action(), answered()).ended().failed(), check);
    let twice = begun().then(action(), asked()).then(action(), answered()).then(action(), answered());
    assert_eq!(twice.ended().failed(), check);
    assert_eq!(begun().then(action(), asked()).ended().failed(), check);
    assert_eq!(begun().then(action(), asked()).failed(), [""; 0], "it waits");
}

#[test]
fn a_call_without_an_outcome_is_noticed_once_its_turn_is_over() {
    let called = || Feed::default().started().then(call(), ToolStarted::default());
    assert_eq!(called().failed(), [""; 0]);
    assert_eq!(called().ended().failed(), ["tool_calls_have_an_outcome"]);
    let retried = called().then(call(), ToolFailed { will_retry: true, ..Default::default() });
    assert_eq!(retried.ended().failed(), ["tool_calls_have_an_outcome"]);
}
