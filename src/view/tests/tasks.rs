//! Histories of tasks, and what is read from them.

use super::{Story, id};
use crate::{
    fact::{
        Failure, Ref,
        payload::*,
        scope::{ArtifactScope, AttemptScope, TaskScope},
        status::{AttemptStatus, TaskStatus},
    },
    view::{AttemptState, TaskView},
};

fn task() -> TaskScope {
    TaskScope { task: id("task_1") }
}

fn run(name: &str) -> AttemptScope {
    AttemptScope { task: id("task_1"), run: id(name) }
}

fn fold(story: &Story) -> TaskView {
    let mut view = TaskView::default();
    story.facts.iter().for_each(|fact| view.apply(fact));
    view
}

fn created() -> Story {
    let created = TaskCreated {
        status: TaskStatus::Accepted,
        objective: "Sort the books".into(),
        depends_on: vec![id("task_0")],
        ..Default::default()
    };
    Story::default().then(task(), created)
}

fn attempt(story: Story, name: &str, attempt: u32) -> Story {
    story
        .then(
            task(),
            TaskStarted { status: TaskStatus::Running, attempt: Some(attempt), ..Default::default() },
        )
        .then(run(name), TaskAttemptStarted { status: AttemptStatus::Running, attempt, ..Default::default() })
}

fn lost(story: Story, name: &str, status: AttemptStatus) -> Story {
    let failed = TaskAttemptFailed {
        status,
        retryable: true,
        error: Some(Failure::new("gone", "the worker is gone")),
        ..Default::default()
    };
    story
        .then(run(name), failed)
        .then(task(), TaskRetrying { status: TaskStatus::Retrying, attempt: 2, ..Default::default() })
}

#[test]
fn attempts_that_failed_stay_beside_the_one_that_succeeded() {
    let story = lost(attempt(created(), "run_1", 1), "run_1", AttemptStatus::Lost);
    let view = fold(&story);
    assert_eq!((view.status, view.ended_at), (TaskStatus::Retrying, None));
    assert_eq!(view.last_error.as_ref().unwrap().code, "gone");

    let story = attempt(story, "run_2", 2)
        .then(
            run("run_2"),
            TaskAttemptCompleted { status: AttemptStatus::Completed, attempt: 2, ..Default::default() },
        )
        .then(
            task(),
            TaskCompleted {
                status: TaskStatus::Completed,
                evidence_refs: vec![Ref::parse("evidence_1").unwrap()],
                ..Default::default()
            },
        );
    let view = fold(&story);
    assert_eq!((view.status, view.attempts_total), (TaskStatus::Completed, 2));
    assert_eq!(view.current_run_id.as_ref().unwrap().as_str(), "run_2");
    let attempts: Vec<_> =
        view.attempts.iter().map(|attempt| (attempt.status, attempt.native_status)).collect();
    let expected = [(AttemptState::Failed, Some(AttemptStatus::Lost)), (AttemptState::Completed, None)];
    assert_eq!(attempts, expected);
    assert!(view.ended_at.is_some() && view.last_error.is_none());
    assert_eq!(view.evidence_refs[0].as_str(), "evidence_1");
}

#[test]
fn what_was_told_of_as_artifact_is_not_delivered_twice_when_the_task_is_completed() {
    let refs: Vec<_> = (0..9).map(|number| Ref::parse(&format!("artf_{number}")).unwrap()).collect();
    let completed =
        || TaskCompleted { status: TaskStatus::Completed, artifacts: refs.clone(), ..Default::default() };
    let told = refs.iter().fold(created(), |story, artifact| {
        let changed = ArtifactChanged {
            status: Some("delivered".into()),
            artifact_ref: Some(artifact.clone()),
            ..Default::default()
        };
        story.then(ArtifactScope { artifact: id(artifact.as_str()) }, changed)
    });
    let view = fold(&told.then(task(), completed()));
    assert_eq!((view.artifacts.len(), view.artifacts_total), (TaskView::ARTIFACTS_MAX, 9));
    assert!(view.artifacts.iter().all(|delivered| delivered.artifact.is_some()));
    let view = fold(&created().then(task(), completed()));
    assert_eq!((view.artifacts.len(), view.artifacts_total), (TaskView::ARTIFACTS_MAX, 9));
}

#[test]
fn only_the_last_attempts_are_told_of_and_all_are_counted() {
    let story = (1..=13).fold(created(), |story, number| attempt(story, &format!("run_{number}"), number));
    let view = fold(&story);
    assert_eq!((view.attempts.len(), view.attempts_total), (TaskView::ATTEMPTS_MAX, 13));
    assert_eq!(view.attempts[0].run_id.as_str(), "run_4");
}

#[test]
fn a_blocked_task_says_what_it_waits_for_until_it_goes_on() {
    let story = created().then(
        task(),
        TaskBlocked {
            status: TaskStatus::Blocked,
            reason: "dependency".into(),
            waiting_for: vec![id("task_0")],
        },
    );
    let view = fold(&story);
    assert!(view.is_blocked());
    assert_eq!((view.waiting_for.len(), view.status_reason.as_deref()), (1, Some("dependency")));
    let view = fold(&story.then(task(), TaskQueued { status: TaskStatus::Queued, ..Default::default() }));
    assert!(!view.is_blocked() && view.waiting_for.is_empty() && view.status_reason.is_none());
}

#[test]
fn edges_are_added_changed_and_removed() {
    let edge = |removed, status: Option<&str>| TaskDependencyUpdated {
        kind: "depends_on".into(),
        target: id("task_0"),
        status: status.map(Into::into),
        reason: None,
        removed,
    };
    let story = created().then(task(), edge(false, Some("completed")));
    let view = fold(&story);
    let [known] = view.relationships.as_slice() else { panic!("{:?}", view.relationships) };
    assert_eq!((known.target_id.as_str(), known.status.as_deref()), ("task_0", Some("completed")));
    assert!(known.created_at < known.updated_at);
    let view = fold(&story.then(task(), edge(true, None)));
    assert!(view.relationships.is_empty() && view.depends_on.is_empty());
}

#[test]
fn progress_keeps_what_is_not_said_again() {
    let story = created()
        .then(task(), TaskProgress { phase: Some("read".into()), percent: Some(10.0), ..Default::default() })
        .then(task(), TaskProgress { percent: Some(f64::NAN), ..Default::default() })
        .then(task(), TaskProgress { percent: Some(40.0), ..Default::default() });
    let progress = fold(&story).progress.unwrap();
    assert_eq!((progress.phase.as_deref(), progress.percent), (Some("read"), Some(40.0)));
}
