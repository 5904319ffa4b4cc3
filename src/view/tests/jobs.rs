//! Histories of jobs and their items, and what is read from them.

use super::{Story, id};
use crate::{
    fact::{
        Failure,
        id::ItemId,
        payload::*,
        scope::{ItemScope, JobScope},
        status::{ItemStatus, JobStatus},
    },
    view::{ItemCounts, ItemView, JobView, ReadModels},
};

fn job() -> JobScope {
    JobScope { job: id("job_1") }
}

fn item(name: &str) -> ItemScope {
    ItemScope { job: id("job_1"), item: id(name) }
}

fn created(items: u32) -> Story {
    let created =
        JobCreated { status: JobStatus::Accepted, instruction: "each".into(), items, ..Default::default() };
    Story::default().then(job(), created)
}

fn begun(story: Story, name: &str, attempt: u32) -> Story {
    story.then(item(name), JobItemStarted { status: ItemStatus::Running, attempt, ..Default::default() })
}

fn failed(story: Story, name: &str, status: ItemStatus, attempt: u32, will_retry: bool) -> Story {
    let error = Failure::new("code", "message");
    story.then(item(name), JobItemFailed { status, error, attempt, will_retry, ..Default::default() })
}

fn done(story: Story, name: &str, attempt: u32) -> Story {
    story.then(item(name), JobItemCompleted { status: ItemStatus::Completed, attempt, ..Default::default() })
}

fn fold(story: &Story) -> (JobView, ReadModels) {
    let mut models = ReadModels::default();
    story.facts.iter().for_each(|fact| models.apply("job:job_1", fact));
    (models.jobs[&id("job_1")].clone(), models)
}

fn item_of(models: &ReadModels, name: &str) -> ItemView {
    models.items[&(Some(id("job_1")), id::<ItemId>(name))].clone()
}

#[test]
fn counts_follow_the_items() {
    let story = begun(begun(created(4), "i1", 1), "i2", 1);
    let counts = fold(&story).0.counts;
    assert_eq!(counts, ItemCounts { total: 4, pending: 2, running: 2, ..Default::default() });

    let story = failed(done(story, "i1", 1), "i2", ItemStatus::Failed, 1, true);
    let (view, models) = fold(&story);
    assert_eq!(view.counts, ItemCounts { total: 4, pending: 3, completed: 1, ..Default::default() });
    assert_eq!(item_of(&models, "i2").status, ItemStatus::Pending);

    let story = failed(begun(story, "i2", 2), "i2", ItemStatus::TimedOut, 2, false);
    let story = failed(story, "i3", ItemStatus::Cancelled, 0, false);
    let (view, models) = fold(&story);
    let expected = ItemCounts { total: 4, pending: 1, running: 0, completed: 1, failed: 1, cancelled: 1 };
    assert_eq!((view.counts, view.counts.percent()), (expected, Some(75.0)));
    let last = item_of(&models, "i2");
    assert_eq!((last.status, last.attempt, last.attempts_total), (ItemStatus::TimedOut, 2, 2));
    assert!(last.ended_at > last.started_at && last.last_error.is_some());
}

#[test]
fn what_the_job_says_of_its_items_counts_more_than_what_was_added_up() {
    let progress =
        JobProgress { total: 4, pending: 1, running: 1, completed: 2, percent: 50.0, ..Default::default() };
    let (view, _) = fold(&begun(created(4), "i1", 1).then(job(), progress));
    assert_eq!((view.counts.completed, view.counts.running), (2, 1));
    let end = JobCancelled {
        status: JobStatus::Cancelled,
        total: 4,
        completed: 2,
        cancelled: 2,
        ..Default::default()
    };
    let (view, _) = fold(&created(4).then(job(), end));
    assert_eq!((view.counts.pending, view.counts.cancelled), (0, 2));
    assert!(view.is_over() && view.ended_at.is_some());
}

#[test]
fn an_item_completed_after_a_failure_has_no_error() {
    let story =
        done(begun(failed(begun(created(1), "i1", 1), "i1", ItemStatus::Lost, 1, true), "i1", 2), "i1", 2);
    let (_, models) = fold(&story);
    let item = item_of(&models, "i1");
    assert_eq!((item.status, item.last_error), (ItemStatus::Completed, None));
}
