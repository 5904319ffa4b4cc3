//! A bank account: transfers as messages, reminders as timers, notices as effects.
//!
//! Money is the measure of exactly-once: a message lost or applied twice shows in the sum.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    deeds::Deeds,
    nodes::{Place, Program},
    record::Recorded,
    tree::Branch,
    world::World,
};
use crate::{
    address::Address,
    clock::Timestamp,
    codec::Stored,
    feed::{NewEvent, Term},
    host::{
        Decision, EffectContext, EffectError, EffectPolicy, EffectResult, Entity, Input, Kinds, Moment, Node,
        Repeat, StartError,
    },
    sabotage::{Sabotage, is_on},
};

/// The kind. Its feed is `ledger`, shared by all accounts of a tenant.
pub(super) struct Account {
    pub world: Arc<World>,
    pub deeds: Arc<Deeds>,
}

/// What runs on the nodes: accounts, and the branches of trees.
pub(super) struct Bank {
    pub world: Arc<World>,
    pub deeds: Arc<Deeds>,
}

impl Program for Bank {
    type Running = Node;

    async fn start(&self, place: Place) -> Result<Node, StartError> {
        let account = Account { world: self.world.clone(), deeds: self.deeds.clone() };
        let kinds = Kinds::new().with(account).with(Branch);
        Node::start(place.host, place.store, place.bus, place.clock, kinds, place.seed).await
    }

    async fn drain(&self, node: Node) {
        node.drain().await;
    }

    async fn bury(&self, node: Node) {
        drop(node);
    }
}

/// The feed of all accounts.
pub(super) const LEDGER: &str = "ledger";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccountState {
    pub balance: i64,
    pub sent: u64,
    pub received: u64,
    pub reminders_set: u64,
    pub reminders_ended: u64,
    pub notices_begun: u64,
    pub notices_ended: u64,
    pub notices_cancelled: u64,
    pub notices_reported: u64,
    pub curses_sent: u64,
}

impl Stored for AccountState {
    const NAME: &'static str = "account";
    const VERSION: u8 = 1;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Command {
    Deposit {
        op: String,
        amount: i64,
    },
    Transfer {
        op: String,
        to: Address,
        amount: i64,
    },
    Remind {
        op: String,
        in_ms: u64,
    },
    Forget {
        op: String,
        reminder: String,
    },
    Notify {
        op: String,
        repeat: Repeat,
    },
    Silence {
        op: String,
        notice: String,
    },
    /// Sends a message that cannot be applied.
    Curse {
        op: String,
        to: Address,
        curse: Curse,
    },
    /// Cannot be applied itself.
    Explode {
        op: String,
    },
}

/// How a message cannot be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Curse {
    Refused,
    Panics,
}

/// How a dead letter names what it was.
pub(super) fn cursed(op: &str) -> String {
    format!("cursed <{op}>")
}

/// Panics without a word on the console: the hook that prints is not called.
fn explode(op: &str) -> ! {
    std::panic::resume_unwind(Box::new(cursed(op)))
}

impl Command {
    pub fn op(&self) -> &str {
        match self {
            Self::Deposit { op, .. }
            | Self::Transfer { op, .. }
            | Self::Remind { op, .. }
            | Self::Forget { op, .. }
            | Self::Notify { op, .. }
            | Self::Silence { op, .. }
            | Self::Curse { op, .. }
            | Self::Explode { op } => op,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Message {
    Transferred { op: String, amount: i64 },
    Cursed { op: String, curse: Curse },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fact {
    Deposited { op: String, amount: i64 },
    Sent { op: String, to: Address, amount: i64 },
    Received { op: String, amount: i64 },
    ReminderSet { op: String, due: Timestamp },
    ReminderFired { op: String },
    ReminderForgotten { op: String, reminder: String },
    NoticeBegun { op: String },
    NoticeReported { op: String, report: Report },
    NoticeEnded { op: String, how: How },
    NoticeCancelled { op: String, notice: String },
    CurseSent { op: String, to: Address },
}

impl Fact {
    /// The operation that caused it, and whether it is the one that answers the caller.
    pub fn op(&self) -> (&str, bool) {
        match self {
            Self::Deposited { op, .. }
            | Self::Sent { op, .. }
            | Self::ReminderSet { op, .. }
            | Self::ReminderForgotten { op, .. }
            | Self::NoticeBegun { op }
            | Self::NoticeCancelled { op, .. }
            | Self::CurseSent { op, .. } => (op, true),
            Self::Received { op, .. }
            | Self::ReminderFired { op }
            | Self::NoticeReported { op, .. }
            | Self::NoticeEnded { op, .. } => (op, false),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Refusal {
    Poor { balance: i64 },
    Cursed(String),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Notice {
    op: String,
    repeat: Repeat,
}

/// How far a notice is. The last one is its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub attempt: u32,
    /// One number per start of an attempt: after a planned handover the same attempt starts again.
    pub run: u64,
    /// Counts from 1 within its run.
    pub number: u32,
}

/// How a notice ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum How {
    Done { last: Report },
    Failed,
    Lost,
}

crate::stored! { Command: "bank command", Refusal: "bank refusal", Message: "bank message", Notice: "notice" }

#[async_trait]
impl Entity for Account {
    const KIND: &'static str = "account";
    type State = AccountState;
    type Command = Command;
    /// The balance afterwards.
    type Reply = i64;
    type Refusal = Refusal;
    type Message = Message;
    type Fact = Fact;
    type Effect = Notice;
    type Outcome = Report;

    fn decide(
        &self,
        state: &AccountState,
        input: Input<Self>,
        moment: &Moment<'_>,
    ) -> Result<Decision<Self>, Refusal> {
        Ok(match input {
            Input::Command(Command::Deposit { op, amount }) => {
                Decision::facts([Fact::Deposited { op, amount }]).reply(state.balance + amount)
            }
            Input::Command(Command::Transfer { op, to, amount }) => {
                if state.balance < amount {
                    return Err(Refusal::Poor { balance: state.balance });
                }
                let message = Message::Transferred { op: op.clone(), amount };
                Decision::facts([Fact::Sent { op, to: to.clone(), amount }])
                    .send::<Account>(to, &message)
                    .reply(state.balance - amount)
            }
            Input::Command(Command::Remind { op, in_ms }) => {
                let due = moment.now.in_ms(in_ms);
                Decision::facts([Fact::ReminderSet { op: op.clone(), due }])
                    .set_timer(op, due)
                    .reply(state.balance)
            }
            Input::Command(Command::Forget { op, reminder }) => {
                Decision::facts([Fact::ReminderForgotten { op, reminder: reminder.clone() }])
                    .cancel_timer(reminder)
                    .reply(state.balance)
            }
            Input::Command(Command::Notify { op, repeat }) => {
                let policy = EffectPolicy {
                    deadline_ms: 400,
                    attempts_max: 4,
                    backoff_ms: 20,
                    backoff_ms_max: 200,
                    repeat,
                };
                Decision::facts([Fact::NoticeBegun { op: op.clone() }])
                    .start_effect(op.clone(), &Notice { op, repeat }, policy)
                    .reply(state.balance)
            }
            Input::Command(Command::Silence { op, notice }) => {
                let decision = Decision::facts([Fact::NoticeCancelled { op, notice: notice.clone() }])
                    .reply(state.balance);
                if is_on(Sabotage::CancelledEffectEnds) { decision } else { decision.cancel_effect(notice) }
            }
            Input::Command(Command::Curse { op, to, curse }) => {
                let message = Message::Cursed { op: op.clone(), curse };
                Decision::facts([Fact::CurseSent { op, to: to.clone() }])
                    .send::<Account>(to, &message)
                    .reply(state.balance)
            }
            Input::Command(Command::Explode { op }) => explode(&op),
            Input::Message { message: Message::Cursed { op, curse }, .. } => match curse {
                Curse::Refused => return Err(Refusal::Cursed(cursed(&op))),
                Curse::Panics => explode(&op),
            },
            Input::Message { message: Message::Transferred { op, amount }, .. } => {
                Decision::facts([Fact::Received { op, amount }])
            }
            Input::Progress { id, progress } => {
                Decision::facts([Fact::NoticeReported { op: id, report: progress }])
            }
            Input::Timer { name } => Decision::facts([Fact::ReminderFired { op: name }]),
            Input::Effect { id, result } => {
                let how = match result {
                    EffectResult::Done(last) => How::Done { last },
                    EffectResult::Failed { .. } => How::Failed,
                    EffectResult::Lost => How::Lost,
                };
                Decision::facts([Fact::NoticeEnded { op: id, how }])
            }
        })
    }

    fn apply(state: &mut AccountState, fact: &Fact) {
        match fact {
            Fact::Deposited { amount, .. } => state.balance += amount,
            Fact::Sent { amount, .. } => {
                state.balance -= amount;
                state.sent += 1;
            }
            Fact::Received { amount, .. } => {
                state.balance += amount;
                state.received += 1;
            }
            Fact::ReminderSet { .. } => state.reminders_set += 1,
            Fact::ReminderFired { .. } | Fact::ReminderForgotten { .. } => state.reminders_ended += 1,
            Fact::NoticeBegun { .. } => state.notices_begun += 1,
            Fact::NoticeReported { .. } => state.notices_reported += 1,
            Fact::NoticeEnded { .. } => state.notices_ended += 1,
            Fact::NoticeCancelled { .. } => state.notices_cancelled += 1,
            Fact::CurseSent { .. } => state.curses_sent += 1,
        }
    }

    fn feed(&self, _: &AccountState, _: &Address) -> Option<String> {
        Some(LEDGER.into())
    }

    fn event(&self, fact: &Fact, sequence: u64, moment: &Moment<'_>) -> Option<NewEvent> {
        let term = Term { index: "account".into(), term: moment.address.id().into() };
        Some(Recorded::event(moment, sequence, fact, vec![term]))
    }

    async fn perform(&self, notice: Notice, context: EffectContext) -> Result<Report, EffectError> {
        let dice = &self.world.dice;
        let mut report = Report { attempt: context.attempt, run: self.deeds.next_run(), number: 0 };
        for _ in 0..dice.between(0..=3) {
            tokio::time::sleep(Duration::from_millis(dice.between(0..=30))).await;
            report.number += 1;
            let taken = context.report::<Self>(&report).await;
            taken.map_err(|superseded| EffectError::transient(superseded.to_string()))?;
            self.deeds.reported(report);
        }
        tokio::time::sleep(Duration::from_millis(dice.between(0..=30))).await;
        match dice.between(0..=99) {
            0..=14 => {
                self.deeds.deed(&context.address, &notice.op, |deed| deed.failed += 1);
                return Err(EffectError::transient("drawn to fail"));
            }
            15..=17 => std::future::pending().await,
            _ => {}
        }
        self.deeds.deed(&context.address, &notice.op, |deed| deed.done += 1);
        if dice.chance(0.03) {
            // Done, and nobody will ever know.
            std::future::pending().await
        }
        tokio::time::sleep(Duration::from_millis(dice.between(0..=60))).await;
        Ok(report)
    }

    /// Now and then, whatever else is on its way: such an account leaves memory and is back the next moment.
    fn is_over(&self, state: &AccountState) -> bool {
        state.balance % 3 == 0
    }

    fn idle_max(&self) -> Duration {
        Duration::from_secs(2)
    }
}
