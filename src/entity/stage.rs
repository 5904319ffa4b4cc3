//! One entity on a stage of its own: what it hears is given to it by hand, and what it says is collected.

use std::{collections::BTreeMap, sync::Arc};

use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    codec,
    host::{Entity, Input, Moment},
    sim::{Dice, Lifeline},
    store::{Store, simulated::SimStore},
};

use super::{Host, Message, kind};
use crate::{
    control::Error,
    exec::{Change, Engine, Tool},
    fact::{Fact, Part, id::SessionId},
};

/// The tenant of all stages.
pub const TENANT: &str = "stage";

/// An entity, its state, and all that it has told so far.
pub struct Stage<E: Entity> {
    pub state: E::State,
    pub told: Vec<Fact>,
    /// What it has said to others, and to itself.
    pub sent: Vec<(Address, Message)>,
    /// The timers that are set.
    pub timers: BTreeMap<String, Timestamp>,
    /// The effects that it has started.
    pub effects: Vec<String>,
    /// How much its record may still grow.
    pub room_bytes: usize,
    entity: E,
    address: Address,
    now: Timestamp,
    seed: u64,
}

/// The scripted agent and these tools.
pub fn host(tools: Vec<Arc<dyn Tool>>) -> Host {
    let mut engine = Engine::scripted(None);
    for tool in tools {
        engine.add_tool(tool);
    }
    Host::new(Arc::new(engine))
}

/// A store with nothing in it: on a stage nobody performs effects.
pub fn store() -> Store {
    SimStore::new(Dice::new(0)).connect(Lifeline::new("stage"))
}

pub fn session_id() -> SessionId {
    SessionId::parse("sess_stage").unwrap()
}

/// The address of anybody.
pub fn somebody(kind: &str, id: &str) -> Address {
    Address::new(TENANT, kind, id).unwrap()
}

/// A script as an input.
pub fn script(script: &serde_json::Value) -> Vec<Part> {
    vec![Part::text(script.to_string())]
}

impl<W, E> Stage<E>
where
    E: Entity<Fact = Change<W>, Refusal = Error, Message = Message>,
{
    pub fn new(entity: E, id: &str) -> Self {
        let address = somebody(E::KIND, id);
        let state = E::State::default();
        Self {
            state,
            told: Vec::new(),
            sent: Vec::new(),
            timers: BTreeMap::new(),
            effects: Vec::new(),
            room_bytes: 64 * 1024,
            entity,
            address,
            now: Timestamp(1_778_493_600_000),
            seed: 1,
        }
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Time passes.
    pub fn pass(&mut self, ms: u64) {
        self.now = self.now.in_ms(ms);
    }

    /// Gives an input. The answer, and what it told.
    pub fn give(&mut self, input: Input<E>) -> Result<(Option<E::Reply>, Vec<Fact>), Error> {
        self.seed += 1;
        let moment = Moment {
            address: &self.address,
            now: self.now,
            seed: self.seed,
            trace: None,
            room_bytes: self.room_bytes,
        };
        let decision = self.entity.decide(&self.state, input, &moment)?;
        for (to, body) in decision.messages() {
            self.sent.push((to.clone(), codec::decode(body).unwrap()));
        }
        for (name, due) in decision.timers() {
            match due {
                Some(due) => self.timers.insert(name.to_owned(), due),
                None => self.timers.remove(name),
            };
        }
        self.effects.extend(decision.effects().map(str::to_owned));
        let mut told = Vec::new();
        for change in &decision.facts {
            E::apply(&mut self.state, change);
            if let Change::Told(fact, _) = change {
                told.push((**fact).clone());
            }
        }
        self.told.extend(told.iter().cloned());
        Ok((decision.reply, told))
    }

    /// What it tells when it hears a message from some parent or child.
    pub fn hear(&mut self, message: Message) -> Vec<Fact> {
        let from = somebody(kind::SUBAGENT, "sub_somebody");
        self.give(Input::Message { from, message }).unwrap().1
    }

    /// Hears what it has told itself so far. How many messages that was.
    pub fn go_on(&mut self) -> usize {
        let (own, others) = self.sent.drain(..).partition(|(to, _)| *to == self.address);
        self.sent = others;
        let own: Vec<(Address, Message)> = own;
        let many = own.len();
        for (from, message) in own {
            self.give(Input::Message { from, message }).unwrap();
        }
        many
    }

    /// What it tells when a timer is due.
    pub fn due(&mut self, name: &str) -> Vec<Fact> {
        self.timers.remove(name);
        self.give(Input::Timer { name: name.into() }).unwrap().1
    }

    /// Whom it has told to close since this was asked last, and why.
    pub fn closes(&mut self) -> Vec<(String, Option<String>)> {
        let sent = std::mem::take(&mut self.sent);
        let closes = sent.into_iter().filter_map(|(to, message)| match message {
            Message::Close(close) => Some((to.id().to_owned(), close.reason)),
            _ => None,
        });
        closes.collect()
    }

    /// How much its state takes where it is stored.
    pub fn stored_bytes(&self) -> usize {
        codec::encode(&self.state).len()
    }

    /// How often it has told of a class.
    pub fn count(&self, class: &str) -> usize {
        classes(&self.told).iter().filter(|told| **told == class).count()
    }

    /// The last fact of a class.
    pub fn last(&self, class: &str) -> &Fact {
        let found = self.told.iter().rfind(|fact| fact.event_type().as_str() == class);
        found.unwrap_or_else(|| panic!("no {class} in {:?}", classes(&self.told)))
    }
}

/// The classes of facts, in order.
pub fn classes(facts: &[Fact]) -> Vec<&'static str> {
    facts.iter().map(|fact| fact.event_type().as_str()).collect()
}
