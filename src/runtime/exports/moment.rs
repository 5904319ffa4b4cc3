//! Everything that is served of a session, read at one moment.

use std::collections::{BTreeMap, BTreeSet};

use cadre_cluster::{
    feed::Cursor,
    keys,
    store::{KeyRange, RangeRead, Transaction, key_after},
};
use futures::future::try_join_all;
use serde::Serialize;
use serde_json::Value;

use crate::{
    control::Error,
    entity::{Subagent, Task, job, records},
    export::{
        Selection,
        replay::{self, Models},
    },
    fact::id::{SessionId, SubagentId, TaskId},
    runtime::{
        Request, Runtime,
        failure::{undecodable, unreadable},
        jobs,
        load::List,
        snapshots::Newest,
        tasks,
    },
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
        selection: &Selection,
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
        let tasks = self.task_views(&tx, request, session, &selection.tasks).await?;
        let subagents = self.subagent_views(&tx, request, session, &selection.subagents).await?;
        let jobs = self.newest_job_states(&tx, request, session, VIEWS_MAX).await?;
        models.items = Some(self.item_views(&tx, request, &jobs, &mut models).await?);
        let jobs: Vec<_> = jobs.into_iter().map(jobs::served).collect();
        let newest = Newest {
            turns: recent,
            tasks: last(&tasks, window.tasks),
            subagents: last(&subagents, window.subagents),
            jobs: last(&jobs, window.jobs),
        };
        let parts = self.parts(&tx, request, view, newest).await?;
        let cursor = parts.cursor.unwrap_or(Cursor::START);
        count_omitted(&mut models, "tasks", total(&parts.task_counts), tasks.len());
        count_omitted(&mut models, "subagents", total(&parts.subagent_counts), subagents.len());
        count_omitted(&mut models, "jobs", total(&parts.job_counts), jobs.len());
        models.window = replay::Window {
            turns: window.turns,
            tasks: window.tasks,
            jobs: window.jobs,
            subagents: window.subagents,
        };
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

    /// The newest tasks of a session, and those that were asked for, in the order of their ids.
    async fn task_views(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        asked: &BTreeSet<TaskId>,
    ) -> Result<Vec<TaskView>, Error> {
        let ids = with_asked(self.newest(tx, request, records::tasks(session)).await?, asked);
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

    /// The newest subagents of a session, and those that were asked for.
    async fn subagent_views(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        asked: &BTreeSet<SubagentId>,
    ) -> Result<Vec<SubagentView>, Error> {
        let ids = with_asked(self.newest(tx, request, records::all_subagents(session)).await?, asked);
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

    /// The items of jobs that ever began, by job: those of the newest jobs, as many as there is room for.
    async fn item_views(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        jobs: &[job::State],
        models: &mut Models,
    ) -> Result<BTreeMap<String, Vec<Value>>, Error> {
        let (mut items, mut room) = (BTreeMap::new(), VIEWS_MAX);
        for work in jobs.iter().rev().filter_map(|state| state.work.as_ref()) {
            if work.removed.is_some() || room == 0 {
                count_omitted(models, "items", u64::from(work.items), 0);
                continue;
            }
            let prefix = keys::data(&request.caller.tenant, &records::item_views(&work.id));
            let mut range = KeyRange::prefix(prefix.to_vec());
            let mut views = Vec::new();
            loop {
                let read = RangeRead::new(range.clone()).limit(room - views.len());
                let page = tx.snapshot_range(&read).await.map_err(unreadable)?;
                for pair in &page.pairs {
                    views.push(json(&job::decode_view(&pair.value).map_err(undecodable)?));
                    range.begin = key_after(&pair.key);
                }
                if !page.more {
                    break;
                }
                if views.len() == room {
                    count_omitted(models, "items", u64::from(work.items), views.len());
                    break;
                }
            }
            room -= views.len();
            items.insert(work.id.to_string(), views);
        }
        Ok(items)
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

/// Ids in their order, with those that were asked for.
fn with_asked<I: AsRef<str>>(ids: Vec<String>, asked: &BTreeSet<I>) -> Vec<String> {
    let asked = asked.iter().map(|id| id.as_ref().to_owned());
    ids.into_iter().chain(asked).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The last of those that there are.
fn last<T: Clone>(all: &[T], count: usize) -> Vec<T> {
    all[all.len().saturating_sub(count)..].to_vec()
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
