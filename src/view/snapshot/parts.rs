//! What a session snapshot is put together from.

use crate::{
    fact::{
        Cursor,
        id::{SessionId, ThreadId},
        status::{SubagentStatus, TaskStatus},
    },
    view::{Counts, JobView, SessionView, SubagentView, TaskView, TurnView, counts},
};

/// Who serves a snapshot, and which version of the schemas it keeps to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publisher {
    /// The installation.
    pub runtime_id: String,
    /// The version of the schemas.
    pub schema_version: String,
}

/// The turns of a thread that have ended, as many as were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadTurns {
    /// The thread.
    pub thread_id: ThreadId,
    /// The turns, the newest last.
    pub turns: Vec<TurnView>,
    /// Whether there are older ones.
    pub has_more: bool,
}

/// All that a session snapshot is made of. Entities keep these parts; [`ReadModels`](crate::view::ReadModels) folds
/// them from a feed.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotParts {
    /// Who serves it.
    pub publisher: Publisher,
    /// Which session.
    pub session_id: SessionId,
    /// The session.
    ///
    /// Its owner makes a session's first thread in the same commit as the session, so there is at least one. Were there
    /// none, none is served: an invented one could not be addressed.
    pub view: SessionView,
    /// Turns that have ended, by thread.
    pub turns: Vec<ThreadTurns>,
    /// Tasks, as many as were asked for.
    pub tasks: Vec<TaskView>,
    /// How many tasks stand how.
    pub task_counts: Counts,
    /// How many subagents stand how.
    pub subagent_counts: Counts,
    /// The newest subagents, as many as are told of.
    pub subagents: Vec<SubagentView>,
    /// How many jobs stand how.
    pub job_counts: Counts,
    /// Jobs, as many as were asked for.
    pub jobs: Vec<JobView>,
    /// Up to where all this is true.
    pub cursor: Option<Cursor>,
}

impl SnapshotParts {
    /// Whether something below the session has told facts of its own: a task, a subagent or a job.
    pub(super) fn has_children(&self) -> bool {
        let counts = [&self.task_counts, &self.subagent_counts, &self.job_counts];
        counts.iter().any(|counts| counts.values().any(|count| *count > 0))
    }

    /// How many tasks and subagents wait for somebody.
    pub(super) fn waiting_below(&self) -> u64 {
        let tasks = [TaskStatus::WaitingInput, TaskStatus::WaitingPermission].map(TaskStatus::as_str);
        let subagents = [SubagentStatus::WaitingInput].map(SubagentStatus::as_str);
        counts::sum(&self.task_counts, tasks.into_iter())
            + counts::sum(&self.subagent_counts, subagents.into_iter())
    }

    /// The turns of a thread that have ended.
    pub(super) fn turns_of(&self, thread_id: &ThreadId) -> Option<&ThreadTurns> {
        self.turns.iter().find(|turns| turns.thread_id == *thread_id)
    }
}
