//! What follows from an input, whatever kind of entity takes it: all of it data.

use std::sync::Arc;

use bytes::Bytes;
use cadre_cluster::{
    address::Address,
    clock::Timestamp,
    host::{Decision, EffectPolicy, Entity, Moment},
};

use super::{Effect, Engine};
use crate::{
    blob::{self, NewBlob},
    entity::Message,
    fact::{
        Class, Fact, IdSource, Ids, Trace,
        id::{BlobRef, SessionId},
    },
};

/// A change to an entity: told to everybody in the feed, or kept to itself.
#[derive(Debug, Clone)]
pub enum Change<W> {
    /// In the feed, with the trace that it belongs to.
    Told(Box<Fact>, Option<Arc<Trace>>),
    /// What the entity has to remember in order to go on.
    Kept(Box<W>),
}

/// A step under construction.
pub struct Draft<'a> {
    /// The boundaries.
    pub engine: &'a Engine,
    /// Whose step it is.
    pub address: &'a Address,
    /// The time.
    pub now: Timestamp,
    /// Where new ids come from.
    pub ids: IdSource,
    /// The session it belongs to.
    pub session: SessionId,
    /// How much more this step may do before it makes room for others.
    pub quota: Quota,
    /// How much more of its state may be taken by what runs wait for.
    pub room: Room,
    /// How many bytes the entity's record may still grow by (P9).
    pub spare: usize,
    /// What has happened.
    pub facts: Vec<Fact>,
    /// The trace that they belong to.
    pub trace: Option<Arc<Trace>>,
    messages: Vec<(Address, Message)>,
    timers: Vec<(String, Option<Timestamp>)>,
    effects: Vec<EffectChange>,
    records: Vec<RecordChange>,
}

enum EffectChange {
    Start(String, Box<Effect>, EffectPolicy),
    Cancel(String),
}

enum RecordChange {
    Set(Vec<u8>, Bytes),
    Clear(Vec<u8>),
    Add(Vec<u8>, i64),
}

/// Bounds the work of one step, so that a long script or a wide fan-out shares its owner with others.
#[derive(Debug, Clone, Copy)]
pub struct Quota {
    /// Answers of a model that needs no I/O.
    pub answers: u32,
    /// Messages to children.
    pub messages: u32,
    /// Bytes of such messages.
    pub bytes: usize,
}

/// What stays free in the record of an entity: its view changes, too, and what has begun must be able to end.
const SPARE_KEPT_BYTES: usize = 12 * 1024;

/// What is left of a state for what runs wait for (P9). An owner of several runs says what all of them leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes of the calls of models. What does not fit is kept apart.
    pub bytes: usize,
    /// Groups of children that are not closed.
    pub groups: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { bytes: 8 * 1024, groups: 256 }
    }
}

impl Default for Quota {
    fn default() -> Self {
        // A thousand starts of children come to about half a megabyte, which is what one step writes at most.
        Self { answers: 32, messages: 1_000, bytes: 512 * 1024 }
    }
}

impl Quota {
    /// Takes room for one message of `bytes`, if there is any.
    pub fn take_message(&mut self, bytes: usize) -> bool {
        if self.messages == 0 || self.bytes == 0 {
            return false;
        }
        self.messages -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        true
    }
}

impl<'a> Draft<'a> {
    /// For one input.
    pub fn new(engine: &'a Engine, session: SessionId, moment: &Moment<'a>) -> Self {
        Self {
            engine,
            address: moment.address,
            now: moment.now,
            ids: IdSource::new(moment.now, moment.seed),
            session,
            quota: Quota::default(),
            room: Room::default(),
            spare: moment.room_bytes.saturating_sub(SPARE_KEPT_BYTES),
            facts: Vec::new(),
            trace: moment.trace.and_then(Trace::of_traceparent).map(Arc::new),
            messages: Vec::new(),
            timers: Vec::new(),
            effects: Vec::new(),
            records: Vec::new(),
        }
    }

    /// Takes some of the record for something that the entity has to remember, if so much is left. Without it the entity
    /// would become too large to be stored, and could not go on at all.
    pub fn take_spare(&mut self, bytes: usize) -> bool {
        let left = self.spare.checked_sub(bytes);
        self.spare = left.unwrap_or(self.spare);
        left.is_some()
    }

    /// Something has happened.
    pub fn tell<P: Class>(&mut self, scope: P::Scope, payload: P) {
        self.facts.push(Fact::new(self.now, scope, payload));
    }

    /// Something has happened as part of something larger.
    pub fn tell_within<P: Class>(&mut self, around: &Ids, scope: P::Scope, payload: P) {
        self.facts.push(Fact::new(self.now, scope, payload).within(around));
    }

    /// The address of another entity of the same tenant.
    pub fn peer(&self, kind: &str, id: &str) -> Address {
        Address::new(self.address.tenant(), kind, id).expect("ids are shorter than parts of addresses")
    }

    /// Puts a message into another entity's inbox.
    pub fn send(&mut self, to: Address, message: Message) {
        self.messages.push((to, message));
    }

    /// Makes another step of this entity follow.
    pub fn go_on(&mut self, message: Message) {
        self.messages.push((self.address.clone(), message));
    }

    /// Sets a durable timer.
    pub fn set_timer(&mut self, name: impl Into<String>, due: Timestamp) {
        self.timers.push((name.into(), Some(due)));
    }

    /// Takes it back.
    pub fn cancel_timer(&mut self, name: impl Into<String>) {
        self.timers.push((name.into(), None));
    }

    /// Starts an effect.
    pub fn start_effect(&mut self, id: impl Into<String>, effect: Effect, policy: EffectPolicy) {
        self.effects.push(EffectChange::Start(id.into(), Box::new(effect), policy));
    }

    /// Stops an effect; its result is ignored.
    pub fn cancel_effect(&mut self, id: impl Into<String>) {
        self.effects.push(EffectChange::Cancel(id.into()));
    }

    /// Writes a record.
    pub fn set_record(&mut self, path: Vec<u8>, value: impl Into<Bytes>) {
        self.records.push(RecordChange::Set(path, value.into()));
    }

    /// Removes a record.
    pub fn clear_record(&mut self, path: Vec<u8>) {
        self.records.push(RecordChange::Clear(path));
    }

    /// Counts.
    pub fn count(&mut self, path: Vec<u8>, delta: i64) {
        // What begins and ends in one step counts once, not three times.
        for change in &mut self.records {
            if let RecordChange::Add(counted, sum) = change
                && *counted == path
            {
                *sum += delta;
                return;
            }
        }
        self.records.push(RecordChange::Add(path, delta));
    }

    /// Keeps a content apart from the state. Where it is. `about` is what it is part of.
    pub fn keep(&mut self, content: Vec<u8>, about: Ids) -> BlobRef {
        let name: BlobRef = self.ids.next();
        let new = NewBlob {
            blob: name.clone(),
            media_type: "application/json".into(),
            session: Some(self.session.clone()),
            content: content.into(),
        };
        for (path, value) in blob::pieces_of(new, about, self.now, self.engine.kept_for()) {
            self.set_record(path, value);
        }
        name
    }

    /// Whether nothing follows so far.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
            && self.messages.is_empty()
            && self.timers.is_empty()
            && self.effects.is_empty()
            && self.records.is_empty()
    }

    /// As the host takes it. `work` is what the entity has to remember, when that has changed.
    pub fn decision<E, W>(self, work: Option<W>) -> Decision<E>
    where
        E: Entity<Fact = Change<W>, Message = Message, Effect = Effect>,
    {
        // Before the facts: the feed that they go to may be part of it.
        let kept = work.map(|work| Change::Kept(Box::new(work)));
        let trace = self.trace;
        let told = self.facts.into_iter().map(|fact| Change::Told(Box::new(fact), trace.clone()));
        let mut decision = Decision::facts(kept.into_iter().chain(told));
        for (to, message) in self.messages {
            decision = decision.send_to(to, &message);
        }
        for (name, due) in self.timers {
            decision = match due {
                Some(due) => decision.set_timer(name, due),
                None => decision.cancel_timer(name),
            };
        }
        for change in self.effects {
            decision = match change {
                EffectChange::Start(id, effect, policy) => decision.start_effect(id, &*effect, policy),
                EffectChange::Cancel(id) => decision.cancel_effect(id),
            };
        }
        for change in self.records {
            decision = match change {
                RecordChange::Set(path, value) => decision.set_record(path, value),
                RecordChange::Clear(path) => decision.clear_record(path),
                RecordChange::Add(_, 0) => decision,
                RecordChange::Add(path, delta) => decision.add_to_record(path, delta),
            };
        }
        decision
    }
}
