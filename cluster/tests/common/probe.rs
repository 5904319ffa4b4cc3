//! The test entity: does as it is told, in every way that an entity can behave or misbehave.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    codec::{self, Stored},
    feed::{Cursor, Event, NewEvent, Term},
    host::{Decision, EffectContext, EffectError, EffectPolicy, EffectResult, Entity, Input, Moment},
    trace,
};
use serde::{Deserialize, Serialize};

use super::PATIENCE;

pub const TENANT: &str = "acme";
/// The feed of all probes.
pub const LEDGER: &str = "ledger";

/// The kind.
pub struct Probe {
    pub deeds: Deeds,
    pub idle_max: Duration,
}

/// What effects have really done, counted outside of any node.
#[derive(Debug, Clone, Default)]
pub struct Deeds(Arc<Mutex<BTreeMap<String, u32>>>);

impl Deeds {
    /// Counts one more, and says how many there are.
    pub fn count(&self, what: &str) -> u32 {
        let mut deeds = self.0.lock().unwrap();
        let count = deeds.entry(what.to_owned()).or_default();
        *count += 1;
        *count
    }

    pub fn of(&self, what: &str) -> u32 {
        self.0.lock().unwrap().get(what).copied().unwrap_or(0)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeState {
    pub total: i64,
    pub received: u64,
    /// The time of the last fact.
    pub at: Timestamp,
    pub fired: BTreeMap<String, u32>,
    /// How effects ended, by id.
    pub ended: BTreeMap<String, String>,
    #[serde(with = "serde_bytes")]
    pub ballast: Vec<u8>,
    /// How often it was told something that it keeps to itself.
    #[serde(default)]
    pub secrets: u32,
    /// Whether it was told that nothing more is expected of it.
    #[serde(default)]
    pub retired: bool,
}

impl Stored for ProbeState {
    const NAME: &'static str = "probe";
    const VERSION: u8 = 1;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    Add {
        op: String,
        amount: i64,
    },
    /// Moves what there is to another probe.
    Give {
        op: String,
        to: Address,
        amount: i64,
    },
    /// Adds nothing to another probe, so many times.
    Ping {
        to: Address,
        times: u32,
    },
    /// Has another probe misbehave.
    Misguide {
        to: Address,
        message: Message,
    },
    /// Tells it something private, and, unless `op` is empty, something for everybody.
    Confide {
        op: String,
    },
    /// Nothing more is expected of it.
    Retire,
    Look,
    Refuse,
    /// Takes this, if there is something already.
    AddMore {
        op: String,
        amount: i64,
    },
    Panic,
    PanicInApply,
    /// Decides without an answer.
    KeepSilent,
    Grow {
        bytes: usize,
    },
    WriteRecord {
        bytes: usize,
    },
    Answer {
        bytes: usize,
    },
    /// Sends a message of that size.
    Shout {
        to: Address,
        bytes: usize,
    },
    Remind {
        name: String,
        in_ms: u64,
    },
    Forget {
        name: String,
    },
    Perform {
        id: String,
        script: Script,
        policy: EffectPolicy,
    },
    Abort {
        id: String,
    },
    /// Cancels and starts under the same id in one step.
    Replace {
        id: String,
        script: Script,
        policy: EffectPolicy,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Give {
        op: String,
        amount: i64,
    },
    Ping,
    Bytes(Vec<u8>),
    Refused,
    Panic,
    PanicInApply,
    Grow {
        bytes: usize,
    },
    /// Perform an effect.
    Perform {
        id: String,
        script: Script,
    },
}

/// What an effect does. Each attempt counts as a deed under the effect's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Script {
    Say(String),
    /// Fails so many times, then succeeds.
    FailFirst(u32),
    PanicFirst(u32),
    Fatal,
    Hang,
    /// Hangs the first time, then succeeds.
    HangFirst,
    /// Takes a while.
    Slow {
        ms: u64,
    },
    /// Says how far it is, so many times, and each time checks that this is durable; then has an entity answer.
    Report {
        times: u32,
    },
    /// A result that the entity cannot take.
    SayPanic,
    SayTooMuch,
    /// Says in which trace context it runs.
    SayTrace,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fact {
    Added {
        op: String,
        amount: i64,
    },
    Given {
        op: String,
        to: Address,
        amount: i64,
    },
    Received {
        op: String,
        amount: i64,
    },
    Pinged,
    ReminderSet {
        name: String,
        due: Timestamp,
    },
    Fired {
        name: String,
    },
    Ended {
        id: String,
        how: String,
    },
    Grown {
        bytes: usize,
    },
    Progressed {
        id: String,
        how: String,
    },
    Noted,
    Retired,
    /// Private.
    Confided,
    Bomb,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    NoWay {
        total: i64,
    },
    /// Perhaps the next time.
    NotNow {
        total: i64,
    },
}

/// An event of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub cursor: Cursor,
    pub who: Address,
    pub sequence: u64,
    pub at: Timestamp,
    pub fact: Fact,
}

impl Entry {
    pub fn read(event: &Event) -> Self {
        let (who, sequence, at, fact) = codec::unpack("ledger entry", &event.body).unwrap();
        Self { cursor: event.cursor, who, sequence, at, fact }
    }
}

/// The address of a probe.
pub fn probe(id: &str) -> Address {
    Address::new(TENANT, Probe::KIND, id).unwrap()
}

pub fn add(op: &str, amount: i64) -> Command {
    Command::Add { op: op.into(), amount }
}

/// A policy that is done with soon.
pub fn hasty() -> EffectPolicy {
    EffectPolicy {
        deadline_ms: 300,
        attempts_max: 3,
        backoff_ms: 10,
        backoff_ms_max: 20,
        ..EffectPolicy::default()
    }
}

/// What a probe answers: what it is, and when it answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown(pub ProbeState, pub Timestamp);

cadre_cluster::stored! {
    Command: "probe command",
    Shown: "probe reply",
    Refusal: "probe refusal",
    Message: "probe message",
    Script: "script",
}

#[async_trait]
impl Entity for Probe {
    const KIND: &'static str = "probe";
    type State = ProbeState;
    type Command = Command;
    /// What it is afterwards, and the time.
    type Reply = Shown;
    type Refusal = Refusal;
    type Message = Message;
    type Fact = Fact;
    type Effect = Script;
    type Outcome = String;

    fn is_kept(refusal: &Refusal) -> bool {
        matches!(refusal, Refusal::NoWay { .. })
    }

    fn decide(
        &self,
        state: &ProbeState,
        input: Input<Self>,
        moment: &Moment<'_>,
    ) -> Result<Decision<Self>, Refusal> {
        let command = match input {
            Input::Command(command) => command,
            Input::Message { message, .. } => return Self::hear(state, message),
            Input::Timer { name } => return Ok(Decision::facts([Fact::Fired { name }])),
            Input::Progress { id, progress } if progress.is_empty() => {
                let _ = id;
                return Ok(Decision::nothing());
            }
            Input::Progress { id, progress } => {
                return Ok(Decision::facts([Fact::Progressed { id, how: progress }]));
            }
            Input::Effect { result: EffectResult::Done(said), .. } if said == "panic" => {
                panic!("told to panic")
            }
            Input::Effect { id, result } => {
                let how = match result {
                    EffectResult::Done(said) => said,
                    EffectResult::Failed { reason, attempts } => format!("failed after {attempts}: {reason}"),
                    EffectResult::Lost => "lost".into(),
                };
                return Ok(Decision::facts([Fact::Ended { id, how }]));
            }
        };
        let decision = match command {
            Command::Add { op, amount } => Decision::facts([Fact::Added { op, amount }]),
            Command::AddMore { op, amount } if state.total > 0 => {
                Decision::facts([Fact::Added { op, amount }])
            }
            Command::AddMore { .. } => return Err(Refusal::NotNow { total: state.total }),
            Command::Give { op, to, amount } if state.total >= amount => {
                let message = Message::Give { op: op.clone(), amount };
                Decision::facts([Fact::Given { op, to: to.clone(), amount }]).send::<Probe>(to, &message)
            }
            Command::Give { .. } | Command::Refuse => return Err(Refusal::NoWay { total: state.total }),
            Command::Ping { to, times } => (0..times)
                .fold(Decision::nothing(), |decision, _| decision.send::<Probe>(to.clone(), &Message::Ping)),
            Command::Misguide { to, message } => Decision::nothing().send::<Probe>(to, &message),
            Command::Confide { op } if op.is_empty() => Decision::facts([Fact::Confided]),
            Command::Confide { op } => {
                Decision::facts([Fact::Confided, Fact::Added { op, amount: 1 }, Fact::Confided])
            }
            Command::Retire => Decision::facts([Fact::Retired]),
            Command::Look => Decision::nothing(),
            Command::Panic => panic!("told to panic"),
            Command::PanicInApply => Decision::facts([Fact::Bomb]),
            Command::KeepSilent => return Ok(Decision::nothing()),
            Command::Grow { bytes } => Decision::facts([Fact::Grown { bytes }]),
            Command::WriteRecord { bytes } => {
                Decision::nothing().set_record(b"\x02big\0".to_vec(), vec![0; bytes])
            }
            Command::Answer { bytes } => {
                let large = ProbeState { ballast: vec![0; bytes], ..ProbeState::default() };
                return Ok(Decision::nothing().reply(Shown(large, moment.now)));
            }
            Command::Shout { to, bytes } => {
                Decision::facts([Fact::Noted]).send::<Probe>(to, &Message::Bytes(vec![0; bytes]))
            }
            Command::Remind { name, in_ms } => {
                let due = moment.now.in_ms(in_ms);
                Decision::facts([Fact::ReminderSet { name: name.clone(), due }]).set_timer(name, due)
            }
            Command::Forget { name } => Decision::nothing().cancel_timer(name),
            Command::Perform { id, script, policy } => {
                Decision::facts([Fact::Noted]).start_effect(id, &script, policy)
            }
            Command::Abort { id } => Decision::facts([Fact::Noted]).cancel_effect(id),
            Command::Replace { id, script, policy } => {
                Decision::facts([Fact::Noted]).cancel_effect(id.clone()).start_effect(id, &script, policy)
            }
        };
        let mut after = state.clone();
        for fact in decision.facts.iter().filter(|fact| **fact != Fact::Bomb) {
            Self::apply(&mut after, fact);
        }
        after.ballast.clear();
        Ok(decision.reply(Shown(after, moment.now)))
    }

    fn apply(state: &mut ProbeState, fact: &Fact) {
        match fact {
            Fact::Added { amount, .. } => state.total += amount,
            Fact::Given { amount, .. } => state.total -= amount,
            Fact::Received { amount, .. } => {
                state.total += amount;
                state.received += 1;
            }
            Fact::Pinged => state.received += 1,
            Fact::ReminderSet { .. } | Fact::Noted => {}
            Fact::Retired => state.retired = true,
            Fact::Confided => state.secrets += 1,
            Fact::Fired { name } => *state.fired.entry(name.clone()).or_default() += 1,
            Fact::Progressed { id, how } | Fact::Ended { id, how } => {
                state.ended.insert(id.clone(), how.clone());
            }
            Fact::Grown { bytes } => state.ballast.resize(state.ballast.len() + bytes, 7),
            Fact::Bomb => {
                state.total = i64::MIN;
                panic!("cannot be applied");
            }
        }
    }

    fn feed(&self, _: &ProbeState, _: &Address) -> Option<String> {
        Some(LEDGER.into())
    }

    fn event(&self, fact: &Fact, sequence: u64, moment: &Moment<'_>) -> Option<NewEvent> {
        if *fact == Fact::Confided {
            return None;
        }
        let who = Term { index: "who".into(), term: moment.address.id().into() };
        Some(NewEvent { terms: vec![who], body: codec::pack(&(moment.address, sequence, moment.now, fact)) })
    }

    async fn perform(&self, script: Script, context: EffectContext) -> Result<String, EffectError> {
        let done = self.deeds.count(&context.id);
        match script {
            Script::Say(what) => Ok(what),
            Script::FailFirst(times) if done <= times => Err(EffectError::transient("not yet")),
            Script::PanicFirst(times) if done <= times => panic!("told to panic"),
            Script::Fatal => Err(EffectError::fatal("never")),
            Script::Hang => std::future::pending().await,
            Script::HangFirst if done == 1 => std::future::pending().await,
            Script::Slow { ms } => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(format!("slow at attempt {}", context.attempt))
            }
            Script::Report { times } => {
                let mut seen = 0;
                for n in 1..=times {
                    let gone = |_| EffectError::fatal("superseded");
                    context.report::<Probe>(&String::new()).await.map_err(gone)?;
                    context.report::<Probe>(&format!("{n} of {times}")).await.map_err(gone)?;
                    let call = context.client.call::<Probe>(&context.address, &Command::Look, None, PATIENCE);
                    let Shown(state, _) =
                        call.await.map_err(|error| EffectError::fatal(error.to_string()))?.reply;
                    seen += u32::from(state.ended.get(&context.id) == Some(&format!("{n} of {times}")));
                }
                Ok(format!("{seen} seen"))
            }
            Script::SayPanic => Ok("panic".into()),
            Script::SayTooMuch => Ok("x".repeat(200_000)),
            Script::SayTrace => Ok(trace::current().unwrap_or_default()),
            Script::FailFirst(_) | Script::PanicFirst(_) | Script::HangFirst => Ok(format!("done at {done}")),
        }
    }

    fn is_over(&self, state: &ProbeState) -> bool {
        state.retired
    }

    fn idle_max(&self) -> Duration {
        self.idle_max
    }
}

impl Probe {
    fn hear(state: &ProbeState, message: Message) -> Result<Decision<Self>, Refusal> {
        Ok(Decision::facts([match message {
            Message::Give { op, amount } => Fact::Received { op, amount },
            Message::Ping => Fact::Pinged,
            Message::Bytes(_) => Fact::Noted,
            Message::Refused => return Err(Refusal::NoWay { total: state.total }),
            Message::Panic => panic!("told to panic"),
            Message::PanicInApply => Fact::Bomb,
            Message::Grow { bytes } => Fact::Grown { bytes },
            Message::Perform { id, script } => {
                return Ok(Decision::facts([Fact::Noted]).start_effect(id, &script, hasty()));
            }
        }]))
    }
}
