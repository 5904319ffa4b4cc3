//! Who a run has started, and what became of them.
//!
//! A parent of a hundred thousand remembers counts, not names: the ids of a group are derived from one base, so that
//! each child can be reached again, and a child says once per attempt that it has ended, which is counted exactly once
//! (P6). Ended and closed are two things: a child may end while children of its own live on, and one that had ended may be
//! resumed, which it says, too. `live` counts those whose whole tree is not closed, and a cancel is done when it is zero
//! (P11).
//!
//! An order to close stands until then: whoever goes on again meanwhile, because somebody has resumed it, is told at once
//! and alone. Nobody else is told a second time, however often the order is given (P9).

use std::collections::BTreeMap;

use cadre_cluster::address::Address;
use serde::{Deserialize, Serialize};

use super::Draft;
use crate::{
    entity::{Close, Message, Parent, Reopened, Slot, Start, kind},
    fact::{
        id::{CallId, Id, SubagentId, TurnId, child_suffix},
        status::SubagentStatus,
    },
    sabotage::{Sabotage, is_on},
    scripted::Join,
};

/// All children of a run, by group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Children {
    groups: BTreeMap<u32, Group>,
    next: u32,
    /// What all of them were told, while the tree of one of them is not closed.
    #[serde(default)]
    order: Option<Close>,
}

/// Children that were asked for together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Who they are.
    pub names: Names,
    /// How many there shall be.
    pub count: u32,
    /// How many were told to start.
    pub started: u32,
    /// How many of those have a tree that is not closed yet.
    pub live: u32,
    /// What became of those that have ended.
    pub tally: Tally,
    /// The first that did not complete.
    pub troubled: Vec<String>,
    /// What the parent waits for.
    pub join: Join,
    /// The call that asked for them.
    pub call: Option<CallId>,
    /// How the rest is started.
    pub start: Option<Box<Start>>,
    /// While they are being closed: how many were told.
    closing: Option<Closing>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Closing {
    told: u32,
    close: Close,
}

/// Who the children of a group are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Names {
    /// Subagents whose ids follow from this.
    Derived(String),
    /// Entities, by kind and id.
    Listed(Vec<(String, String)>),
}

impl Names {
    /// One entity.
    pub fn one(kind: &str, id: &str) -> Self {
        Self::Listed(vec![(kind.to_owned(), id.to_owned())])
    }

    /// The address of one of them.
    pub fn address(&self, draft: &Draft<'_>, index: u32) -> Address {
        match self {
            Self::Derived(base) => {
                let id = SubagentId::with_suffix(&child_suffix(base, u64::from(index)));
                draft.peer(kind::SUBAGENT, id.as_str())
            }
            Self::Listed(names) => {
                let (kind, id) = &names[index as usize];
                draft.peer(kind, id)
            }
        }
    }
}

/// How many ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// As they should.
    pub completed: u32,
    /// With an error.
    pub failed: u32,
    /// Because somebody said so.
    pub cancelled: u32,
    /// Too late.
    pub timed_out: u32,
    /// Nobody knows.
    pub lost: u32,
}

impl Tally {
    /// All that have ended.
    pub fn ended(&self) -> u32 {
        self.completed + self.failed + self.cancelled + self.timed_out + self.lost
    }

    fn add(&mut self, status: SubagentStatus) {
        *self.of(status) += 1;
    }

    /// It goes on, and will be added once more.
    fn take_back(&mut self, status: SubagentStatus) {
        let count = self.of(status);
        *count = count.saturating_sub(1);
    }

    fn of(&mut self, status: SubagentStatus) -> &mut u32 {
        match status {
            SubagentStatus::Completed => &mut self.completed,
            SubagentStatus::Cancelled => &mut self.cancelled,
            SubagentStatus::TimedOut => &mut self.timed_out,
            SubagentStatus::Lost => &mut self.lost,
            _ => &mut self.failed,
        }
    }

    /// As a result of the call that asked for them.
    pub fn to_json(self, started: u32) -> serde_json::Value {
        serde_json::json!({
            "started": started,
            "completed": self.completed,
            "failed": self.failed,
            "cancelled": self.cancelled,
            "timedOut": self.timed_out,
            "lost": self.lost,
        })
    }
}

impl Group {
    /// What a group takes in a state, more or less.
    pub const BYTES_MAX: usize = 512;
    /// How many that do not complete are remembered by name.
    const TROUBLED_MAX: usize = 5;

    /// A group of which nobody has been started.
    pub fn new(names: Names, count: u32, join: Join, call: Option<CallId>, start: Start) -> Self {
        Self {
            names,
            count,
            started: 0,
            live: 0,
            tally: Tally::default(),
            troubled: Vec::new(),
            join,
            call,
            start: Some(Box::new(start)),
            closing: None,
        }
    }

    /// Whether all of them were told to start.
    pub fn is_started(&self) -> bool {
        self.started == self.count
    }

    /// Whether the parent has what it waits for.
    pub fn is_joined(&self) -> bool {
        self.is_started()
            && match self.join {
                Join::All => self.tally.ended() >= self.count,
                Join::Any => self.tally.ended() >= 1 || self.count == 0,
                Join::None => true,
            }
    }

    /// Tells more of them to start. Whether that was all.
    fn start_some(&mut self, number: u32, turn: Option<&TurnId>, draft: &mut Draft<'_>) -> bool {
        let Some(start) = &self.start else { return true };
        let bytes = start.size();
        while self.started < self.count {
            if !draft.quota.take_message(bytes) {
                return false;
            }
            let to = self.names.address(draft, self.started);
            let slot = Slot { turn: turn.cloned(), group: number };
            let parent = Parent { address: draft.address.clone(), slot };
            let start = Start { parent: Some(parent), ..(**start).clone() };
            draft.send(to, Message::Start(Box::new(start)));
            self.started += 1;
            self.live += 1;
        }
        self.start = None;
        true
    }

    /// Tells more of them to close. Whether that was all.
    fn close_some(&mut self, draft: &mut Draft<'_>) -> bool {
        let Some(closing) = &mut self.closing else { return true };
        let forgotten = u32::from(is_on(Sabotage::CancelForgetsChild));
        while closing.told < self.started.saturating_sub(forgotten) {
            if !draft.quota.take_message(128) {
                return false;
            }
            let to = self.names.address(draft, closing.told);
            draft.send(to, Message::Close(closing.close.clone()));
            closing.told += 1;
        }
        self.closing = None;
        true
    }
}

impl Children {
    /// Adds a group; nobody of it is started before [`Self::work`].
    pub fn add(&mut self, group: Group) -> u32 {
        let number = self.next;
        self.next += 1;
        self.groups.insert(number, group);
        number
    }

    /// A group.
    pub fn group(&self, number: u32) -> Option<&Group> {
        self.groups.get(&number)
    }

    /// How many children have a tree that is not closed.
    pub fn live(&self) -> u64 {
        self.groups.values().map(|group| u64::from(group.live)).sum()
    }

    /// How many groups there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Starts and closes as many as fit into this step. Whether that was all.
    pub fn work(&mut self, turn: Option<&TurnId>, draft: &mut Draft<'_>) -> bool {
        self.groups
            .iter_mut()
            .all(|(number, group)| group.start_some(*number, turn, draft) && group.close_some(draft))
    }

    /// Whether nobody is left to be told anything.
    pub fn is_settled(&self) -> bool {
        self.groups.values().all(|group| group.start.is_none() && group.closing.is_none())
    }

    /// Has everybody closed who is not. Those who were not started yet are not started any more. The order stands until all
    /// are closed; the first one counts.
    pub fn close(&mut self, close: &Close) {
        if self.order.is_some() {
            return;
        }
        for group in self.groups.values_mut() {
            group.count = group.started;
            group.start = None;
            group.call = None;
            if group.live > 0 {
                group.closing = Some(Closing { told: 0, close: close.clone() });
                if is_on(Sabotage::CancelForgetsChild) {
                    group.live -= 1;
                }
            }
        }
        self.groups.retain(|_, group| group.live > 0);
        let stands = self.live() > 0 && !is_on(Sabotage::OrderForgotten);
        self.order = stands.then(|| close.kept());
    }

    /// How many live children of groups that were joined like that.
    pub fn live_of(&self, join: Join) -> u64 {
        let groups = self.groups.values().filter(|group| group.join == join);
        groups.map(|group| u64::from(group.live)).sum()
    }

    /// Whether a group was joined like that.
    pub fn is_of(&self, number: u32, join: Join) -> bool {
        self.groups.get(&number).is_some_and(|group| group.join == join)
    }

    /// Has everybody closed who is not, of the groups that were joined like that.
    pub fn close_of(&mut self, join: Join, close: &Close) {
        for group in self.groups.values_mut().filter(|group| group.join == join && group.live > 0) {
            group.count = group.started;
            group.start = None;
            group.closing = Some(Closing { told: 0, close: close.clone() });
        }
    }

    /// The order to close that stands.
    pub fn order(&self) -> Option<&Close> {
        self.order.as_ref()
    }

    /// An order that stands for their parent holds for whoever of them goes on again.
    pub fn stand_under(&mut self, order: Option<&Close>) {
        self.order = self.order.take().or_else(|| order.cloned());
    }

    /// Their parent was told to begin anew: what goes on below it may do so.
    pub fn forget_order(&mut self) {
        self.order = None;
    }

    /// A child has ended. `live` says whether its own children go on.
    pub fn ended(&mut self, number: u32, id: &str, status: SubagentStatus, live: bool) {
        let Some(group) = self.groups.get_mut(&number) else { return };
        group.tally.add(status);
        if is_on(Sabotage::ChildEndCountedTwice) {
            group.tally.add(status);
        }
        if status != SubagentStatus::Completed && group.troubled.len() < Group::TROUBLED_MAX {
            group.troubled.push(id.to_owned());
        }
        if !live {
            group.live = group.live.saturating_sub(1);
        }
        self.forget(number);
    }

    /// The last of a child's own children is closed, after the child itself has ended.
    pub fn closed(&mut self, number: u32) {
        if let Some(group) = self.groups.get_mut(&number) {
            group.live = group.live.saturating_sub(1);
        }
        self.forget(number);
    }

    /// A child that had ended goes on. Who waits for it waits for how it ends now. Its group may be forgotten by now: then
    /// those that go on are remembered by name, so that a cancel reaches each of them (P11). One for whose name there is
    /// no room left is closed again, and so is whoever goes on under an order to close.
    pub fn reopened(&mut self, number: u32, child: &Address, again: &Reopened, draft: &mut Draft<'_>) {
        if let Some(group) = self.groups.get_mut(&number)
            && let Some(status) = again.ended_as
        {
            group.tally.take_back(status);
            group.troubled.retain(|id| *id != again.id);
        }
        if let Some(order) = self.order.clone() {
            draft.send(child.clone(), Message::Close(order));
        }
        if again.was_closed {
            self.live_again(number, child, draft);
        }
        self.let_go();
    }

    /// Once everybody is closed, the order to close is carried out.
    fn let_go(&mut self) {
        if self.live() == 0 {
            self.order = None;
        }
    }

    /// One whose tree was closed is counted again, and found again.
    fn live_again(&mut self, number: u32, child: &Address, draft: &mut Draft<'_>) {
        let group = self.groups.entry(number).or_insert_with(|| Group {
            names: Names::Listed(Vec::new()),
            count: 0,
            started: 0,
            live: 0,
            tally: Tally::default(),
            troubled: Vec::new(),
            join: Join::None,
            call: None,
            start: None,
            closing: None,
        });
        group.live += 1;
        let Names::Listed(names) = &mut group.names else { return };
        if names.iter().any(|(kind, id)| kind == child.kind() && id == child.id()) {
            return;
        }
        let first = if names.is_empty() { Group::BYTES_MAX } else { 0 };
        if draft.take_spare(first + child.kind().len() + child.id().len() + 16) {
            names.push((child.kind().to_owned(), child.id().to_owned()));
            (group.count, group.started) = (group.count + 1, group.started + 1);
        } else if self.order.is_none() {
            draft.send(child.clone(), Message::Close(Self::no_room()));
        }
    }

    /// What is told to a child that goes on again and cannot be remembered: nobody could close it later.
    pub fn no_room() -> Close {
        let reason = Some("too many go on again at once below its parent".to_owned());
        Close { reason, by: "runtime".into() }
    }

    /// The result of a group is known, and its call needs it no more.
    pub fn joined(&mut self, number: u32) {
        if let Some(group) = self.groups.get_mut(&number) {
            group.call = None;
        }
        self.forget(number);
    }

    /// A group that nobody asks about and that is closed is history.
    fn forget(&mut self, number: u32) {
        let over = |group: &Group| group.call.is_none() && group.live == 0 && group.is_started();
        if self.groups.get(&number).is_some_and(over) {
            self.groups.remove(&number);
        }
        self.let_go();
    }
}
