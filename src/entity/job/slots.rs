//! The items of a job that are under way, at most as many as may run at once.
//!
//! An item keeps its slot from its first attempt until nothing more is expected of it: while it runs, while it waits to
//! be tried again, and while what it has started lives on. So the state of a job is bounded by its concurrency, however
//! many items it has (P9), and a cancel knows whom to close (P11).

use cadre_cluster::clock::Timestamp;
use serde::{Deserialize, Serialize};

/// An item that is under way. A job may have a thousand of them in its state, so it holds no ids: those follow from the
/// index and the attempt, and the item's own id comes with what the item says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Which item.
    pub index: u32,
    /// Its last attempt, from 1.
    pub attempt: u32,
    /// How many attempts count against the policy.
    pub tried: u32,
    /// When the attempt began.
    pub since: Timestamp,
    /// When the item's first attempt began.
    pub first: Timestamp,
    /// When the next attempt is due; zero when none is.
    pub due: Timestamp,
    /// Where it stands.
    pub phase: Phase,
}

/// Where an item stands. One byte when stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "u8", try_from = "u8")]
pub enum Phase {
    /// Its attempt goes on.
    Running,
    /// It has ended, and what it started lives on.
    Lingering,
    /// Its attempt has failed; what that started is being closed, then comes another.
    Clearing,
    /// Another attempt comes when it is due.
    Waiting,
}

impl From<Phase> for u8 {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Running => 0,
            Phase::Lingering => 1,
            Phase::Clearing => 2,
            Phase::Waiting => 3,
        }
    }
}

impl TryFrom<u8> for Phase {
    type Error = String;

    fn try_from(byte: u8) -> Result<Self, String> {
        match byte {
            0 => Ok(Self::Running),
            1 => Ok(Self::Lingering),
            2 => Ok(Self::Clearing),
            3 => Ok(Self::Waiting),
            other => Err(format!("{other} is no phase of an item")),
        }
    }
}

/// All items under way, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots(Vec<Slot>);

impl Slots {
    /// How many are taken.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, by index.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter()
    }

    /// How many attempts go on.
    pub fn running(&self) -> u32 {
        self.0.iter().filter(|slot| slot.phase == Phase::Running).count() as u32
    }

    /// That of an item.
    pub fn get(&self, index: u32) -> Option<&Slot> {
        self.place(index).ok().map(|at| &self.0[at])
    }

    /// Takes one, or changes it.
    pub fn put(&mut self, slot: Slot) {
        match self.place(slot.index) {
            Ok(at) => self.0[at] = slot,
            Err(at) => self.0.insert(at, slot),
        }
    }

    /// Gives one back.
    pub fn remove(&mut self, index: u32) {
        if let Ok(at) = self.place(index) {
            self.0.remove(at);
        }
    }

    /// When the next attempt after `now` is due.
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        let waiting = self.0.iter().filter(|slot| slot.phase == Phase::Waiting && slot.due > now);
        waiting.map(|slot| slot.due).min()
    }

    fn place(&self, index: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&index, |slot| slot.index)
    }
}
