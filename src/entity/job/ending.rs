//! How a job ends: by itself, by a command, with its parent, or because its time is over; after all its items (P11).

use super::{Finish, Phase, decide::Step, run_id};
use crate::{
    entity::{Close, Message, Parent, kind},
    fact::{
        Failure,
        payload::{JobCancelled, JobCompleted, JobFailed},
        status::{JobStatus, SubagentStatus},
    },
};

impl Step<'_> {
    /// Ends the job and everything below. One that has ended stays as it is.
    pub(super) fn cancel(&mut self, reason: Option<String>, by: String) {
        if self.work.status.is_terminal() {
            return;
        }
        // Also when a run is closed because its time was over: no other follows.
        self.work.scheduled = None;
        self.draft.cancel_timer("schedule");
        self.stop_looking();
        let message = reason.clone().unwrap_or_else(|| "it was cancelled".into());
        let error = Failure::new("cancelled", message);
        self.close(Finish { status: JobStatus::Cancelled, error, reason, by, told: 0 });
    }

    /// A run took too long.
    pub(super) fn time_out(&mut self) {
        if self.work.status != JobStatus::Running {
            return;
        }
        let error = Failure::new("deadline_exceeded", "the job took too long").retryable();
        let (reason, by) = (Some("maxRuntimeMs".into()), "deadline".into());
        self.close(Finish { status: JobStatus::TimedOut, error, reason, by, told: 0 });
    }

    /// Begins to end. A cancel goes before what ends a run otherwise.
    fn close(&mut self, finish: Finish) {
        if let Some(ending) = &mut self.work.ending {
            if ending.status != JobStatus::Cancelled {
                *ending = Finish { told: ending.told, ..finish };
            }
            return;
        }
        if self.work.loading {
            self.draft.cancel_effect(self.load_name());
            self.draft.cancel_timer("load");
            self.work.loading = false;
        }
        self.draft.cancel_timer("deadline");
        self.work.buffer.clear();
        self.work.asked.clear();
        self.work.ending = Some(finish);
        self.set_status(JobStatus::Cancelling);
        if !self.work.slots.is_empty() {
            self.tell_progress(true, Some(JobStatus::Cancelling));
        }
        self.go();
    }

    /// Tells the items to end, as many as this step may.
    pub(super) fn close_items(&mut self) {
        let Some(finish) = self.work.ending.clone() else { return };
        let mut told = finish.told;
        for slot in self.work.slots.iter().filter(|slot| slot.index >= finish.told) {
            if slot.phase != Phase::Waiting {
                if !self.draft.quota.take_message(256) {
                    self.draft.go_on(Message::GoOn { turn: None });
                    break;
                }
                let run = run_id(self.work.base(), slot.index, slot.attempt);
                let to = self.draft.peer(kind::ITEM, run.as_str());
                let close = Close { reason: finish.reason.clone(), by: finish.by.clone() };
                self.draft.send(to, Message::Close(close));
            }
            told = slot.index + 1;
        }
        self.work.ending = Some(Finish { told, ..finish });
    }

    /// The terminal fact.
    pub(super) fn end(&mut self, ending: Option<Finish>) {
        let (counts, total) = (self.work.counts, self.work.items);
        let (completed, failed, cancelled) = (counts.completed, counts.failed, counts.cancelled);
        let status = match &ending {
            Some(finish) => finish.status,
            None if completed == total => JobStatus::Completed,
            None => JobStatus::Failed,
        };
        self.set_status(status);
        match (status, ending) {
            (JobStatus::Cancelled, Some(Finish { reason, by, .. })) => {
                let by = Some(by);
                self.tell(JobCancelled { status, total, completed, failed, cancelled, reason, by });
            }
            (_, Some(Finish { error, reason, .. })) => {
                self.tell(JobFailed { status, error, total, completed, failed, cancelled, reason });
            }
            (JobStatus::Completed, None) => {
                let duration_ms = Some(self.draft.now.0.saturating_sub(self.work.since.0));
                let summary = None;
                self.tell(JobCompleted { status, total, completed, failed, cancelled, summary, duration_ms });
            }
            (_, None) => {
                let message = format!("{} of {total} items did not complete", total - completed);
                let error = Failure::new("items_failed", message);
                let reason = None;
                self.tell(JobFailed { status, error, total, completed, failed, cancelled, reason });
            }
        }
        metrics::counter!("cadre_jobs_total", "status" => status.as_str()).increment(1);
        self.work.closed = true;
        let kept_ms = self.draft.engine.limits.job_items_kept_ms;
        self.draft.set_timer("expire", self.draft.now.in_ms(kept_ms));
        if let Some(Parent { address, slot }) = self.work.parent.clone() {
            let status = match status {
                JobStatus::Completed => SubagentStatus::Completed,
                JobStatus::Cancelled => SubagentStatus::Cancelled,
                JobStatus::TimedOut => SubagentStatus::TimedOut,
                _ => SubagentStatus::Failed,
            };
            let id = self.work.id.to_string();
            let ended = Message::ChildEnded { parent: slot, id, status, live: false, error: None };
            self.draft.send(address, ended);
        }
    }
}
