//! One item of a job.

use super::{
    bound::{self, TEXT_MAX, cut_some, set},
    declare::views,
    turn::TurnView,
};
use crate::fact::{
    Fact, OutputRef,
    failure::Failure,
    id::{ItemId, JobId, ThreadId, TurnId},
    payload::Payload,
    status::ItemStatus,
    time::Time,
};

const OUTPUT_REFS_MAX: usize = 4;

views! {
    /// What a fact changes of an item.
    ItemChange {
        /// Which.
        item_id: ItemId,
        /// How it stands.
        status: ItemStatus,
        /// When.
        at: Time,
        ..
        /// Its job.
        job_id: Option<JobId>,
        /// Its place, from 0.
        index: Option<u32>,
        /// Which attempt, from 1; 0 when there was none.
        attempt: Option<u32>,
        /// Whether it is tried again.
        will_retry: bool,
        /// When.
        next_attempt_at: Option<Time>,
        /// The thread in which it runs.
        thread_id: Option<ThreadId>,
        /// The turn in which it runs.
        turn_id: Option<TurnId>,
        /// The result in short.
        summary: Option<String>,
        /// What it produced.
        output_refs: Vec<OutputRef>,
        /// What went wrong.
        error: Option<Failure>,
    }

    /// One item of a job. There may be very many, each a record of its own.
    ItemView {
        /// Its id.
        item_id: ItemId,
        /// How it stands.
        status: ItemStatus,
        ..
        /// Its job.
        job_id: Option<JobId>,
        /// Its place, from 0.
        index: Option<u32>,
        /// Which attempt, from 1.
        attempt: u32,
        /// How many attempts there were.
        attempts_total: u32,
        /// When the next one comes.
        next_attempt_at: Option<Time>,
        /// The thread in which it runs.
        thread_id: Option<ThreadId>,
        /// The turn in which it runs.
        turn_id: Option<TurnId>,
        /// When it first began.
        started_at: Option<Time>,
        /// When it ended.
        ended_at: Option<Time>,
        /// When something was last heard of it.
        updated_at: Option<Time>,
        /// The result in short.
        summary: Option<String>,
        /// What it produced.
        output_refs: Vec<OutputRef>,
        /// What went wrong last.
        last_error: Option<Failure>,
        /// Its turn, where it keeps one.
        turn: Option<Box<TurnView>>,
    }
}

impl ItemChange {
    /// What a fact changes of the item that it is about; none when it is about none.
    pub fn of(fact: &Fact) -> Option<Self> {
        let mut change = Self {
            item_id: fact.ids.item()?.clone(),
            status: ItemStatus::Pending,
            at: bound::time(fact.at),
            job_id: fact.ids.job().cloned(),
            index: None,
            attempt: None,
            will_retry: false,
            next_attempt_at: None,
            thread_id: fact.ids.thread().cloned(),
            turn_id: fact.ids.turn().cloned(),
            summary: None,
            output_refs: Vec::new(),
            error: None,
        };
        match &fact.payload {
            Payload::JobItemStarted(started) => {
                change.status = ItemStatus::Running;
                change.attempt = Some(started.attempt);
                change.index = started.index;
                set(&mut change.thread_id, started.assigned_thread_id.as_ref());
                set(&mut change.turn_id, started.assigned_turn_id.as_ref());
            }
            Payload::JobItemCompleted(completed) => {
                change.status = ItemStatus::Completed;
                change.attempt = Some(completed.attempt);
                change.index = completed.index;
                change.summary = cut_some(completed.summary.as_deref(), TEXT_MAX);
                let outputs = completed.output_refs.iter().filter_map(bound::output);
                change.output_refs = outputs.take(OUTPUT_REFS_MAX).collect();
            }
            Payload::JobItemFailed(failed) => {
                let ended = failed.status.is_terminal();
                change.status = if ended { failed.status } else { ItemStatus::Failed };
                change.attempt = Some(failed.attempt);
                change.index = failed.index;
                change.will_retry = failed.will_retry;
                change.next_attempt_at = failed.next_attempt_at.map(bound::time);
                change.error = Some(bound::failure(&failed.error));
            }
            _ => return None,
        }
        Some(change)
    }
}

impl ItemView {
    /// An item of which nothing is known but its id: it has not begun.
    pub fn new(item_id: ItemId) -> Self {
        Self {
            item_id,
            status: ItemStatus::Pending,
            job_id: None,
            index: None,
            attempt: 0,
            attempts_total: 0,
            next_attempt_at: None,
            thread_id: None,
            turn_id: None,
            started_at: None,
            ended_at: None,
            updated_at: None,
            summary: None,
            output_refs: Vec::new(),
            last_error: None,
            turn: None,
        }
    }

    /// Takes in what a fact changed.
    pub fn change(&mut self, change: &ItemChange) {
        self.updated_at = self.updated_at.max(Some(change.at));
        set(&mut self.job_id, change.job_id.as_ref());
        set(&mut self.index, change.index.as_ref());
        set(&mut self.thread_id, change.thread_id.as_ref());
        set(&mut self.turn_id, change.turn_id.as_ref());
        self.attempt = change.attempt.unwrap_or(self.attempt);
        self.next_attempt_at = change.next_attempt_at.filter(|_| change.will_retry);
        self.status = if change.will_retry { ItemStatus::Pending } else { change.status };
        if change.status == ItemStatus::Running {
            self.attempts_total = self.attempts_total.saturating_add(1);
            self.started_at.get_or_insert(change.at);
        }
        self.ended_at = self.status.is_terminal().then_some(change.at);
        if self.status == ItemStatus::Completed {
            self.summary.clone_from(&change.summary);
            self.output_refs.clone_from(&change.output_refs);
            self.last_error = None;
        }
        set(&mut self.last_error, change.error.as_ref());
        if let (true, Some(turn)) = (self.status.is_terminal(), &mut self.turn) {
            turn.steps = Vec::new();
        }
    }

    /// Takes in a fact of this item: of itself or of its turn.
    pub fn apply(&mut self, fact: &Fact) {
        match ItemChange::of(fact) {
            Some(change) if change.item_id == self.item_id => self.change(&change),
            Some(_) => {}
            None => TurnView::fold(&mut self.turn, fact),
        }
    }
}
