//! stub
#![allow(missing_docs)]
use crate::fact::{
    Fact, Failure, Time,
    id::{ItemId, JobId, SessionId, ThreadId, TurnId},
    payload::Payload,
    status::{ItemStatus, JobStatus},
};
use serde::{Deserialize, Serialize};
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionView {}
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnView {
    pub thread_id: ThreadId,
    pub number: u64,
}
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SubagentView {}
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskView {}
impl SessionView {
    pub fn apply(&mut self, _: &Fact) -> Option<TurnView> {
        None
    }
}
impl SubagentView {
    pub fn apply(&mut self, _: &Fact) {}
}
impl TaskView {
    pub fn apply(&mut self, _: &Fact) {}
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemCounts {
    pub total: u32,
    pub pending: u32,
    pub running: u32,
    pub completed: u32,
    pub failed: u32,
    pub cancelled: u32,
}
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobView {
    pub status: JobStatus,
    pub counts: ItemCounts,
    pub session_id: Option<SessionId>,
}
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemChange {
    pub item_id: ItemId,
    pub status: ItemStatus,
    pub at: Time,
    pub job_id: Option<JobId>,
    pub index: Option<u32>,
    pub attempt: Option<u32>,
    pub will_retry: bool,
    pub next_attempt_at: Option<Time>,
    pub thread_id: Option<ThreadId>,
    pub turn_id: Option<TurnId>,
    pub error: Option<Failure>,
}
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ItemView {
    pub item_id: ItemId,
    pub status: ItemStatus,
    pub job_id: Option<JobId>,
    pub index: Option<u32>,
    pub attempt: u32,
    pub attempts_total: u32,
    pub next_attempt_at: Option<Time>,
    pub thread_id: Option<ThreadId>,
    pub turn_id: Option<TurnId>,
    pub started_at: Option<Time>,
    pub ended_at: Option<Time>,
    pub updated_at: Option<Time>,
    pub last_error: Option<Failure>,
}
impl ItemCounts {
    fn settle(&mut self) {
        let others = [self.running, self.completed, self.failed, self.cancelled];
        self.pending = others.into_iter().fold(self.total, u32::saturating_sub);
    }
    fn ended(&mut self, total: u32, completed: u32, failed: u32, cancelled: u32) {
        *self = Self { total, completed, failed, cancelled, ..Self::default() };
        self.settle();
    }
}
impl JobView {
    pub fn apply(&mut self, fact: &Fact) -> Option<ItemChange> {
        match &fact.payload {
            Payload::JobCreated(created) => {
                self.status = created.status;
                self.counts =
                    ItemCounts { total: created.items, pending: created.items, ..Default::default() };
            }
            Payload::JobStarted(started) => {
                self.status = started.status;
                self.counts.total = started.total.unwrap_or(self.counts.total);
                self.counts.settle();
            }
            Payload::JobProgress(p) => {
                self.counts = ItemCounts {
                    total: p.total,
                    pending: p.pending,
                    running: p.running,
                    completed: p.completed,
                    failed: p.failed,
                    cancelled: p.cancelled,
                };
                self.status = p.status.unwrap_or(self.status);
            }
            Payload::JobCompleted(end) => {
                self.status = end.status;
                self.counts.ended(end.total, end.completed, end.failed, end.cancelled);
            }
            Payload::JobFailed(end) => {
                self.status = end.status;
                self.counts.ended(end.total, end.completed, end.failed, end.cancelled);
            }
            Payload::JobCancelled(end) => {
                self.status = end.status;
                self.counts.ended(end.total, end.completed, end.failed, end.cancelled);
            }
            _ => {
                let change = ItemChange::of(fact)?;
                let begun = change.attempt.is_none_or(|attempt| attempt > 0);
                let counts = &mut self.counts;
                if change.status.is_terminal() && begun {
                    counts.running = counts.running.saturating_sub(1);
                }
                match change.status {
                    ItemStatus::Running => counts.running += 1,
                    _ if change.will_retry => {}
                    ItemStatus::Completed => counts.completed += 1,
                    ItemStatus::Failed | ItemStatus::TimedOut | ItemStatus::Lost => counts.failed += 1,
                    ItemStatus::Cancelled => counts.cancelled += 1,
                    ItemStatus::Pending => {}
                }
                counts.settle();
                return Some(change);
            }
        }
        None
    }
}
impl ItemChange {
    pub fn of(fact: &Fact) -> Option<Self> {
        let mut change = Self {
            item_id: fact.ids.item()?.clone(),
            status: ItemStatus::Pending,
            at: Time(fact.at),
            job_id: fact.ids.job().cloned(),
            index: None,
            attempt: None,
            will_retry: false,
            next_attempt_at: None,
            thread_id: fact.ids.thread().cloned(),
            turn_id: fact.ids.turn().cloned(),
            error: None,
        };
        match &fact.payload {
            Payload::JobItemStarted(started) => {
                change.status = ItemStatus::Running;
                (change.attempt, change.index) = (Some(started.attempt), started.index);
            }
            Payload::JobItemCompleted(completed) => {
                change.status = ItemStatus::Completed;
                (change.attempt, change.index) = (Some(completed.attempt), completed.index);
            }
            Payload::JobItemFailed(failed) => {
                change.status = failed.status;
                (change.attempt, change.index) = (Some(failed.attempt), failed.index);
                change.will_retry = failed.will_retry;
                change.next_attempt_at = failed.next_attempt_at;
                change.error = Some(failed.error.clone());
            }
            _ => return None,
        }
        Some(change)
    }
}
impl ItemView {
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
            last_error: None,
        }
    }
    pub fn change(&mut self, change: &ItemChange) {
        self.updated_at = self.updated_at.max(Some(change.at));
        self.job_id = change.job_id.clone().or(self.job_id.take());
        self.index = change.index.or(self.index);
        self.thread_id = change.thread_id.clone().or(self.thread_id.take());
        self.turn_id = change.turn_id.clone().or(self.turn_id.take());
        self.attempt = change.attempt.unwrap_or(self.attempt);
        self.next_attempt_at = change.next_attempt_at.filter(|_| change.will_retry);
        self.status = if change.will_retry { ItemStatus::Pending } else { change.status };
        if change.status == ItemStatus::Running {
            self.attempts_total = self.attempts_total.saturating_add(1);
            self.started_at.get_or_insert(change.at);
        }
        self.ended_at = self.status.is_terminal().then_some(change.at);
        if self.status == ItemStatus::Completed {
            self.last_error = None;
        }
        self.last_error = change.error.clone().or(self.last_error.take());
    }
}
