//! The runs of a job: one, or one for each time of its schedule.

use cadre_cluster::{
    clock::Timestamp,
    host::{EffectPolicy, EffectResult},
};

use super::{Counts, decide::Step, schedule::Plan};
use crate::{
    entity::{Message, Parent, Reopened},
    exec::{Effect, Outcome},
    fact::{Time, payload::JobStarted, status::JobStatus},
};

impl Step<'_> {
    /// Begins a run of all items.
    pub(super) fn begin_run(&mut self, scheduled: Option<Timestamp>) {
        let work = &mut self.work;
        work.runs += 1;
        work.counts = Counts::default();
        work.told = 0;
        work.since = self.draft.now;
        work.next = 0;
        self.tell_begun(scheduled);
        if self.work.runs > 1 {
            self.tell_progress(true, None); // back to nothing
        }
        self.load();
    }

    /// A job that is over goes on with items that are tried again.
    pub(super) fn reopen(&mut self) {
        self.draft.cancel_timer("schedule"); // looked at again when it is over
        if let Some(due) = self.stop_looking() {
            self.work.scheduled = Some(due);
        }
        self.draft.cancel_timer("expire");
        if std::mem::replace(&mut self.work.closed, false)
            && let Some(Parent { address, slot }) = self.work.parent.clone()
        {
            let again = Reopened { id: self.work.id.to_string(), ended_as: None, was_closed: true };
            self.draft.send(address, Message::ChildReopened { parent: slot, again });
        }
        self.tell_begun(None);
    }

    fn tell_begun(&mut self, scheduled: Option<Timestamp>) {
        self.set_status(JobStatus::Running);
        let deadline = self.work.spec.max_runtime_ms.map(|ms| self.draft.now.in_ms(ms));
        if let Some(deadline) = deadline {
            self.draft.set_timer("deadline", deadline);
        }
        let started = JobStarted {
            status: JobStatus::Running,
            total: Some(self.work.items),
            deadline_at: deadline.map(Time),
            scheduled_at: scheduled.map(Time),
        };
        self.tell(started);
    }

    /// Every item has ended.
    pub(super) fn run_over(&mut self) {
        self.draft.cancel_timer("deadline");
        let ending = self.work.ending.take();
        if ending.is_some() {
            let counts = &mut self.work.counts;
            counts.cancelled = self.work.items - counts.completed - counts.failed;
            self.work.next = self.work.items;
        }
        if self.work.next_run().is_some() {
            self.set_status(JobStatus::Scheduled);
            self.tell_progress(true, Some(JobStatus::Scheduled));
            return self.scheduled_time(true);
        }
        self.end(ending);
    }

    /// Looks at the times of the schedule. `busy` says that the job ran until now.
    pub(super) fn scheduled_time(&mut self, busy: bool) {
        let plan = self.work.spec.schedule.as_ref().map(|schedule| Plan::new(schedule, self.work.created));
        let (Some(Ok(plan)), Some(due)) = (plan, self.work.scheduled) else { return self.end(None) };
        let taken = plan.take(due, self.draft.now, busy);
        self.work.scheduled = taken.next;
        match (taken.run, taken.next) {
            (Some(at), _) => {
                self.work.due = Some(at);
                self.look();
            }
            (None, Some(next)) => self.draft.set_timer("schedule", next),
            (None, None) => self.end(None),
        }
    }

    pub(super) fn open_name(&self) -> String {
        format!("open/{}", self.work.loads)
    }

    /// A run that is due is new work: it begins if the session still takes any.
    pub(super) fn look(&mut self) {
        if self.work.due.is_some() {
            self.work.loads += 1;
            let effect = Effect::IsOpen { session: self.work.session.clone() };
            let policy = EffectPolicy { attempts_max: 10, ..EffectPolicy::default() };
            self.draft.start_effect(self.open_name(), effect, policy);
        }
    }

    /// It was looked at.
    pub(super) fn looked(&mut self, result: EffectResult<Outcome>) {
        let Some(due) = self.work.due.take() else { return };
        match result {
            EffectResult::Done(Outcome::IsOpen { open: true }) => {
                self.begin_run(Some(due));
                self.go();
            }
            EffectResult::Done(Outcome::IsOpen { open: false }) => {
                self.cancel(Some("the session was archived".into()), "archive".into());
            }
            // The store will be there again.
            _ => {
                self.work.due = Some(due);
                self.draft.set_timer("open", self.draft.now.in_ms(1_000));
            }
        }
    }

    /// A run that is due is not looked at any more.
    pub(super) fn stop_looking(&mut self) -> Option<Timestamp> {
        let due = self.work.due.take()?;
        self.draft.cancel_effect(self.open_name());
        self.draft.cancel_timer("open");
        Some(due)
    }
}
