//! The history that later turns of a thread see: turns that are taken back, and a summary in place of turns.
//!
//! Turns that are over are records, which a step does not read. So whoever asks has read them and says what they are and
//! what it saw of the thread; when the thread has gone on since, it is refused. Facts of the past stay as they are.

use serde::{Deserialize, Serialize};

use super::{Reply, Thread, decide::Step};
use crate::{
    control::{Error, args::SummaryText},
    entity::records::{self, TurnBack},
    fact::{
        id::{ThreadId, TurnId},
        payload::{
            CompactionBoundary, ContextCompactionCompleted, ContextCompactionStarted,
            HistoryRollbackCompleted, HistoryRollbackStarted,
        },
        scope::{ThreadScope, TurnScope},
    },
    view::ThreadView,
};

/// What was seen of a thread when its records were read. It changes with whatever could make them say something else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    ended: u64,
    rolled_back: u64,
    boundary: Option<TurnId>,
}

impl Seen {
    /// What is seen of a thread now.
    pub fn of(thread: &ThreadView) -> Self {
        Self {
            ended: thread.turn_count,
            rolled_back: thread.rolled_back,
            boundary: thread.boundaries.last().map(|boundary| boundary.last_turn_id.clone()),
        }
    }
}

/// Turns to take back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollback {
    /// Of which thread.
    pub thread: ThreadId,
    /// What was seen of it.
    pub seen: Seen,
    /// The turn that stays the last, and its number; none when nothing stays.
    pub to: Option<(TurnId, u64)>,
    /// The turns, in their order, and their numbers.
    pub turns: Vec<(TurnId, u64)>,
    /// How many tool calls they made.
    pub tool_calls: u64,
    /// Why.
    pub reason: Option<String>,
    /// Who wants it.
    pub by: String,
}

/// Turns for which a summary is to stand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// Of which thread.
    pub thread: ThreadId,
    /// What was seen of it.
    pub seen: Seen,
    /// The first turn, where it is known.
    pub first: Option<TurnId>,
    /// The last turn.
    pub last: TurnId,
    /// Its number.
    pub number: u64,
    /// How many turns.
    pub turns: u32,
    /// What stands for them.
    pub summary: SummaryText,
    /// Why.
    pub reason: Option<String>,
    /// Who wants it.
    pub by: String,
}

/// Refuses a thread in which a turn runs or waits: its past is what that turn has seen, or is about to see.
pub fn at_rest(thread: &Thread, view: &ThreadView) -> Result<(), Error> {
    let (id, status) = (&thread.id, view.status);
    if let Some(run) = &thread.run {
        let message =
            format!("the turn {} of the thread {id} runs: wait for its end or interrupt it", run.turn);
        return Err(Error::conflict(status, message));
    }
    if let Some(queued) = thread.queue.front() {
        let message =
            format!("the turn {} of the thread {id} waits: remove it or wait for its end", queued.turn);
        return Err(Error::conflict(status, message));
    }
    Ok(())
}

impl<'a> Step<'a> {
    pub(super) fn rollback(&mut self, rollback: Rollback) -> Result<Reply, Error> {
        let (index, view) = self.unchanged(&rollback.thread, &rollback.seen)?;
        let summaries: Vec<TurnId> = view.boundaries.iter().map(|it| it.last_turn_id.clone()).collect();
        let Rollback { thread, to, turns, tool_calls, reason, by, .. } = rollback;
        let (to_turn_id, to) = to.unzip();
        let to = to.unwrap_or(0);
        let back = TurnBack { at: self.draft.now, to }.encode();
        for (_, number) in &turns {
            self.draft.set_record(records::turn_back(&self.work.id, &thread, *number), back.clone());
        }
        let turns: Vec<TurnId> = turns.into_iter().map(|(turn, _)| turn).collect();
        let (gone, stay): (Vec<_>, Vec<_>) = summaries.iter().partition(|turn| turns.contains(turn));
        for turn in gone {
            self.draft.clear_record(records::summary(&self.work.id, &thread, turn));
        }
        let kept = &mut self.work.threads[index];
        kept.past.take_back(to, view.turn_count, stay.len());
        let is_gone = |unfinished: &mut super::Unfinished| {
            unfinished.turn.as_ref().is_some_and(|turn| turns.contains(turn))
        };
        // What was taken back is not tried again.
        drop(kept.unfinished.take_if(is_gone));
        let living = kept.lingering.iter().filter(|run| run.children.live() > 0 && turns.contains(&run.turn));
        let irreversible = irreversible(tool_calls, living.count());
        metrics::counter!("cadre_turns_rolled_back_total").increment(turns.len() as u64);
        let scope = ThreadScope { thread };
        let (to, gone) = (to_turn_id.clone(), turns.clone());
        let started = HistoryRollbackStarted { to_turn_id: to, turns: gone, reason, by: Some(by) };
        self.draft.tell(scope.clone(), started);
        self.draft.tell(scope, HistoryRollbackCompleted { to_turn_id, turns, irreversible, error: None });
        Ok(Reply::Done)
    }

    pub(super) fn compact(&mut self, compaction: Compaction) -> Result<Reply, Error> {
        let (index, view) = self.unchanged(&compaction.thread, &compaction.seen)?;
        let Compaction { thread, first, last, number, turns, summary, reason, by, .. } = compaction;
        self.work.threads[index].past.sum_up(number);
        let others: Vec<_> = view.boundaries.iter().filter(|it| it.last_turn_id != last).collect();
        if others.len() >= ThreadView::BOUNDARIES_MAX {
            let forgotten = records::summary(&self.work.id, &thread, &others[0].last_turn_id);
            self.draft.clear_record(forgotten);
        }
        let boundary = CompactionBoundary {
            first_turn_id: first,
            last_turn_id: Some(last.clone()),
            turns: Some(turns),
            ..Default::default()
        };
        let record = records::summary(&self.work.id, &thread, &last);
        let (summary, summary_ref) = match summary {
            SummaryText::Text(text) => {
                self.draft.set_record(record, text.clone());
                (Some(text), None)
            }
            SummaryText::Blob(blob) => {
                self.draft.clear_record(record);
                (None, Some(blob.into()))
            }
        };
        metrics::counter!("cadre_contexts_compacted_total").increment(1);
        let scope = TurnScope { thread, turn: last };
        let started = ContextCompactionStarted {
            trigger: "command".into(),
            boundary: Some(boundary.clone()),
            reason,
            by: Some(by),
            ..Default::default()
        };
        self.draft.tell(scope.clone(), started);
        let completed = ContextCompactionCompleted { boundary, summary, summary_ref, ..Default::default() };
        self.draft.tell(scope, completed);
        Ok(Reply::Done)
    }

    /// A thread at rest that is as it was seen.
    fn unchanged(&self, id: &ThreadId, seen: &Seen) -> Result<(usize, &'a ThreadView), Error> {
        self.require_open()?;
        let index = self.thread(id)?;
        let view: &'a ThreadView = self.view.thread(id).ok_or_else(|| Error::not_found("thread", id))?;
        at_rest(&self.work.threads[index], view)?;
        if Seen::of(view) != *seen {
            let message = format!("the thread {id} has gone on meanwhile: look at its history and ask again");
            return Err(Error::conflict(view.status, message));
        }
        Ok((index, view))
    }
}

/// What a rollback does not undo, in words.
fn irreversible(tool_calls: u64, living: usize) -> Vec<String> {
    let said = |count: u64, one: &str, more: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {more}")),
    };
    let calls = said(tool_calls, "tool call", "tool calls");
    let living = said(living as u64, "turn whose children go on", "turns whose children go on");
    calls.into_iter().chain(living).collect()
}
