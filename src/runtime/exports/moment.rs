//! Everything that is served of a session, read at one moment.

use std::collections::BTreeMap;

use cadre_cluster::{feed::Cursor, store::Transaction};
use futures::future::try_join_all;
use serde::Serialize;
use serde_json::Value;

use crate::{
    control::Error,
    entity::{Subagent, Task, records},
    export::{
        Scope,
        replay::{self, Models},
    },
    fact::id::{SessionId, SubagentId, TaskId},
    runtime::{Request, Runtime, load::List, tasks},
    view::{JobView, SessionSnapshot, SessionView, SubagentView, TaskView, Window, snapshot::ThreadTurns},
};

/// Views of a kind that are recorded: what can be read within the life of one transaction, five seconds.
const VIEWS_MAX: usize = 2_000;
/// Turns of a thread that are recorded.
const TURNS_MAX: usize = 1_000;
/// Reads that are under way at once.
const READS_AT_ONCE: usize = 32;

impl Runtime {
    /// What is served of a session at one moment, and the cursor of that moment: every fact before it is in what is
    /// served, and none after it.
    pub(in crate::runtime) async fn moment(
        &self,
        request: &Request<'_>,
        session: &SessionId,
        scope: &Scope,
    ) -> Result<(Cursor, Models), Error> {
        let tx = self.store.begin();
        let (state, _) = self.session(&tx, request, session).await?;
        let view = SessionView { session_id: Some(session.clone()), ..state.view.0 };
        let mut models = Models::default();
        let mut recent = Vec::with_capacity(view.threads.len());
        let window = Window::default();
        for thread in &view.threads {
            let bounds = (TURNS_MAX, usize::MAX);
            let over = self.ended_turns(&tx, request, session, thread, None, bounds).await?;
            let all = over.turns;
            let skipped = all.len().saturating_sub(window.turns);
            recent.push(ThreadTurns {
                thread_id: thread.thread_id.clone(),
                turns: all[skipped..].to_vec(),
                has_more: skipped > 0,
            });
            count_omitted(&mut models, "turns", thread.turn_count, all.len());
            models.turns.insert(thread.thread_id.to_string(), all.iter().map(json).collect());
        }
        let tasks = self.task_views(&tx, request, session, scope).await?;
        let subagents = self.subagent_views(&tx, request, session).await?;
        let jobs = self.newest_jobs(&tx, request, session, VIEWS_MAX).await?;
        let newest_tasks = tasks[tasks.len().saturating_sub(window.tasks)..].to_vec();
        let newest_jobs = jobs[jobs.len().saturating_sub(window.jobs)..].to_vec();
        let parts = self.parts(&tx, request, view, (recent, newest_tasks, newest_jobs)).await?;
        let cursor = parts.cursor.unwrap_or(Cursor::START);
        count_omitted(&mut models, "tasks", total(&parts.task_counts), tasks.len());
        count_omitted(&mut models, "subagents", total(&parts.subagent_counts), subagents.len());
        count_omitted(&mut models, "jobs", total(&parts.job_counts), jobs.len());
        models.window = replay::Window { turns: window.turns, tasks: window.tasks, jobs: window.jobs };
        models.snapshot = Some(json(&SessionSnapshot::assemble(parts)));
        let task_id = |view: &TaskView| view.task_id.as_ref().map(ToString::to_string);
        let tasks = tasks.iter().filter_map(|view| Some((task_id(view)?, json(view))));
        models.tasks = tasks.collect();
        let subagent_id = |view: &SubagentView| view.subagent_id.as_ref().map(ToString::to_string);
        let subagents = subagents.iter().filter_map(|view| Some((subagent_id(view)?, json(view))));
        models.subagents = subagents.collect();
        let job_id = |view: &JobView| view.job_id.as_ref().map(ToString::to_string);
        models.jobs = Some(jobs.iter().filter_map(|view| Some((job_id(view)?, json(view)))).collect());
        Ok((cursor, models))
    }

    /// The newest tasks of a session, and the one that was asked for, in the order of their ids.
    async fn task_views(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        scope: &Scope,
    ) -> Result<Vec<TaskView>, Error> {
        let mut ids = self.newest(tx, request, records::tasks(session)).await?;
        if let Some(asked) = &scope.task_id
            && !ids.iter().any(|id| id == asked.as_str())
        {
            ids.push(asked.to_string());
        }
        ids.sort();
        let mut views = Vec::with_capacity(ids.len());
        for some in ids.chunks(READS_AT_ONCE) {
            let some = some.iter().filter_map(|id| TaskId::parse(id).ok());
            let loads = some.map(|id| async move { self.load::<Task>(tx, request, id.as_str()).await });
            let states = try_join_all(loads).await?.into_iter().flatten();
            let mine =
                states.filter(|state| state.work.as_ref().is_some_and(|work| work.session == *session));
            views.extend(mine.map(tasks::served));
        }
        Ok(views)
    }

    /// The newest subagents of a session.
    async fn subagent_views(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
    ) -> Result<Vec<SubagentView>, Error> {
        let ids = self.newest(tx, request, records::all_subagents(session)).await?;
        let mut views = Vec::with_capacity(ids.len());
        for some in ids.chunks(READS_AT_ONCE) {
            let some = some.iter().filter_map(|id| SubagentId::parse(id).ok());
            let loads = some.map(|id| async move { self.load::<Subagent>(tx, request, id.as_str()).await });
            let states = try_join_all(loads).await?.into_iter().flatten();
            let own = |view: SubagentView| SubagentView { session_id: Some(session.clone()), ..view };
            views.extend(states.map(|state| own(state.view.0)));
        }
        Ok(views)
    }

    /// The ids at the end of a list.
    async fn newest(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        prefix: Vec<u8>,
    ) -> Result<Vec<String>, Error> {
        let list = List { prefix, after: None, field: "after", newest_first: true };
        let (ids, _) = self.page(tx, request, list, VIEWS_MAX, |id| async move { Ok(Some(id)) }).await?;
        Ok(ids)
    }
}

fn total(counts: &BTreeMap<String, i64>) -> u64 {
    counts.values().map(|count| u64::try_from(*count).unwrap_or(0)).sum()
}

fn count_omitted(models: &mut Models, kind: &str, total: u64, recorded: usize) {
    let omitted = total.saturating_sub(recorded as u64);
    if omitted > 0 {
        *models.omitted.entry(kind.into()).or_default() += omitted;
    }
}

fn json(view: &impl Serialize) -> Value {
    serde_json::to_value(view).expect("views serialize into memory without fail")
}
