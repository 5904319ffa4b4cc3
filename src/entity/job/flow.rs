//! How items come and go: fetched, started, ended, tried again.

use cadre_cluster::{address::Address, host::EffectPolicy};

use super::{Loaded, Phase, Slot, decide::Step, load, run_id};
use crate::{
    control::Error,
    entity::{Child, Close, ItemSpec, Message, Parent, Slot as ParentSlot, Start, kind},
    exec::{Effect, STEP_RETRIES_MAX, Source},
    fact::{
        Failure,
        id::ItemId,
        status::{ItemStatus, JobStatus, SubagentStatus},
    },
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
        let run = run_id(&self.work.id, index, slot.attempt);
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
        };
        self.draft.send(to, Message::Start(Box::new(start)));
        self.tell_started(slot, &item, view.0.map(|view| *view));
        if asked.is_some() {
            self.tell_progress(true, None);
        }
    }

    /// Fetches what comes next: what is to be tried again first, because it holds slots.
    pub(super) fn load(&mut self) {
        if self.work.loading {
            return;
        }
        let (closing, now) = (self.work.ending.is_some(), self.draft.now);
        let is_here = |index: u32| self.work.buffer.iter().any(|loaded| loaded.index == index);
        let due = self.work.slots.iter().filter(|slot| {
            slot.phase == Phase::Waiting && (closing || slot.due <= now) && !is_here(slot.index)
        });
        let mut again: Vec<u32> = due.map(|slot| slot.index).take(load::ITEMS_MAX as usize).collect();
        if !closing {
            let free = self.work.spec.concurrency().saturating_sub(self.work.slots.len());
            let room = free.min(load::ITEMS_MAX as usize - again.len());
            again.extend(self.work.asked.iter().copied().filter(|index| !is_here(*index)).take(room));
        }
        let fetched = self.work.buffer.front().map(|loaded| loaded.index);
        let holds_new = fetched
            .is_some_and(|index| self.work.slots.get(index).is_none() && !self.work.asked.contains(&index));
        if !again.is_empty() && (fetched.is_none() || holds_new) {
            // New items that wait for a slot are fetched again later: those who hold the slots go first.
            self.work.buffer.clear();
            return self.fetch(ranges(again), true);
        }
        let (from, items) = (self.work.next, self.work.items);
        if fetched.is_none() && !closing && self.work.status == JobStatus::Running && from < items {
            self.fetch(vec![(from, items.min(from + load::ITEMS_MAX))], false);
        }
    }

    fn fetch(&mut self, ranges: Vec<(u32, u32)>, again: bool) {
        self.work.loading = true;
        self.work.loads += 1;
        let effect = Effect::Items { job: self.work.id.clone(), ranges, again };
        let policy = EffectPolicy { attempts_max: 10, ..EffectPolicy::default() };
        self.draft.start_effect(self.load_name(), effect, policy);
    }

    pub(super) fn load_name(&self) -> String {
        format!("items/{}", self.work.loads)
    }

    /// Items have been fetched.
    pub(super) fn loaded(&mut self, items: Vec<Loaded>) {
        if self.work.ending.is_none() {
            return self.work.buffer.extend(items);
        }
        for loaded in items {
            let slot = self.work.slots.get(loaded.index).copied();
            if let Some(slot) = slot.filter(|slot| slot.phase == Phase::Waiting) {
                self.work.slots.remove(slot.index);
                let error = self.work.ending.as_ref().map(|ending| ending.error.clone()).unwrap_or_default();
                self.tell_failed(slot, &loaded.item, ItemStatus::Cancelled, error, None);
            }
        }
        self.tell_progress(true, None); // these were not running any more
    }

    /// An attempt has ended.
    pub(super) fn item_ended(
        &mut self,
        from: &Address,
        index: u32,
        item: &str,
        status: SubagentStatus,
        live: bool,
        error: Option<Failure>,
    ) {
        let Some(slot) = self.slot_of(from, index).filter(|slot| slot.phase == Phase::Running) else {
            return;
        };
        let Ok(item) = ItemId::parse(item) else { return };
        let status = match status {
            SubagentStatus::Completed => ItemStatus::Completed,
            SubagentStatus::Cancelled => ItemStatus::Cancelled,
            SubagentStatus::TimedOut => ItemStatus::TimedOut,
            SubagentStatus::Lost => ItemStatus::Lost,
            _ => ItemStatus::Failed,
        };
        let error = error.unwrap_or_else(|| Failure::new("internal", "it ended without saying why"));
        let can_retry = error.retryable && matches!(status, ItemStatus::Failed | ItemStatus::TimedOut);
        let policy = self.work.spec.retry_policy.unwrap_or_default();
        let wait = policy.wait_ms(slot.tried + 1).filter(|_| can_retry && self.work.ending.is_none());
        let due = wait.map(|ms| self.draft.now.in_ms(ms));
        let phase = match (due, live) {
            (Some(_), true) => Some(Phase::Clearing),
            (Some(_), false) => Some(Phase::Waiting),
            (None, true) => Some(Phase::Lingering),
            (None, false) => None,
        };
        match phase {
            Some(phase) => self.work.slots.put(Slot { phase, due: due.unwrap_or_default(), ..slot }),
            None => self.work.slots.remove(index),
        }
        if phase == Some(Phase::Clearing) {
            let close = Close { reason: Some("the item is tried again".into()), by: "job".into() };
            self.draft.send(from.clone(), Message::Close(close));
        }
        match status {
            ItemStatus::Completed => self.tell_completed(slot, &item),
            status => self.tell_failed(slot, &item, status, error, due),
        }
    }

    /// What an attempt had started is closed.
    pub(super) fn item_closed(&mut self, from: &Address, index: u32) {
        match self.slot_of(from, index) {
            Some(slot) if slot.phase == Phase::Clearing => {
                self.work.slots.put(Slot { phase: Phase::Waiting, ..slot });
            }
            Some(slot) if slot.phase == Phase::Lingering => self.work.slots.remove(index),
            _ => {}
        }
    }

    /// The slot of an item, if it is this attempt that speaks.
    fn slot_of(&self, from: &Address, index: u32) -> Option<Slot> {
        let slot = self.work.slots.get(index).copied()?;
        (run_id(&self.work.id, index, slot.attempt).as_str() == from.id()).then_some(slot)
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

/// Indexes as ranges, neighbours in one.
fn ranges(mut indexes: Vec<u32>) -> Vec<(u32, u32)> {
    indexes.sort_unstable();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, to)) if *to == index => *to += 1,
            _ => ranges.push((index, index + 1)),
        }
    }
    ranges
}
