//! Attempts at items, as they tell the job how they end.

use cadre_cluster::address::Address;

use super::{Phase, Slot, decide::Step, run_id};
use crate::{
    entity::{Close, Message},
    fact::{
        Failure,
        id::ItemId,
        status::{ItemStatus, SubagentStatus},
    },
};

impl Step<'_> {
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
        (run_id(self.work.base(), index, slot.attempt).as_str() == from.id()).then_some(slot)
    }
}
