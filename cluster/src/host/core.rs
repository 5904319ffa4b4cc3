//! The pure part of hosting: runs an entity's core over its inputs and collects what is to be written.

mod effects;

pub(super) use effects::unusable;

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
};

use bytes::Bytes;

use super::{
    Decision, Entity, Input, Moment,
    committer::FeedMoved,
    config::HostConfig,
    decision::{EffectChange, RecordChange, TimerChange},
    record::{AnswerRecord, DeadLetter, ExpiryRecord, MessageRecord, Record},
    work::Work,
    write::Write,
};
use crate::{
    address::{Address, ShardId},
    clock::Timestamp,
    codec::{self, DecodeError},
    feed::EventRecord,
    keys,
    sabotage::{Sabotage, is_on},
    store::Mutation,
};

/// An entity in memory: its typed state and what the host keeps beside it.
pub(super) struct Core<E: Entity> {
    pub state: E::State,
    /// Its `state` field is filled in when it is stored.
    pub record: Record,
    /// How large it was when it was last stored.
    pub stored_bytes: usize,
}

impl<E: Entity> Core<E> {
    /// From its stored record, or new.
    pub fn load(stored: Option<&[u8]>) -> Result<Self, DecodeError> {
        let Some(stored) = stored else {
            return Ok(Self { state: E::State::default(), record: Record::default(), stored_bytes: 0 });
        };
        let stored_bytes = stored.len();
        let mut record: Record = codec::decode(stored)?;
        let state = codec::decode(&std::mem::take(&mut record.state))?;
        Ok(Self { state, record, stored_bytes })
    }

    /// Whether there are effects that the next owner may begin and does not know of.
    pub fn has_effects_to_hold(&self, except: &BTreeSet<String>) -> bool {
        self.record.effects.iter().any(|(id, effect)| !effect.held && !except.contains(id))
    }
}

/// What a command is answered once its step is durable.
#[derive(Debug, Clone)]
pub(super) struct DraftAnswer {
    pub refused: bool,
    /// Whether the caller's key stands for it from now on.
    pub kept: bool,
    pub body: Bytes,
    /// The position of its last event, counted from the step's first.
    pub last_event: Option<u16>,
}

/// What became of one input.
#[derive(Debug)]
pub(super) enum Taken {
    /// Nothing to tell anybody.
    Silent,
    Answered(DraftAnswer),
    /// It was put aside, for this reason.
    Poisoned(String),
}

/// The state may be half-changed: load it again and put this input aside.
#[derive(Debug)]
pub(super) struct Broken {
    pub reason: String,
}

/// A step under construction.
pub(super) struct StepBuilder<'a, E: Entity> {
    entity: &'a E,
    core: &'a mut Core<E>,
    address: &'a Address,
    shard: ShardId,
    feed_epoch: u32,
    config: &'a HostConfig,
    now: Timestamp,
    changed: bool,
    was_awake: bool,
    /// Whether the entity is about to move: what is to be started is left to the next owner.
    leaving: bool,
    expiring: Vec<String>,
    positions: usize,
    pub draft: Draft,
}

/// What a step writes and causes.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub writes: Vec<Write>,
    pub bytes: usize,
    pub positions: usize,
    pub inboxes: Vec<(ShardId, Address)>,
    pub feed: Option<FeedMoved>,
    /// Effects to start once the step is durable.
    pub start: Vec<String>,
    /// Effects to stop.
    pub cancel: Vec<String>,
    /// The earliest timer that was set.
    pub timer: Option<Timestamp>,
}

impl<'a, E: Entity> StepBuilder<'a, E> {
    pub fn new(
        entity: &'a E,
        core: &'a mut Core<E>,
        address: &'a Address,
        shard: ShardId,
        feed_epoch: u32,
        config: &'a HostConfig,
        clock: Timestamp,
    ) -> Self {
        let now = clock.max(core.record.at);
        let was_awake = !core.record.effects.is_empty();
        Self {
            entity,
            core,
            address,
            shard,
            feed_epoch,
            config,
            now,
            changed: false,
            was_awake,
            leaving: false,
            expiring: Vec::new(),
            positions: 0,
            draft: Draft::default(),
        }
    }

    /// Leaves effects to the next owner instead of starting them.
    pub fn leaving(mut self, leaving: bool) -> Self {
        self.leaving = leaving;
        self
    }

    /// Whether the step should be committed before it takes more.
    pub fn is_full(&self) -> bool {
        self.draft.bytes >= self.config.step_bytes_soft_max
    }

    /// Takes an input. `seed` is this input's randomness.
    pub fn take(&mut self, work: &Work, seed: u64) -> Result<Taken, Broken> {
        match work {
            Work::Command { request, trace, .. } => {
                let command = match codec::decode(&request.body) {
                    Ok(command) => command,
                    Err(error) => return Ok(self.poison(work, error.to_string())),
                };
                let taken = self.decide(work, Input::Command(command), seed, trace.as_deref())?;
                if let (Taken::Answered(answer), Some(key)) = (&taken, &request.key)
                    && answer.kept
                {
                    self.remember(key, &request.body, answer);
                }
                Ok(taken)
            }
            Work::Message { key, record } => {
                if !is_on(Sabotage::InboxNotConsumed) {
                    self.plain(Mutation::Clear { key: key.clone() });
                }
                let decoded = codec::decode::<MessageRecord>(record)
                    .and_then(|record| Ok((codec::decode(&record.body)?, record)));
                match decoded {
                    Ok((message, MessageRecord { from, sent, trace, .. })) => {
                        if sent != Timestamp::default() {
                            let waited = sent.until(self.now);
                            metrics::histogram!("cadre_host_message_wait_seconds").record(waited);
                        }
                        self.decide(work, Input::Message { from, message }, seed, trace.as_deref())
                    }
                    Err(error) => Ok(self.poison(work, error.to_string())),
                }
            }
            Work::Timer { name, due } => {
                let current = self.core.record.timers.get(name) == Some(due) && *due <= self.now;
                if !current && !is_on(Sabotage::CancelledTimerFires) && !is_on(Sabotage::TimerFiresEarly) {
                    return Ok(Taken::Silent);
                }
                self.core.record.timers.remove(name);
                self.plain(Mutation::Clear { key: keys::timer(self.shard, *due, self.address, name) });
                self.changed = true;
                self.decide(work, Input::Timer { name: name.clone() }, seed, None)
            }
            Work::Effect { id, attempt, result, .. } => self.take_effect(work, id, *attempt, result, seed),
            Work::Progress { id, attempt, body, .. } => {
                let effect = self.core.record.effects.get(id);
                let is_late = effect.is_none_or(|effect| effect.attempt != *attempt);
                if is_late && !is_on(Sabotage::LateReportCounts) {
                    return Ok(Taken::Silent); // of an effect that has ended
                }
                let trace = effect.and_then(|effect| effect.trace.clone());
                match codec::unpack("effect progress", body) {
                    Ok(progress) => {
                        let input = Input::Progress { id: id.clone(), progress };
                        self.decide(work, input, seed, trace.as_deref())
                    }
                    Err(error) => Ok(self.poison(work, error.to_string())),
                }
            }
            Work::Adopt { id } => self.adopt_effect(work, id, seed),
            Work::Hold { except } => {
                self.hold_effects(|id| !except.contains(id));
                Ok(Taken::Silent)
            }
            Work::Aside { work, reason } => Ok(self.put_aside(work, reason.clone())),
        }
    }

    fn decide(
        &mut self,
        work: &Work,
        input: Input<E>,
        seed: u64,
        trace: Option<&str>,
    ) -> Result<Taken, Broken> {
        let room_bytes = self.config.record_bytes_max.saturating_sub(self.core.stored_bytes);
        let moment = Moment { address: self.address, now: self.now, seed, trace, room_bytes };
        let state = &self.core.state;
        let is_command = matches!(work, Work::Command { .. });
        let decided = catch_unwind(AssertUnwindSafe(|| self.entity.decide(state, input, &moment)));
        let decision = match decided {
            Err(panic) => return Ok(self.poison(work, format!("decide panicked: {}", panic_text(&panic)))),
            Ok(Err(refusal)) if is_command => {
                return Ok(Taken::Answered(DraftAnswer {
                    refused: true,
                    kept: E::is_kept(&refusal),
                    body: codec::encode(&refusal),
                    last_event: None,
                }));
            }
            Ok(Err(refusal)) => return Ok(self.poison(work, format!("cannot be applied: {refusal:?}"))),
            Ok(Ok(decision)) => decision,
        };
        if is_command && decision.reply.is_none() {
            return Ok(self.poison(work, "decided without an answer".into()));
        }
        let reply = decision.reply.as_ref().map(codec::encode);
        if let Err(reason) = self.check(&decision, reply.as_ref().map_or(0, Bytes::len)) {
            return Ok(self.poison(work, reason));
        }
        let last_event = self.adopt(decision, &moment)?;
        Ok(match reply {
            Some(body) => Taken::Answered(DraftAnswer { refused: false, kept: true, body, last_event }),
            None => Taken::Silent,
        })
    }

    /// Refuses a decision that is too much for one input, before any of it is adopted.
    fn check(&self, decision: &Decision<E>, reply: usize) -> Result<(), String> {
        if reply > self.config.record_bytes_max {
            return Err(format!("answers {reply} bytes, the limit is {}", self.config.record_bytes_max));
        }
        let messages: usize = decision.messages.iter().map(|message| message.body.len() + 256).sum();
        let effects = decision.effects.iter().map(|change| match change {
            EffectChange::Start { effect, .. } => effect.len(),
            EffectChange::Cancel { .. } => 0,
        });
        let records = decision.records.iter().map(|change| match change {
            RecordChange::Set { path, value } => path.len() + value.len() + 64,
            RecordChange::Clear { path } | RecordChange::Add { path, .. } => path.len() + 64,
        });
        let bytes = messages + effects.sum::<usize>() + records.sum::<usize>();
        if bytes > self.config.input_bytes_max {
            return Err(format!("writes {bytes} bytes, the limit is {}", self.config.input_bytes_max));
        }
        let positions = decision.messages.len() + decision.facts.len();
        if positions > usize::from(u16::MAX) / 2 {
            return Err(format!("has {positions} facts and messages, the limit is {}", u16::MAX / 2));
        }
        let timers = count_after(
            &self.core.record.timers,
            decision.timers.iter().map(|change| match change {
                TimerChange::Set { name, .. } => (name, true),
                TimerChange::Cancel { name } => (name, false),
            }),
        );
        let effects = count_after(
            &self.core.record.effects,
            decision.effects.iter().map(|change| match change {
                EffectChange::Start { id, .. } => (id, true),
                EffectChange::Cancel { id } => (id, false),
            }),
        );
        if effects > self.config.pending_max || timers > self.config.pending_max {
            return Err(format!(
                "has {effects} effects and {timers} timers, the limit is {}",
                self.config.pending_max
            ));
        }
        Ok(())
    }

    /// Applies the facts and collects the writes. Returns the position of the last event.
    fn adopt(&mut self, decision: Decision<E>, moment: &Moment<'_>) -> Result<Option<u16>, Broken> {
        let mut last_event = None;
        for fact in &decision.facts {
            self.changed = true;
            let state = &mut self.core.state;
            catch_unwind(AssertUnwindSafe(|| E::apply(state, fact)))
                .map_err(|panic| Broken { reason: format!("apply panicked: {}", panic_text(&panic)) })?;
            last_event = self.append(fact, moment)?.or(last_event);
        }
        if is_on(Sabotage::StateWithoutFact)
            && let Some(fact) = decision.facts.first()
        {
            E::apply(&mut self.core.state, fact);
        }
        for message in decision.messages {
            let shard = message.to.shard(self.config.shards);
            let record = MessageRecord {
                from: self.address.clone(),
                body: message.body,
                sent: self.now,
                trace: moment.trace.map(str::to_owned),
            };
            let key = keys::inbox_message(shard, &message.to);
            self.write(Write::Stamped(vec![(key, codec::encode(&record))]));
            self.draft.inboxes.push((shard, message.to));
        }
        for change in decision.timers {
            self.change_timer(change);
        }
        for change in decision.effects {
            self.change_effect(change, moment.trace);
        }
        for change in decision.records {
            let tenant = self.address.tenant();
            self.plain(match change {
                RecordChange::Set { path, value } => Mutation::Set { key: keys::data(tenant, &path), value },
                RecordChange::Clear { path } => Mutation::Clear { key: keys::data(tenant, &path) },
                RecordChange::Add { path, delta } => Mutation::Add { key: keys::data(tenant, &path), delta },
            });
        }
        Ok(last_event)
    }

    /// Appends a fact to the feed, unless it is private. Returns its position.
    fn append(&mut self, fact: &E::Fact, moment: &Moment<'_>) -> Result<Option<u16>, Broken> {
        let (state, sequence) = (&self.core.state, self.core.record.sequence + 1);
        let event = catch_unwind(AssertUnwindSafe(|| {
            let feed = self.entity.feed(state, self.address)?;
            Some((feed, self.entity.event(fact, sequence, moment)?))
        }));
        let event =
            event.map_err(|panic| Broken { reason: format!("event panicked: {}", panic_text(&panic)) })?;
        let Some((feed, event)) = event else { return Ok(None) };
        self.core.record.sequence = sequence;
        let tenant = self.address.tenant();
        let mut stamped = vec![];
        let indexed = !is_on(Sabotage::EventNotIndexed) || self.draft.feed.is_none();
        for term in event.terms.iter().filter(|_| indexed) {
            let key = keys::index_entry(tenant, &feed, &term.index, &term.term, self.feed_epoch);
            stamped.push((key, Bytes::new()));
        }
        let record = EventRecord { terms: event.terms, body: event.body.into() };
        stamped.push((keys::feed_event(tenant, &feed, self.feed_epoch), codec::encode(&record)));
        let position = u16::try_from(self.positions).unwrap_or(u16::MAX);
        self.write(Write::Stamped(stamped));
        self.draft.feed = Some(FeedMoved { tenant: tenant.to_owned(), feed, last: position });
        Ok(Some(position))
    }

    fn change_timer(&mut self, change: TimerChange) {
        self.changed = true;
        let (name, due) = match change {
            TimerChange::Set { name, due } => (name, Some(due)),
            TimerChange::Cancel { name } => (name, None),
        };
        if let Some(old) = self.core.record.timers.remove(&name)
            && !(due.is_none() && is_on(Sabotage::CancelledTimerFires))
        {
            self.plain(Mutation::Clear { key: keys::timer(self.shard, old, self.address, &name) });
        }
        if let Some(due) = due {
            let key = keys::timer(self.shard, due, self.address, &name);
            self.plain(Mutation::Set { key, value: Bytes::new() });
            self.core.record.timers.insert(name, due);
            self.draft.timer = Some(self.draft.timer.map_or(due, |first| first.min(due)));
        }
    }

    /// Puts an input aside that cannot be applied.
    fn poison(&mut self, work: &Work, reason: String) -> Taken {
        metrics::counter!("cadre_host_dead_letters_total", "input" => work.label()).increment(1);
        let letter = DeadLetter::new(work.label(), &work.body(), reason, self.now);
        let (address, input, reason) = (self.address, work.label(), letter.reason.clone());
        tracing::warn!(%address, input, reason, "input put aside as a dead letter");
        let times = 1 + usize::from(is_on(Sabotage::DeadLetterTwice));
        for _ in 0..if is_on(Sabotage::DeadLetterForgotten) { 0 } else { times } {
            self.write(letter.write(self.shard, self.address, self.config.dead_letter_ttl));
        }
        Taken::Poisoned(reason)
    }

    /// Consumes an input that broke the core, and puts it aside.
    fn put_aside(&mut self, work: &Work, reason: String) -> Taken {
        match work {
            Work::Command { .. } => {}
            Work::Aside { work, .. } => return self.put_aside(work, reason),
            Work::Message { key, .. } => self.plain(Mutation::Clear { key: key.clone() }),
            Work::Timer { name, due } => {
                if self.core.record.timers.get(name) == Some(due) {
                    self.core.record.timers.remove(name);
                    self.changed = true;
                }
                self.plain(Mutation::Clear { key: keys::timer(self.shard, *due, self.address, name) });
            }
            // Only a progress report: the effect goes on.
            Work::Progress { .. } | Work::Hold { .. } => {}
            // The entity still waits for its end, and hears of it next.
            Work::Effect { result: Ok(_), .. } => {}
            Work::Effect { id, .. } | Work::Adopt { id } => {
                self.changed |= self.core.record.effects.remove(id).is_some();
            }
        }
        self.poison(work, reason)
    }

    fn remember(&mut self, key: &str, body: &[u8], answer: &DraftAnswer) {
        if is_on(Sabotage::AnswerNotRecorded) {
            return;
        }
        let record = AnswerRecord {
            fingerprint: xxhash_rust::xxh3::xxh3_128(body),
            refused: answer.refused,
            body: answer.body.clone(),
            expires: self.now.after(self.config.idempotency_ttl),
            cursor: None,
        };
        let (value, offset) = record.encode_stamped(self.feed_epoch, answer.last_event);
        self.write(Write::StampedValue { key: keys::idempotency(self.address, key), value, offset });
        self.expiring.push(key.to_owned());
    }

    /// The finished step; empty when nothing is to be written. `Err` when the entity has grown too large.
    pub fn finish(mut self) -> Result<Draft, usize> {
        if self.leaving {
            let left = std::mem::take(&mut self.draft.start);
            self.hold_effects(|id| left.iter().any(|left| left == id));
        }
        let expires = self.now.after(self.config.idempotency_ttl);
        let mut expiring = std::mem::take(&mut self.expiring);
        while !expiring.is_empty() {
            let rest = expiring.split_off(expiring.len().min(ExpiryRecord::KEYS_MAX));
            let record = ExpiryRecord { keys: std::mem::replace(&mut expiring, rest) };
            let key = keys::expiry(self.shard, expires, self.address);
            self.write(Write::Stamped(vec![(key, codec::encode(&record))]));
        }
        let awake = !self.core.record.effects.is_empty();
        if awake != self.was_awake {
            let key = keys::awake(self.shard, self.address);
            self.plain(if awake {
                Mutation::Set { key, value: Bytes::new() }
            } else {
                Mutation::Clear { key }
            });
        }
        if self.changed && self.is_forgotten() {
            self.core.record = Record { at: self.now, ..Record::default() };
            self.plain(Mutation::Clear { key: keys::state(self.address) });
        } else if self.changed {
            self.core.record.at = self.now;
            self.core.record.state = codec::encode(&self.core.state);
            let value = codec::encode(&self.core.record);
            self.core.record.state = Bytes::new();
            self.core.stored_bytes = value.len();
            if value.len() > self.config.record_bytes_max {
                return Err(value.len());
            }
            self.plain(Mutation::Set { key: keys::state(self.address), value });
        }
        self.draft.positions = self.positions;
        Ok(self.draft)
    }

    /// Whether nothing is left to be stored.
    fn is_forgotten(&self) -> bool {
        let Record { timers, effects, .. } = &self.core.record;
        timers.is_empty() && effects.is_empty() && self.entity.is_forgotten(&self.core.state)
    }

    fn plain(&mut self, mutation: Mutation) {
        self.write(Write::Plain(mutation));
    }

    fn write(&mut self, write: Write) {
        self.draft.bytes += write.bytes();
        self.positions += write.positions();
        self.draft.writes.push(write);
    }
}

/// How many names there are after some were set and others removed, in this order.
fn count_after<'a, T>(
    names: &'a BTreeMap<String, T>,
    changes: impl Iterator<Item = (&'a String, bool)>,
) -> usize {
    let mut changed = BTreeMap::new();
    changed.extend(changes);
    let after = |count: usize, (name, is_set): (&String, bool)| match (names.contains_key(name), is_set) {
        (false, true) => count + 1,
        (true, false) => count - 1,
        _ => count,
    };
    changed.into_iter().fold(names.len(), after)
}

fn panic_text(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
