//! Items on their way from their records into the job: which are fetched next, and what becomes of those that were.

use cadre_cluster::host::EffectPolicy;

use super::{Loaded, Phase, decide::Step, load};
use crate::{
    exec::Effect,
    fact::status::{ItemStatus, JobStatus},
};

impl Step<'_> {
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
        let effect = Effect::Items { job: self.work.id.clone(), ranges, again, base: self.work.base.clone() };
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
