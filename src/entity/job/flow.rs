//! What goes on in a job: which items are started, and which once more by hand.

use super::{Loaded, Phase, Slot, decide::Step, removal, run_id};
use crate::{
    control::Error,
    entity::{Child, ItemSpec, Message, Parent, Slot as ParentSlot, Start, kind},
    exec::{STEP_RETRIES_MAX, Source},
    fact::status::{ItemStatus, JobStatus},
};

/// How many items may wait to be tried again by hand.
const ASKED_MAX: usize = 1_000;

impl Step<'_> {
    /// Does what can be done now.
    pub(super) fn go(&mut self) {
        match (&self.work.ending, self.work.status) {
            (Some(_), _) => self.close_items(),
            (None, JobStatus::Running) => self.start_items(),
            _ => return,
        }
        self.load();
        if self.is_idle() {
            self.run_over();
        }
        let due = self.work.slots.next_due(self.draft.now).filter(|_| self.work.ending.is_none());
        if due != self.work.retry_at {
            match due {
                Some(due) => self.draft.set_timer("retry", due),
                None => self.draft.cancel_timer("retry"),
            }
            self.work.retry_at = due;
        }
    }

    /// Whether nothing is open and nothing is left to do.
    fn is_idle(&self) -> bool {
        let work = &self.work;
        let is_open = !work.slots.is_empty() || work.loading || !work.buffer.is_empty();
        !is_open && work.asked.is_empty() && (work.ending.is_some() || work.next >= work.items)
    }

    /// Starts items that were fetched, as slots and this step allow.
    fn start_items(&mut self) {
        while let Some(loaded) = self.work.buffer.front() {
            let has_slot = self.work.slots.get(loaded.index).is_some();
            if !has_slot && self.work.slots.len() >= self.work.spec.concurrency() {
                return;
            }
            let size = 400 + loaded.size() + self.work.spec.instruction.len();
            if !self.draft.quota.take_message(size) {
                return self.draft.go_on(Message::GoOn { turn: None });
            }
            if let Some(loaded) = self.work.buffer.pop_front() {
                self.start_item(loaded);
            }
        }
    }

    fn start_item(&mut self, loaded: Loaded) {
        let Loaded { index, item, input, view, former } = loaded;
        let asked = self.work.asked.iter().position(|asked| *asked == index);
        if let Some(at) = asked {
            self.work.asked.remove(at);
            // It was counted as ended. What has no record of this run ended before it began.
            let of_this_run = |at| at >= Some(crate::fact::Time(self.work.since));
            let view = view.as_ref().filter(|view| of_this_run(view.updated_at));
            let status = view.map_or(ItemStatus::Cancelled, |view| view.status);
            if status == ItemStatus::Completed {
                return; // meanwhile
            }
            if let Some(count) = self.work.counts.of(status) {
                *count = count.saturating_sub(1);
            }
        }
        self.work.next = self.work.next.max(index + 1);
        let before = self.work.slots.get(index).copied();
        let source = match input {
            Ok(Source::Inline(parts)) => Source::Inline(self.work.spec.input(parts)),
            Ok(stored) => stored,
            Err(failure) => {
                self.work.slots.remove(index);
                return self.tell_unstarted(index, &item, failure, view.0.map(|view| *view));
            }
        };
        let now = self.draft.now;
        let slot = Slot {
            index,
            attempt: view.as_ref().map_or(0, |view| view.attempts_total) + 1,
            tried: before.map_or(0, |slot| slot.tried) + 1,
            since: now,
            first: view.as_ref().and_then(|view| view.started_at).map_or(now, |time| time.0),
            due: Default::default(),
            phase: Phase::Running,
        };
        self.work.slots.put(slot);
        if slot.attempt > 1 {
            // What it left is known; a job that runs every minute must not leave more behind each time.
            removal::forget(&mut self.draft, self.work.base(), index, slot.attempt - 1);
        }
        let run = run_id(self.work.base(), index, slot.attempt);
        let to = self.draft.peer(kind::ITEM, run.as_str());
        let retries_max = if self.work.spec.retry_policy.is_some() { 0 } else { STEP_RETRIES_MAX };
        let spec = ItemSpec {
            job: self.work.id.clone(),
            item: item.clone(),
            run,
            attempt: slot.attempt,
            deadline_ms: None,
            retries_max,
            former,
        };
        let slot_of_item = ParentSlot { turn: None, group: index };
        let start = Start {
            session: self.work.session.clone(),
            parent: Some(Parent { address: self.draft.address.clone(), slot: slot_of_item }),
            lineage: self.work.lineage.clone(),
            agent: self.work.spec.agent.clone(),
            input: source,
            depth: self.work.depth + 1,
            what: Child::Item(spec),
            budget: self.work.spec.budget,
        };
        self.draft.send(to, Message::Start(Box::new(start)));
        self.tell_started(slot, &item, view.0.map(|view| *view));
        if asked.is_some() {
            self.tell_progress(true, None);
        }
    }

    /// Tries an ended item again, by hand: the policy is granted anew.
    pub(super) fn retry(&mut self, index: u32) -> Result<(), Error> {
        if self.work.asked.len() >= ASKED_MAX {
            let message = format!("{} items wait to be tried again", self.work.asked.len());
            return Err(Error::rate_limited(1_000, message));
        }
        self.work.asked.push_back(index);
        if self.work.status != JobStatus::Running {
            self.reopen();
        }
        self.go();
        Ok(())
    }
}
