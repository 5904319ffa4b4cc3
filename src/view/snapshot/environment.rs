//! Where things run.

use crate::{
    fact::{
        id::{SessionId, ThreadId},
        status::Availability,
    },
    view::{
        SessionView,
        declare::views,
        summary::{ProcessEntry, Sandbox},
    },
};

views! {
    /// The environment in which things run: the answer of `get_execution_environment`.
    #[derive(Default)]
    ExecutionEnvironment {
        /// The processes that run.
        active_processes: Vec<ProcessEntry>,
        ..
        /// Why there is nothing here: a session that has run no process has no environment.
        availability: Option<Availability>,
        /// The session.
        session_id: Option<SessionId>,
        /// The thread, when only one was asked for.
        thread_id: Option<ThreadId>,
        /// Where the last process began.
        cwd: Option<String>,
        /// The roots of the workspace: no fact says them.
        workspace_roots: Option<Availability>,
        /// How many processes began.
        started: u32,
        /// How many ended with success.
        completed: u32,
        /// How many failed or took too long.
        failed: u32,
        /// How many were ended.
        terminated: u32,
        /// Of how many it cannot be known how they ended.
        lost: u32,
        /// How many more run than there is room to tell.
        active_omitted: u32,
        /// The last bounds.
        sandbox: Option<Sandbox>,
    }
}

impl ExecutionEnvironment {
    /// The environment of a session, or of one of its threads. Counts are always of the session.
    pub fn of(session_id: &SessionId, view: &SessionView, thread_id: Option<&ThreadId>) -> Self {
        let shell = Self {
            session_id: Some(session_id.clone()),
            thread_id: thread_id.cloned(),
            sandbox: view.summary.sandbox.clone(),
            ..Self::default()
        };
        let Some(processes) = &view.summary.processes else {
            return Self { availability: Some(Availability::NotApplicable), ..shell };
        };
        let asked = |entry: &&ProcessEntry| thread_id.is_none() || entry.thread_id.as_ref() == thread_id;
        Self {
            active_processes: processes.active.iter().filter(asked).cloned().collect(),
            cwd: processes.cwd.clone(),
            workspace_roots: Some(Availability::Unknown),
            started: processes.started,
            completed: processes.completed,
            failed: processes.failed,
            terminated: processes.terminated,
            lost: processes.lost,
            active_omitted: processes.active_omitted,
            ..shell
        }
    }
}
