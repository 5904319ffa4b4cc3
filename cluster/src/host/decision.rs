//! What follows from an input: all of it data, committed together or not at all.

use std::time::Duration;

use bytes::Bytes;

use super::{Entity, effect::EffectPolicy};
use crate::{
    address::Address,
    clock::Timestamp,
    codec::{self, Stored},
};

/// The outcome of [`Entity::decide`].
pub struct Decision<E: Entity + ?Sized> {
    /// What has happened, in order. Applied to the state and, unless private, appended to the feed; see
    /// [`Entity::event`].
    pub facts: Vec<E::Fact>,
    /// The answer to a command.
    pub reply: Option<E::Reply>,
    pub(super) messages: Vec<Outgoing>,
    pub(super) timers: Vec<TimerChange>,
    pub(super) effects: Vec<EffectChange>,
    pub(super) records: Vec<RecordChange>,
}

/// A message to another entity's inbox.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub to: Address,
    pub body: Bytes,
}

#[derive(Debug, Clone)]
pub(super) enum TimerChange {
    Set { name: String, due: Timestamp },
    Cancel { name: String },
}

#[derive(Debug, Clone)]
pub(super) enum EffectChange {
    Start { id: String, effect: Bytes, policy: EffectPolicy },
    Cancel { id: String },
}

/// A change to a record of the runtime's own, under the entity's tenant.
#[derive(Debug, Clone)]
pub(super) enum RecordChange {
    Set { path: Vec<u8>, value: Bytes },
    Clear { path: Vec<u8> },
    Add { path: Vec<u8>, delta: i64 },
}

impl<E: Entity + ?Sized> Default for Decision<E> {
    fn default() -> Self {
        Self {
            facts: Vec::new(),
            reply: None,
            messages: Vec::new(),
            timers: Vec::new(),
            effects: Vec::new(),
            records: Vec::new(),
        }
    }
}

impl<E: Entity + ?Sized> Decision<E> {
    /// Nothing follows.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// These facts.
    pub fn facts(facts: impl IntoIterator<Item = E::Fact>) -> Self {
        Self { facts: facts.into_iter().collect(), ..Self::default() }
    }

    /// One more fact.
    pub fn fact(mut self, fact: E::Fact) -> Self {
        self.facts.push(fact);
        self
    }

    /// Answers the caller.
    pub fn reply(mut self, reply: E::Reply) -> Self {
        self.reply = Some(reply);
        self
    }

    /// Puts a message into another entity's inbox.
    pub fn send<T: Entity>(mut self, to: Address, message: &T::Message) -> Self {
        debug_assert_eq!(to.kind(), T::KIND, "a message of one kind goes to an address of that kind");
        self.messages.push(Outgoing { to, body: codec::encode(message) });
        self
    }

    /// The same where several kinds take the same type of message, and the address says which it is.
    pub fn send_to<M: Stored>(mut self, to: Address, message: &M) -> Self {
        self.messages.push(Outgoing { to, body: codec::encode(message) });
        self
    }

    /// What it sends: to whom, and what, as it is stored. For tests of entities.
    pub fn messages(&self) -> impl Iterator<Item = (&Address, &Bytes)> {
        self.messages.iter().map(|message| (&message.to, &message.body))
    }

    /// The timers that it sets, and those that it takes back. For tests of entities.
    pub fn timers(&self) -> impl Iterator<Item = (&str, Option<Timestamp>)> {
        self.timers.iter().map(|timer| match timer {
            TimerChange::Set { name, due } => (name.as_str(), Some(*due)),
            TimerChange::Cancel { name } => (name.as_str(), None),
        })
    }

    /// The effects that it starts. For tests of entities.
    pub fn effects(&self) -> impl Iterator<Item = &str> {
        self.effects.iter().filter_map(|effect| match effect {
            EffectChange::Start { id, .. } => Some(id.as_str()),
            EffectChange::Cancel { .. } => None,
        })
    }

    /// Sets a durable timer, replacing one of the same name.
    pub fn set_timer(mut self, name: impl Into<String>, due: Timestamp) -> Self {
        self.timers.push(TimerChange::Set { name: name.into(), due });
        self
    }

    /// Cancels a timer: it will not fire, even if it is due already.
    pub fn cancel_timer(mut self, name: impl Into<String>) -> Self {
        self.timers.push(TimerChange::Cancel { name: name.into() });
        self
    }

    /// Starts an effect once this step is durable. `id` is unique among the entity's pending effects.
    pub fn start_effect(mut self, id: impl Into<String>, effect: &E::Effect, policy: EffectPolicy) -> Self {
        let effect = codec::encode(effect);
        self.effects.push(EffectChange::Start { id: id.into(), effect, policy });
        self
    }

    /// Stops an effect and forgets it: its result, if it still comes, is ignored.
    pub fn cancel_effect(mut self, id: impl Into<String>) -> Self {
        self.effects.push(EffectChange::Cancel { id: id.into() });
        self
    }

    /// Writes a record of the runtime's own.
    pub fn set_record(mut self, path: Vec<u8>, value: impl Into<Bytes>) -> Self {
        self.records.push(RecordChange::Set { path, value: value.into() });
        self
    }

    /// Removes such a record.
    pub fn clear_record(mut self, path: Vec<u8>) -> Self {
        self.records.push(RecordChange::Clear { path });
        self
    }

    /// Adds to a counter among such records.
    pub fn add_to_record(mut self, path: Vec<u8>, delta: i64) -> Self {
        self.records.push(RecordChange::Add { path, delta });
        self
    }
}

impl Timestamp {
    /// Shorthand for timers: `moment.now.in_ms(250)`.
    pub fn in_ms(self, ms: u64) -> Self {
        self.after(Duration::from_millis(ms))
    }
}
