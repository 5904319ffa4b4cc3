//! The fold of a whole feed.

use std::collections::{BTreeMap, HashSet};

use super::{
    SessionView, SubagentView, TaskView,
    counts::{self, Counts},
    item::ItemView,
    job::JobView,
    snapshot::{Publisher, SnapshotParts, ThreadTurns},
    turn::TurnView,
};
use crate::fact::{
    Cursor, Fact, Trace,
    id::{ItemId, JobId, SessionId, SubagentId, TaskId, ThreadId, TurnId},
    payload::Payload,
};

/// How much of what there may be much of goes into a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Turns that have ended, of each thread.
    pub turns: usize,
    /// Tasks.
    pub tasks: usize,
    /// Jobs.
    pub jobs: usize,
    /// Subagents.
    pub subagents: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { turns: 20, tasks: 50, jobs: 20, subagents: 20 }
    }
}

/// An item: ids of items are their job's own.
type ItemKey = (Option<JobId>, ItemId);

/// Everything that the facts of one session say: what entities keep in pieces, folded from the feed in one place.
///
/// It is for replays and for those who check promise P5, not for serving: it keeps every turn, task, subagent and item.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadModels {
    /// The session.
    pub session: SessionView,
    /// Turns of its threads that have ended, in order.
    pub turns: BTreeMap<ThreadId, Vec<TurnView>>,
    /// Tasks.
    pub tasks: BTreeMap<TaskId, TaskView>,
    /// Subagents.
    pub subagents: BTreeMap<SubagentId, SubagentView>,
    /// Jobs.
    pub jobs: BTreeMap<JobId, JobView>,
    /// Items of jobs.
    pub items: BTreeMap<ItemKey, ItemView>,
    /// Facts of streams that are not known here.
    pub unknown: u64,
    item_streams: BTreeMap<String, ItemKey>,
}

impl ReadModels {
    /// Nothing has happened yet.
    pub fn new(session_id: SessionId) -> Self {
        Self {
            session: SessionView { session_id: Some(session_id), ..SessionView::default() },
            ..Self::default()
        }
    }

    /// Takes in a fact of the entity whose stream this is: `session:ID`, `task:ID`, `subagent:ID`, `job:ID` or
    /// `item:ID`.
    pub fn apply(&mut self, stream: &str, fact: &Fact) {
        self.apply_traced(stream, fact, None);
    }

    /// The same, with the trace that the fact belongs to.
    pub fn apply_traced(&mut self, stream: &str, fact: &Fact, trace: Option<&Trace>) {
        let (kind, id) = stream.split_once(':').unwrap_or((stream, ""));
        let session_id = self.session.session_id.clone();
        match kind {
            "session" => {
                let ended = self.session.apply_traced(fact, trace);
                self.rolled_back(fact);
                let Some(turn) = ended else { return };
                if let Some(thread) = fact.ids.thread() {
                    self.turns.entry(thread.clone()).or_default().push(turn);
                }
            }
            "task" => {
                let Ok(id) = TaskId::parse(id) else { return self.unknown += 1 };
                let new = || TaskView { session_id, task_id: Some(id.clone()), ..TaskView::default() };
                self.tasks.entry(id.clone()).or_insert_with(new).apply(fact);
            }
            "subagent" => {
                let Ok(id) = SubagentId::parse(id) else { return self.unknown += 1 };
                let new =
                    || SubagentView { session_id, subagent_id: Some(id.clone()), ..SubagentView::default() };
                self.subagents.entry(id.clone()).or_insert_with(new).apply(fact);
            }
            "job" => {
                let Ok(id) = JobId::parse(id) else { return self.unknown += 1 };
                let new = || JobView { session_id, job_id: Some(id.clone()), ..JobView::default() };
                let Some(change) = self.jobs.entry(id.clone()).or_insert_with(new).apply(fact) else {
                    return;
                };
                let key = (Some(id), change.item_id.clone());
                self.items
                    .entry(key)
                    .or_insert_with(|| ItemView::new(change.item_id.clone()))
                    .change(&change);
            }
            "item" => self.item(stream, fact),
            _ => self.unknown += 1,
        }
    }

    /// Turns that were taken back say so.
    fn rolled_back(&mut self, fact: &Fact) {
        let Payload::HistoryRollbackCompleted(rollback) = &fact.payload else { return };
        let turns = fact.ids.thread().and_then(|thread| self.turns.get_mut(thread));
        let Some(turns) = turns.filter(|_| rollback.error.is_none()) else { return };
        let gone: HashSet<&TurnId> = rollback.turns.iter().collect();
        turns.iter_mut().filter(|turn| gone.contains(&turn.turn_id)).for_each(|turn| turn.roll_back(fact.at));
    }

    fn item(&mut self, stream: &str, fact: &Fact) {
        let named = fact.ids.item().map(|item| (fact.ids.job().cloned(), item.clone()));
        let Some(key) = named.or_else(|| self.item_streams.get(stream).cloned()) else {
            self.unknown += 1;
            return;
        };
        self.item_streams.entry(stream.to_owned()).or_insert_with(|| key.clone());
        self.items.entry(key.clone()).or_insert_with(|| ItemView::new(key.1.clone())).apply(fact);
    }

    /// How many tasks stand how.
    pub fn task_counts(&self) -> Counts {
        count(self.tasks.values().map(|task| task.status.as_str()))
    }

    /// How many subagents stand how.
    pub fn subagent_counts(&self) -> Counts {
        count(self.subagents.values().map(|subagent| subagent.status.as_str()))
    }

    /// How many jobs stand how.
    pub fn job_counts(&self) -> Counts {
        count(self.jobs.values().map(|job| job.status.as_str()))
    }

    /// What a snapshot is put together from, with the newest of what there may be much of. Tasks and jobs are in the
    /// order of their ids, which is that of their age where Cadre made them. None when it is not known which session
    /// this is.
    pub fn parts(
        &self,
        publisher: Publisher,
        window: Window,
        cursor: Option<Cursor>,
    ) -> Option<SnapshotParts> {
        let ended = |thread_id: &ThreadId| {
            let all = self.turns.get(thread_id).map(Vec::as_slice).unwrap_or_default();
            let skipped = all.len().saturating_sub(window.turns);
            ThreadTurns {
                thread_id: thread_id.clone(),
                turns: all[skipped..].to_vec(),
                has_more: skipped > 0,
            }
        };
        Some(SnapshotParts {
            publisher,
            session_id: self.session.session_id.clone()?,
            turns: self.session.threads.iter().map(|thread| ended(&thread.thread_id)).collect(),
            view: self.session.clone(),
            tasks: newest(&self.tasks, window.tasks),
            task_counts: self.task_counts(),
            subagent_counts: self.subagent_counts(),
            subagents: newest(&self.subagents, window.subagents),
            job_counts: self.job_counts(),
            jobs: newest(&self.jobs, window.jobs),
            cursor,
        })
    }
}

fn count<'a>(words: impl Iterator<Item = &'a str>) -> Counts {
    let mut counted = Counts::new();
    words.for_each(|word| counts::add(&mut counted, word, 1));
    counted
}

fn newest<K: Ord, V: Clone>(all: &BTreeMap<K, V>, max: usize) -> Vec<V> {
    all.values().skip(all.len().saturating_sub(max)).cloned().collect()
}
