//! Everything that is served of a session, read at one moment.

use std::collections::BTreeMap;

use cadre_cluster::{
    feed::Cursor,
    keys,
    store::{KeyRange, RangeRead, Transaction},
};
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
    fact::id::{SessionId, SubagentId, TaskId, ThreadId},
    runtime::{Request, Runtime, failure::damaged, load::List, request::unreadable, tasks},
    view::{
        JobView, SessionSnapshot, SessionView, SnapshotParts, SubagentView, TaskView, TurnView, Window,
        snapshot::{Publisher, ThreadTurns},
    },
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
        let cursor = self.feed(request.caller, session).snapshot_cursor(&tx).await.map_err(unreadable)?;
        let mut models = Models::default();
        let mut recent = Vec::with_capacity(view.threads.len());
        let window = Window::default();
        for thread in &view.threads {
            let mut all = self.turns_over(&tx, request, session, &thread.thread_id).await?;
            self.say_rolled_back(&tx, request, session, thread, &mut all).await?;
            let skipped = all.len().saturating_sub(window.turns);
            recent.push(ThreadTurns {
                thread_id: thread.thread_id.clone(),
                turns: all[skipped..].to_vec(),
                has_more: skipped > 0,
            });
            count_omitted(&mut models, "turns", thread.turn_count, all.len());
            models.turns.insert(thread.thread_id.to_string(), all.iter().map(json).collect());
        }
        let task_counts = self.counts(&tx, request, session, "tasks").await?;
        let subagent_counts = self.counts(&tx, request, session, "subagents").await?;
        let job_counts = self.counts(&tx, request, session, "jobs").await?;
        let tasks = self.task_views(&tx, request, session, scope).await?;
        let subagents = self.subagent_views(&tx, request, session).await?;
        count_omitted(&mut models, "tasks", total(&task_counts), tasks.len());
        count_omitted(&mut models, "subagents", total(&subagent_counts), subagents.len());
        let jobs = self.newest_jobs(&tx, request, session, VIEWS_MAX).await?;
        count_omitted(&mut models, "jobs", total(&job_counts), jobs.len());
        let newest = tasks.len().saturating_sub(window.tasks);
        let parts = SnapshotParts {
            publisher: Publisher {
                runtime_id: self.publisher().runtime_id.clone(),
                schema_version: self.publisher().schema_version.clone(),
            },
            session_id: session.clone(),
            view,
            turns: recent,
            tasks: tasks[newest..].to_vec(),
            task_counts,
            subagent_counts,
            job_counts,
            jobs: jobs[jobs.len().saturating_sub(window.jobs)..].to_vec(),
            cursor: Some(cursor),
        };
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

    /// The last turns of a thread that are over.
    async fn turns_over(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        thread: &ThreadId,
    ) -> Result<Vec<TurnView>, Error> {
        let prefix = keys::data(&request.caller.tenant, &records::turns(session, thread));
        let mut range = KeyRange::prefix(prefix.to_vec());
        let mut turns = Vec::new();
        loop {
            let read = RangeRead::new(range.clone()).limit(TURNS_MAX - turns.len()).reverse();
            let page = tx.snapshot_range(&read).await.map_err(unreadable)?;
            for pair in &page.pairs {
                turns.push(rmp_serde::from_slice::<TurnView>(&pair.value).map_err(damaged)?);
                range.end = pair.key.clone();
            }
            if !page.more || turns.len() >= TURNS_MAX {
                turns.reverse();
                return Ok(turns);
            }
        }
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
