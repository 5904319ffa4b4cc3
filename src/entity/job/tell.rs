//! What a job says: of its items, each with the item's record, and of itself.

use cadre_cluster::clock::Timestamp;

use super::{Slot, decide::Step, encode_view, run_suffix};
use crate::{
    entity::records,
    fact::{
        Class, Failure, Ids, Time,
        id::{Id, ItemId, RunId, ThreadId, TurnId},
        payload::{JobItemCompleted, JobItemFailed, JobItemStarted, JobProgress},
        scope::{ItemScope, JobScope},
        status::{ItemStatus, JobStatus},
    },
    sabotage::{Sabotage, is_on},
    view::{ItemChange, ItemView},
};

impl Step<'_> {
    /// An attempt begins. `view` is how the item stood before, if it ever began.
    pub(super) fn tell_started(&mut self, slot: Slot, item: &ItemId, view: Option<ItemView>) {
        let suffix = run_suffix(self.work.base(), slot.index, slot.attempt);
        let started = JobItemStarted {
            status: ItemStatus::Running,
            attempt: slot.attempt,
            index: Some(slot.index),
            worker: Some(self.work.spec.agent.clone()),
            assigned_thread_id: Some(ThreadId::with_suffix(&suffix)),
            assigned_turn_id: Some(TurnId::with_suffix(&suffix)),
        };
        let view = view.unwrap_or_else(|| ItemView::new(item.clone()));
        self.tell_item(slot.index, Some(slot.attempt), item, started, view);
    }

    /// An attempt did what it should.
    pub(super) fn tell_completed(&mut self, slot: Slot, item: &ItemId) {
        let completed = JobItemCompleted {
            status: ItemStatus::Completed,
            attempt: slot.attempt,
            index: Some(slot.index),
            duration_ms: Some(self.draft.now.0.saturating_sub(slot.since.0)),
            ..Default::default()
        };
        self.work.counts.completed += 1;
        self.tell_item(slot.index, Some(slot.attempt), item, completed, view_of(slot, item));
        self.tell_progress(false, None);
    }

    /// An attempt ended in another way, and another follows at `next` or not at all.
    pub(super) fn tell_failed(
        &mut self,
        slot: Slot,
        item: &ItemId,
        status: ItemStatus,
        error: Failure,
        next: Option<Timestamp>,
    ) {
        let failed = JobItemFailed {
            status,
            retryable: error.retryable,
            error,
            attempt: slot.attempt,
            index: Some(slot.index),
            will_retry: next.is_some(),
            next_attempt_at: next.map(Time),
        };
        if let Some(count) = self.work.counts.of(status).filter(|_| next.is_none()) {
            *count += 1;
        }
        self.tell_item(slot.index, Some(slot.attempt), item, failed, view_of(slot, item));
        self.tell_progress(false, None);
    }

    /// There is nothing that an attempt could be started with.
    pub(super) fn tell_unstarted(
        &mut self,
        index: u32,
        item: &ItemId,
        error: Failure,
        view: Option<ItemView>,
    ) {
        let failed = JobItemFailed {
            status: ItemStatus::Failed,
            error,
            attempt: 0,
            index: Some(index),
            ..Default::default()
        };
        self.work.counts.failed += 1;
        let view = view.unwrap_or_else(|| ItemView::new(item.clone()));
        self.tell_item(index, None, item, failed, view);
        self.tell_progress(false, None);
    }

    /// Says it, and writes how the item stands from then on.
    fn tell_item<P: Class<Scope = ItemScope>>(
        &mut self,
        index: u32,
        attempt: Option<u32>,
        item: &ItemId,
        payload: P,
        mut view: ItemView,
    ) {
        let mut ids = self.ids();
        if let Some(attempt) = attempt {
            let suffix = run_suffix(self.work.base(), index, attempt);
            ids = ids
                .with(RunId::with_suffix(&suffix))
                .with(ThreadId::with_suffix(&suffix))
                .with(TurnId::with_suffix(&suffix));
        }
        let scope = ItemScope { job: self.work.id.clone(), item: item.clone() };
        self.draft.tell_within(&ids, scope, payload);
        if let Some(change) = self.draft.facts.last().and_then(ItemChange::of) {
            view.change(&change);
            if is_on(Sabotage::ItemEndNotKept) && view.status.is_terminal() {
                return;
            }
            self.draft.set_record(records::item_view(&self.work.id, index), encode_view(&view));
        }
    }

    /// Says how far it is: when that has changed by a hundredth of the whole, when the last item has ended, and when
    /// `anyway`, because the counts went back or the status changed.
    pub(super) fn tell_progress(&mut self, anyway: bool, status: Option<JobStatus>) {
        let (counts, total) = (self.work.counts, self.work.items);
        let ended = counts.ended();
        let moved = u64::from(ended.abs_diff(self.work.told)) * 100 >= u64::from(total);
        let is_last = ended == total && self.work.told != ended;
        if !(anyway || moved || is_last) {
            return;
        }
        self.work.told = ended;
        let running = self.work.slots.running();
        let progress = JobProgress {
            total,
            pending: total.saturating_sub(ended + running),
            running,
            completed: counts.completed,
            failed: counts.failed,
            cancelled: counts.cancelled,
            percent: (f64::from(ended) / f64::from(total) * 10_000.0).floor() / 100.0,
            status,
        };
        self.tell(progress);
    }

    /// Says something of the job.
    pub(super) fn tell<P: Class<Scope = JobScope>>(&mut self, payload: P) {
        let ids = self.ids();
        self.draft.tell_within(&ids, JobScope { job: self.work.id.clone() }, payload);
    }

    /// Changes how the job stands, in what is counted.
    pub(super) fn set_status(&mut self, status: JobStatus) {
        let session = self.work.session.clone();
        self.draft.count(records::count(&session, "jobs", self.work.status.as_str()), -1);
        self.draft.count(records::count(&session, "jobs", status.as_str()), 1);
        self.work.status = status;
    }

    fn ids(&self) -> Ids {
        match &self.work.lineage.task {
            Some(task) => Ids::default().with(task.clone()),
            None => Ids::default(),
        }
    }
}

/// How an item stood while its attempt went on, as far as an end does not replace it.
fn view_of(slot: Slot, item: &ItemId) -> ItemView {
    let mut view = ItemView::new(item.clone());
    view.attempt = slot.attempt;
    view.attempts_total = slot.attempt;
    view.started_at = Some(Time(slot.first));
    view
}
