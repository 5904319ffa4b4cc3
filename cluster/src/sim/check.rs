//! The promises, checked on what is stored, what was read and what clients were told.

mod feeds;
mod forgetting;
mod letters;
mod reports;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    bank::{self, Account, AccountState, How, Report},
    deeds::Deed,
    janitor::Swept,
    reader::Seen,
    record::Recorded,
    tree::{self, Branch, End, Join},
    workload::{Keyless, Known, Log, Planted, Told},
};
use crate::{
    address::Address,
    clock::Timestamp,
    feed::Cursor,
    host::{Entity, Repeat, read_entity},
    keys,
    store::KeyValue,
};

pub(super) use feeds::Kept;
pub(super) use letters::Letter;

/// A promise that was not kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// Its number: 1 for P1.
    pub promise: u8,
    /// What was seen.
    pub what: String,
}

/// Everything that a simulation leaves behind.
pub(super) struct Remains {
    pub feeds: Vec<Kept>,
    pub swept: Vec<Swept>,
    pub accounts: Vec<KeyValue>,
    pub branches: Vec<KeyValue>,
    /// How long idempotency keys are remembered.
    pub keys_ttl: Duration,
    /// Whether that is over for all of them.
    pub forgets: bool,
    /// Answers recorded under idempotency keys.
    pub answers: Vec<KeyValue>,
    /// The lists of those that expire.
    pub expiries: Vec<KeyValue>,
    /// Keys of inboxes, timers and pending effects.
    pub leftovers: Vec<String>,
    pub dead_letters: Vec<Letter>,
    pub intruders: Vec<String>,
    pub readers: Vec<Seen>,
    pub log: Log,
    pub deeds: BTreeMap<String, Deed>,
    /// Reports of effects that are said to be durable.
    pub reported: Vec<Report>,
    /// Clients and readers that did not come to an end.
    pub stuck: Vec<String>,
    /// The most inputs that waited on a node, and the bound.
    pub waiting: (usize, usize),
}

impl Remains {
    /// All that ever happened in a feed.
    pub fn facts<F: Serialize + DeserializeOwned>(&self, feed: &str) -> Vec<Recorded<F>> {
        let kept = self.feeds.iter().filter(|kept| kept.feed == feed);
        kept.flat_map(|kept| &kept.appended).map(|appended| Recorded::read(&appended.event)).collect()
    }
}

/// All violations, the most telling first.
pub(super) fn check(remains: &Remains) -> Vec<Violation> {
    let mut check = Check { violations: Vec::new() };
    let ledger = remains.facts::<bank::Fact>(bank::LEDGER);
    let forest = remains.facts::<tree::Fact>(tree::FOREST);
    for intruder in &remains.intruders {
        check.broken(1, intruder.clone());
    }
    check.acknowledged(remains, &ledger);
    check.once(remains, &ledger);
    check.forgetting(remains);
    check.keyless(&remains.log.keyless, &ledger);
    check.readers(remains);
    check.feeds(&remains.feeds, &remains.swept);
    check.replay::<Account>(&remains.accounts, &ledger);
    check.replay::<Branch>(&remains.branches, &forest);
    check.money(&remains.accounts, &ledger);
    check.reminders(&ledger);
    check.notices(&remains.log.told, &ledger, &remains.deeds);
    check.reports(&remains.reported, &ledger);
    check.letters(&remains.dead_letters, &remains.log.exploded, &ledger);
    check.progress(remains);
    check.bounds(remains);
    check.trees(&remains.log.planted, &forest);
    check.violations
}

struct Check {
    violations: Vec<Violation>,
}

impl Check {
    fn broken(&mut self, promise: u8, what: String) {
        self.violations.push(Violation { promise, what });
    }

    fn expect(&mut self, promise: u8, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken(promise, what());
        }
    }

    /// P2: what was answered is there, where the answer says. What is done again once its key is forgotten is there
    /// more than once.
    fn acknowledged(&mut self, remains: &Remains, ledger: &[Recorded<bank::Fact>]) {
        let mut answering: BTreeMap<&str, Vec<&Recorded<bank::Fact>>> = BTreeMap::new();
        for recorded in ledger {
            if let (op, true) = recorded.fact.op() {
                answering.entry(op).or_default().push(recorded);
            }
        }
        for told in &remains.log.told {
            let facts = answering.get(told.command.op()).map_or(&[][..], |facts| &facts[..]);
            let facts = if remains.forgets { facts } else { &facts[..facts.len().min(1)] };
            let expected = usize::from(told.answer.is_ok());
            self.expect(2, facts.len() >= expected, || format!("lost: {told:?}"));
            if let Some(cursor) = told.cursor {
                self.expect(2, facts.iter().any(|fact| fact.cursor == cursor), || {
                    let places: Vec<_> = facts.iter().map(|fact| fact.cursor).collect();
                    format!(
                        "{} was answered with cursor {cursor}, its facts are at {places:?}",
                        told.command.op()
                    )
                });
            }
        }
    }

    /// P2, P3: what was sent without a key is done if so it is said, not if not, and never twice.
    fn keyless(&mut self, sent: &[Keyless], ledger: &[Recorded<bank::Fact>]) {
        for Keyless { op, known } in sent {
            let done: Vec<Cursor> = ledger
                .iter()
                .filter(|recorded| recorded.fact.op() == (op, true))
                .map(|recorded| recorded.cursor)
                .collect();
            let (promise, holds) = match known {
                Known::Done(cursor) => (2, done.first() == cursor.as_ref()),
                Known::NotDone => (3, done.is_empty()),
                Known::Nothing => (3, done.len() <= 1),
            };
            self.expect(promise, holds, || format!("of {op} is known {known:?}, it was done at {done:?}"));
        }
    }

    /// P5: folding the feed gives what is stored, and no fact is missing or doubled.
    fn replay<E: Entity>(&mut self, stored: &[KeyValue], facts: &[Recorded<E::Fact>])
    where
        E::State: PartialEq + std::fmt::Debug,
    {
        let mut folded: BTreeMap<Address, (u64, E::State)> = BTreeMap::new();
        for recorded in facts {
            let (sequence, state) = folded.entry(recorded.who.clone()).or_default();
            *sequence += 1;
            let (expected, found) = (*sequence, recorded.sequence);
            E::apply(state, &recorded.fact);
            self.expect(5, expected == found, || {
                format!("fact {found} of {} stands where fact {expected} should", recorded.who)
            });
        }
        for (who, known) in states::<E>(stored) {
            let replayed = folded.remove(&who).unwrap_or_default();
            self.expect(5, replayed == known, || {
                format!("{who} replays to {replayed:?}, stored is {known:?}")
            });
        }
        for who in folded.keys() {
            self.broken(5, format!("{who} has facts and no state"));
        }
    }

    /// P6: messages are applied once: no money is lost or made.
    fn money(&mut self, accounts: &[KeyValue], ledger: &[Recorded<bank::Fact>]) {
        let mut sent: BTreeMap<(&str, &Address, i64), u32> = BTreeMap::new();
        let mut received = sent.clone();
        let mut deposited = 0;
        for recorded in ledger {
            match &recorded.fact {
                bank::Fact::Deposited { amount, .. } => deposited += amount,
                bank::Fact::Sent { op, to, amount } => *sent.entry((op, to, *amount)).or_default() += 1,
                bank::Fact::Received { op, amount } => {
                    let transfer = (op.as_str(), &recorded.who, *amount);
                    let times = received.entry(transfer).or_default();
                    *times += 1;
                    let holds = *times <= sent.get(&transfer).copied().unwrap_or_default();
                    self.expect(6, holds, || format!("{} received {op} that nobody sent", recorded.who));
                }
                _ => {}
            }
        }
        for (transfer, sent) in &sent {
            let times = received.get(transfer).copied().unwrap_or_default();
            self.expect(6, times == *sent, || {
                format!("{transfer:?} was sent {sent} times and received {times} times")
            });
        }
        let held: i64 =
            states::<Account>(accounts).values().map(|(_, state): &(_, AccountState)| state.balance).sum();
        self.expect(6, held == deposited, || format!("{deposited} were deposited, {held} are held"));
    }

    /// P6: timers fire once, never early, never after their cancellation.
    fn reminders(&mut self, ledger: &[Recorded<bank::Fact>]) {
        #[derive(Default)]
        struct Reminder {
            due: Option<Timestamp>,
            fired: u32,
            forgotten: bool,
        }
        let mut reminders: BTreeMap<(Address, String), Reminder> = BTreeMap::new();
        for recorded in ledger {
            let key = |op: &str| (recorded.who.clone(), op.to_owned());
            match &recorded.fact {
                bank::Fact::ReminderSet { op, due } => {
                    let reminder = reminders.entry(key(op)).or_default();
                    reminder.due = Some(*due);
                    reminder.forgotten = false;
                }
                bank::Fact::ReminderForgotten { reminder: op, .. } => {
                    reminders.entry(key(op)).or_default().forgotten = true;
                }
                bank::Fact::ReminderFired { op } => {
                    let reminder = reminders.entry(key(op)).or_default();
                    reminder.fired += 1;
                    let (due, forgotten, fired) = (reminder.due, reminder.forgotten, reminder.fired);
                    self.expect(6, due.is_some_and(|due| recorded.at >= due), || {
                        format!("{op} was due at {due:?} and fired at {}", recorded.at)
                    });
                    self.expect(6, !forgotten, || format!("{op} fired after it was cancelled"));
                    self.expect(6, fired == 1, || format!("{op} fired {fired} times"));
                }
                _ => {}
            }
        }
        for ((_, op), reminder) in reminders {
            let settled = reminder.forgotten || reminder.due.is_none() || reminder.fired == 1;
            self.expect(7, settled, || format!("{op} never fired"));
        }
    }

    /// P7: every effect ends, as what it was, or is cancelled; what must not be repeated is not. P11: what is
    /// cancelled has no end afterwards.
    fn notices(&mut self, told: &[Told], ledger: &[Recorded<bank::Fact>], deeds: &BTreeMap<String, Deed>) {
        let mut ends: BTreeMap<&str, Vec<How>> = BTreeMap::new();
        let mut begun = Vec::new();
        let mut cancelled = BTreeSet::new();
        for recorded in ledger {
            match &recorded.fact {
                bank::Fact::NoticeBegun { op } => begun.push((&recorded.who, op.as_str())),
                bank::Fact::NoticeCancelled { notice, .. } => {
                    cancelled.insert(notice.as_str());
                }
                bank::Fact::NoticeEnded { op, how } => {
                    self.expect(11, !cancelled.contains(op.as_str()), || {
                        format!("{op} was cancelled, and then ended: {how:?}")
                    });
                    ends.entry(op).or_default().push(*how);
                }
                _ => {}
            }
        }
        let once_only: BTreeSet<&str> = told
            .iter()
            .filter(|told| matches!(told.command, bank::Command::Notify { repeat: Repeat::Never, .. }))
            .map(|told| told.command.op())
            .collect();
        for (who, op) in begun {
            let ended = ends.get(op).map_or(&[][..], |ends| &ends[..]);
            let settled = ended.len() == 1 || ended.is_empty() && cancelled.contains(op);
            self.expect(7, settled, || format!("{op} ended {ended:?}"));
            let deed = deeds.get(&format!("{who}#{op}")).copied().unwrap_or_default();
            let really = !matches!(ended.first(), Some(How::Done { .. })) || deed.done > 0;
            self.expect(7, really, || format!("{op} is called done and was never done"));
            let repeated = once_only.contains(op) && deed.done > 1;
            self.expect(6, !repeated, || {
                format!("{op} must not be repeated and was done {} times", deed.done)
            });
        }
    }

    /// P7: when faults have stopped, everything ends.
    fn progress(&mut self, remains: &Remains) {
        for stuck in &remains.stuck {
            self.broken(7, format!("{stuck} did not come to an end"));
        }
        self.expect(7, remains.leftovers.is_empty(), || format!("left over: {:?}", remains.leftovers));
        for poisoned in &remains.log.poisoned {
            self.broken(6, format!("cannot be applied: {poisoned}"));
        }
        for planted in &remains.log.planted {
            self.expect(7, planted.end.is_some(), || format!("{} never ended", planted.root));
        }
    }

    /// P9: no queue grows past its bound.
    fn bounds(&mut self, remains: &Remains) {
        let (seen, bound) = remains.waiting;
        self.expect(9, seen <= bound, || format!("{seen} inputs waited, the bound is {bound}"));
    }

    /// P11: terminal is terminal, and a join fires once, after all it waits for.
    fn trees(&mut self, planted: &[Planted], forest: &[Recorded<tree::Fact>]) {
        let mut branches: BTreeMap<&Address, Grown> = BTreeMap::new();
        for (index, recorded) in forest.iter().enumerate() {
            let branch = branches.entry(&recorded.who).or_default();
            if let Some(ended) = branch.ended {
                self.broken(11, format!("{} ended at {ended} and has a fact at {index}", recorded.who));
            }
            match &recorded.fact {
                tree::Fact::Planted { children, join, .. } => {
                    branch.children = *children;
                    branch.join = *join;
                }
                tree::Fact::Joined => branch.joined.push(index),
                tree::Fact::Ended(end) => {
                    branch.ended = Some(index);
                    branch.end = Some(*end);
                }
                tree::Fact::ChildEnded { .. } | tree::Fact::Cancelling => {}
            }
        }
        for (who, branch) in &branches {
            self.expect(11, branch.joined.len() <= 1, || {
                format!("{who} joined {} times", branch.joined.len())
            });
            let ends: Vec<Option<usize>> = (0..branch.children)
                .map(|index| branches.get(&tree::child(who, index)).and_then(|child| child.ended))
                .collect();
            if let Some(ended) = branch.ended {
                let closed = ends.iter().all(|end| end.is_some_and(|end| end < ended));
                self.expect(11, closed, || format!("{who} ended before all its children had"));
            }
            if let (Some(joined), Join::All) = (branch.joined.first(), branch.join) {
                let closed = ends.iter().all(|end| end.is_some_and(|end| end < *joined));
                self.expect(11, closed, || format!("{who} joined before all its children had ended"));
            }
        }
        for planted in planted {
            let end = branches.get(&planted.root).and_then(|branch| branch.end);
            self.expect(11, planted.end.is_none() || planted.end == end, || {
                format!("{} told {:?}, recorded is {end:?}", planted.root, planted.end)
            });
            let impossible = !planted.cancelled && planted.end == Some(End::Cancelled);
            self.expect(11, !impossible, || format!("{} was cancelled by nobody", planted.root));
        }
    }
}

#[derive(Default)]
struct Grown {
    children: u32,
    join: Join,
    joined: Vec<usize>,
    ended: Option<usize>,
    end: Option<End>,
}

fn states<E: Entity>(stored: &[KeyValue]) -> BTreeMap<Address, (u64, E::State)> {
    stored
        .iter()
        .map(|pair| {
            let who = keys::parse_state(&pair.key).expect("a range of states holds states");
            (who, read_entity::<E>(&pair.value).expect("a stored entity is readable"))
        })
        .collect()
}
