//! The clients of a simulation: they ask until they are answered, sometimes more than once, and write down what
//! they were told.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::{join, join_all, join3};

use super::{
    Dice, Trace,
    bank::{self, Account, Curse, cursed},
    door::Door,
    env::Env,
    tree::{self, Branch, End, Join, Phase, Shape},
};
use crate::{
    address::Address,
    feed::Cursor,
    host::{CallError, Entity, Repeat},
};

/// The tenant that everything belongs to.
pub(super) const TENANT: &str = "acme";
/// How many accounts there are.
pub(super) const ACCOUNTS: u64 = 6;

/// What a client was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub who: Address,
    pub command: bank::Command,
    /// The answer; `Err` for a refusal.
    pub answer: Result<i64, bank::Refusal>,
    pub cursor: Option<Cursor>,
}

/// A tree that was planted, and what became of it.
#[derive(Debug, Clone)]
pub(super) struct Planted {
    pub root: Address,
    pub cancelled: bool,
    /// What its root said in the end.
    pub end: Option<End>,
}

/// A command that was put aside, as it should be.
#[derive(Debug, Clone)]
pub(super) struct Exploded {
    pub who: Address,
    pub op: String,
    /// How often it was called.
    pub calls: u64,
}

/// A command without a key, and what is known of it.
#[derive(Debug, Clone)]
pub(super) struct Keyless {
    pub op: String,
    pub known: Known,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    Done(Option<Cursor>),
    NotDone,
    Nothing,
}

/// What all clients were told.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub told: Vec<Told>,
    pub planted: Vec<Planted>,
    /// Answers that differed from an earlier one to the same key.
    pub contradictions: Vec<String>,
    /// Commands that could not be applied, though they can.
    pub poisoned: Vec<String>,
    /// Commands that were put aside as they should.
    pub exploded: Vec<Exploded>,
    pub busy: u64,
    pub keyless: Vec<Keyless>,
    /// Keys that were remembered for longer than they should.
    pub unforgotten: Vec<String>,
    /// Answers that came from a node in the client's process, or through it.
    pub in_process: u64,
}

pub(super) fn account(number: u64) -> Address {
    Address::new(TENANT, Account::KIND, &format!("account-{number}")).expect("a short name is an address")
}

/// One client.
pub(super) struct Customer {
    pub name: String,
    pub door: Door,
    /// Whether what is sent without a key arrives once at the most.
    pub sends_once: bool,
    pub env: Arc<Env>,
    pub dice: Dice,
    pub log: Arc<Mutex<Log>>,
    pub trace: Trace,
}

impl Customer {
    /// Does business until it has done `operations`.
    pub async fn work(self, operations: u64) {
        for number in 0..operations {
            tokio::time::sleep(Duration::from_millis(self.dice.between(0..=900))).await;
            let op = format!("{}-{number}", self.name);
            match self.dice.between(0..=19) {
                0..=2 => self.plant(&op).await,
                3 => self.burst(&op).await,
                // Whatever is asked for too long may be done again: only what can tell that is asked for.
                4 if self.env.forgets() => self.reuse(&op).await,
                _ if self.env.forgets() => {
                    let command = self.draw_money(&op);
                    self.tell(account(self.dice.between(1..=ACCOUNTS)), command).await;
                }
                4 => self.remind_and_forget(&op).await,
                5 => self.notify_and_silence(&op).await,
                6 => self.curse(&op).await,
                7..=8 if self.sends_once => self.deposit_without_a_key(&op).await,
                _ => {
                    let command = self.draw(&op);
                    self.tell(account(self.dice.between(1..=ACCOUNTS)), command).await;
                }
            }
        }
    }

    /// Transfers to accounts that nobody knows of but by these transfers.
    pub async fn bequeath(self, gifts: u64) {
        for number in 0..gifts {
            let op = format!("{}-{number}", self.name);
            let who = account(self.dice.between(1..=ACCOUNTS));
            self.tell(who.clone(), bank::Command::Deposit { op: format!("{op}-saved"), amount: 1 }).await;
            let to = Address::new(TENANT, Account::KIND, &op).expect("a short name is an address");
            self.tell(who, bank::Command::Transfer { op, to, amount: 1 }).await;
        }
        if self.env.forgets() {
            self.use_anew(&format!("{}-anew", self.name)).await;
        }
    }

    fn draw_money(&self, op: &str) -> bank::Command {
        let op = op.to_owned();
        match self.dice.between(0..=5) {
            0..=1 => bank::Command::Deposit { op, amount: self.dice.between(1..=100).cast_signed() },
            _ => bank::Command::Transfer {
                op,
                to: account(self.dice.between(1..=ACCOUNTS)),
                amount: self.dice.between(1..=60).cast_signed(),
            },
        }
    }

    fn draw(&self, op: &str) -> bank::Command {
        match self.dice.between(0..=9) {
            0..=5 => self.draw_money(op),
            6..=7 => bank::Command::Remind { op: op.to_owned(), in_ms: self.dice.between(0..=3_000) },
            _ => {
                let repeat = if self.dice.chance(0.5) { Repeat::Safe } else { Repeat::Never };
                bank::Command::Notify { op: op.to_owned(), repeat }
            }
        }
    }

    /// Asks until answered; afterwards, now and then, asks the same again.
    async fn tell(&self, who: Address, command: bank::Command) {
        let told = self.ask(&who, &command).await;
        if self.dice.chance(0.3) {
            tokio::time::sleep(Duration::from_millis(self.dice.between(0..=3_000))).await;
            let again = self.ask(&who, &command).await;
            if told != again && self.env.forgets() {
                self.log(|log| log.told.push(again));
            } else if told != again {
                self.log(|log| log.contradictions.push(format!("told {told:?}, then {again:?}")));
            }
        }
        self.log(|log| log.told.push(told));
    }

    async fn ask(&self, who: &Address, command: &bank::Command) -> Told {
        loop {
            let called = self.door.call::<Account>(who, command, Some(command.op())).await;
            let (answer, cursor) = match called {
                Ok(called) => (Ok(called.reply), called.cursor),
                Err(CallError::Refused(refusal)) => (Err(refusal), None),
                Err(error) => {
                    self.failed(command.op(), &error);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            self.trace.note(format_args!("{}: {} says {answer:?} to {}", self.name, who, command.op()));
            self.log(|log| log.in_process += u64::from(self.door.is_in_process()));
            return Told { who: who.clone(), command: command.clone(), answer, cursor };
        }
    }

    /// Nobody asks again: it may be done once or not at all.
    async fn deposit_without_a_key(&self, op: &str) {
        let who = account(self.dice.between(1..=ACCOUNTS));
        let command = bank::Command::Deposit { op: op.to_owned(), amount: 1 };
        let known = match self.door.call::<Account>(&who, &command, None).await {
            Ok(called) => Known::Done(called.cursor),
            Err(CallError::OutcomeUnknown) => Known::Nothing,
            Err(error) => {
                self.failed(op, &error);
                Known::NotDone
            }
        };
        self.trace.note(format_args!("{}: without a key, of {op} is known: {known:?}", self.name));
        self.log(|log| log.keyless.push(Keyless { op: op.to_owned(), known }));
    }

    /// Uses a key again when its time is over, or about to be.
    async fn reuse(&self, op: &str) {
        let who = account(self.dice.between(1..=ACCOUNTS));
        let command = bank::Command::Deposit { op: op.to_owned(), amount: 1 };
        let told = self.ask(&who, &command).await;
        tokio::time::sleep(self.env.keys_ttl + Duration::from_millis(self.dice.between(0..=8_000))).await;
        let again = self.ask(&who, &command).await;
        self.log(|log| log.told.extend([told, again]));
    }

    /// Uses a key again when its time is over for everybody: it has to be new.
    async fn use_anew(&self, op: &str) {
        let who = account(self.dice.between(1..=ACCOUNTS));
        let command = bank::Command::Deposit { op: op.to_owned(), amount: 1 };
        let told = self.ask(&who, &command).await;
        tokio::time::sleep_until(self.env.forgotten_by()).await;
        let again = self.ask(&who, &command).await;
        if told.cursor == again.cursor {
            self.log(|log| log.unforgotten.push(op.to_owned()));
        }
        self.log(|log| log.told.extend([told, again]));
    }

    /// Sets a reminder, and cancels it about when it is due.
    async fn remind_and_forget(&self, op: &str) {
        let who = account(self.dice.between(1..=ACCOUNTS));
        let in_ms = self.dice.between(0..=2_000);
        self.tell(who.clone(), bank::Command::Remind { op: op.to_owned(), in_ms }).await;
        tokio::time::sleep(Duration::from_millis(self.dice.between(0..=in_ms))).await;
        self.tell(who, bank::Command::Forget { op: format!("{op}-forget"), reminder: op.to_owned() }).await;
    }

    /// Has a notice sent, and cancels it while it is tried, or just before or after, and while other things happen.
    async fn notify_and_silence(&self, op: &str) {
        let who = account(self.dice.between(1..=ACCOUNTS));
        let repeat = if self.dice.chance(0.5) { Repeat::Safe } else { Repeat::Never };
        self.tell(who.clone(), bank::Command::Notify { op: op.to_owned(), repeat }).await;
        tokio::time::sleep(Duration::from_millis(self.dice.between(0..=150))).await;
        let deposit = bank::Command::Deposit { op: format!("{op}-meanwhile"), amount: 1 };
        let silence = bank::Command::Silence { op: format!("{op}-silence"), notice: op.to_owned() };
        let (told, ()) = join(self.ask(&who, &deposit), self.tell(who.clone(), silence)).await;
        self.log(|log| log.told.push(told));
    }

    /// Something that cannot be applied, with neighbours that can.
    async fn curse(&self, op: &str) {
        let who = account(self.dice.between(1..=ACCOUNTS));
        let deposit = |side| bank::Command::Deposit { op: format!("{op}-{side}"), amount: 1 };
        let (left, right) = (deposit("left"), deposit("right"));
        let curse = async {
            if self.dice.chance(0.3) {
                self.explode(&who, op).await;
            } else {
                let curse = if self.dice.chance(0.5) { Curse::Refused } else { Curse::Panics };
                let to = account(self.dice.between(1..=ACCOUNTS));
                self.tell(who.clone(), bank::Command::Curse { op: op.to_owned(), to, curse }).await;
            }
        };
        let (left, (), right) = join3(self.ask(&who, &left), curse, self.ask(&who, &right)).await;
        self.log(|log| log.told.extend([left, right]));
    }

    async fn explode(&self, who: &Address, op: &str) {
        let command = bank::Command::Explode { op: op.to_owned() };
        for calls in 1.. {
            match self.door.call::<Account>(who, &command, Some(op)).await {
                Err(CallError::Poisoned { reason }) if reason.contains(&cursed(op)) => {
                    self.trace.note(format_args!("{}: {op} was put aside", self.name));
                    let exploded = Exploded { who: who.clone(), op: op.to_owned(), calls };
                    return self.log(|log| log.exploded.push(exploded));
                }
                Ok(called) => {
                    return self.log(|log| log.contradictions.push(format!("{op} was answered {called:?}")));
                }
                Err(error) => self.failed(op, &error),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Many at once, to one account: more than may wait.
    async fn burst(&self, op: &str) {
        let who = account(self.dice.between(1..=ACCOUNTS));
        let commands: Vec<_> = (0..40)
            .map(|number| bank::Command::Deposit { op: format!("{op}-{number}"), amount: 1 })
            .collect();
        let told = join_all(commands.iter().map(|command| self.ask(&who, command))).await;
        self.log(|log| log.told.extend(told));
    }

    /// Plants a tree, perhaps cancels it, and waits for its end.
    async fn plant(&self, op: &str) {
        let root = Address::new(TENANT, Branch::KIND, op).expect("a short name is an address");
        let shape = Shape {
            width: self.dice.between(1..=3) as u32,
            depth: self.dice.between(0..=2) as u32,
            join: if self.dice.chance(0.5) { Join::All } else { Join::Any },
            work_ms: self.dice.between(0..=800),
        };
        self.ask_branch(&root, tree::Command::Plant(shape), &format!("{op}-plant")).await;
        let cancelled = self.dice.chance(0.5);
        let index = self.log(|log| {
            log.planted.push(Planted { root: root.clone(), cancelled, end: None });
            log.planted.len() - 1
        });
        if cancelled {
            tokio::time::sleep(Duration::from_millis(self.dice.between(0..=1_500))).await;
            self.ask_branch(&root, tree::Command::Cancel, &format!("{op}-cancel")).await;
        }
        for look in 0.. {
            let phase = self.ask_branch(&root, tree::Command::Status, &format!("{op}-status-{look}")).await;
            if let Phase::Ended(end) = phase {
                self.log(|log| log.planted[index].end = Some(end));
                return;
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    async fn ask_branch(&self, who: &Address, command: tree::Command, key: &str) -> Phase {
        loop {
            match self.door.call::<Branch>(who, &command, Some(key)).await {
                Ok(called) => return called.reply,
                Err(error) => self.failed(key, &error),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn failed<R: std::fmt::Debug>(&self, op: &str, error: &CallError<R>) {
        self.trace.note(format_args!("{}: {op} failed: {error:?}", self.name));
        match error {
            CallError::Busy => self.log(|log| log.busy += 1),
            CallError::Unavailable { .. } | CallError::OutcomeUnknown => {}
            other => self.log(|log| log.poisoned.push(format!("{op}: {other:?}"))),
        }
    }

    fn log<T>(&self, note: impl FnOnce(&mut Log) -> T) -> T {
        note(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
