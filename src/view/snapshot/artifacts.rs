//! Artifacts, of the session and of its tasks.

use crate::{
    fact::{id::TaskId, status::Availability},
    view::{SessionView, TaskView, counts::TaskSummary, declare::views, summary::ArtifactEntry},
};

/// How many artifacts are told of.
const RECENT_MAX: usize = 16;

views! {
    /// One artifact, and whose it is.
    ArtifactCheckpoint {
        /// What is known of it.
        #[serde(flatten)]
        artifact: ArtifactEntry,
        ..
        /// The task that delivered it.
        task_id: Option<TaskId>,
    }

    /// The artifacts of a session and of the tasks that are told of.
    #[derive(Default)]
    ArtifactSummary {
        /// How many there are; one that changed again counts again.
        changes: u64,
        /// The last ones, the latest at the end.
        recent: Vec<ArtifactCheckpoint>,
        ..
        /// Whether there are tasks whose artifacts are not counted here.
        partial: bool,
        /// Why there are none: nobody delivered any, or only tasks that are not told of may have.
        availability: Option<Availability>,
    }
}

impl ArtifactSummary {
    /// Of a session and the tasks that are told of.
    pub fn of(view: &SessionView, tasks: &[TaskView], summary: &TaskSummary) -> Self {
        let own = view.summary.artifacts.iter();
        let changes = own.clone().map(|own| u64::from(own.changes)).sum::<u64>()
            + tasks.iter().map(|task| u64::from(task.artifacts_total)).sum::<u64>();
        let own = own.flat_map(|own| own.recent.iter().cloned());
        let own = own.map(|artifact| ArtifactCheckpoint { artifact, task_id: None });
        let delivered = tasks.iter().flat_map(|task| {
            let known = task.artifacts.iter().filter_map(|delivered| delivered.artifact.clone());
            known.map(|artifact| ArtifactCheckpoint { artifact, task_id: task.task_id.clone() })
        });
        let mut recent: Vec<_> = own.chain(delivered).collect();
        recent.sort_by_key(|entry| entry.artifact.at);
        recent.drain(..recent.len().saturating_sub(RECENT_MAX));
        let partial = summary.total > tasks.len() as u64;
        let availability = match (changes, partial) {
            (0, false) => Some(Availability::NotApplicable),
            (0, true) => Some(Availability::Unknown),
            _ => None,
        };
        Self { changes, recent, partial, availability }
    }
}
