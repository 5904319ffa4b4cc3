//! The one thread that commits.
//!
//! It takes whatever waits, as one group: checks each transaction against everything before it, applies it to
//! the overlay at a version nobody can see yet, and adds it to one record. One write and one sync later the
//! version becomes visible and all of the group are answered; while the disk works, the next group gathers.

use std::{collections::VecDeque, sync::Arc};

use bytes::{Bytes, BytesMut};
use tokio::time::Instant;

use super::{
    base::BaseError,
    conflict::History,
    log::{AppendError, Log, Operation, RecordBuffer},
    overlay::{Generation, Lookup, Undo},
    pace::Pace,
    queue::{Reply, Request},
    shared::Shared,
    view::View,
};
use crate::store::{Commit, CommitError, Committed, Mutation, Stamp, Version};

pub(super) struct Committer {
    shared: Arc<Shared>,
    log: Log,
    active: Arc<Generation>,
    /// The last version.
    last: u64,
    record: RecordBuffer,
    arena: Arena,
    pace: Pace,
}

/// A group on its way to the disk.
struct Group {
    version: u64,
    floor: u64,
    /// How many transactions of it write.
    writers: u16,
    undo: Vec<Undo>,
    answers: Vec<Answer>,
}

struct Answer {
    reply: Reply,
    start: Instant,
    weight: usize,
    result: Result<Committed, CommitError>,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, log: Log, active: Arc<Generation>, last: u64) -> Self {
        let (record, arena, pace) = (RecordBuffer::default(), Arena::default(), Pace::new());
        Self { shared, log, active, last, record, arena, pace }
    }

    /// Works until the queue is closed and empty, then moves everything into the engine.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut waiting = VecDeque::new();
        while shared.queue.take(&mut waiting) {
            if let Some((wanted, at_most)) = self.pace.gather(waiting.len()) {
                let came = shared.queue.gather(wanted - waiting.len(), at_most);
                self.pace.gathered(came);
                shared.queue.take(&mut waiting);
            }
            let refusal = self.make_room().err();
            self.commit(&mut waiting, refusal);
        }
        self.finish();
    }

    /// Commits a group, or answers it with the reason why nothing can be committed now.
    fn commit(&mut self, waiting: &mut VecDeque<Request>, refusal: Option<CommitError>) {
        let mut group = self.prepare(waiting, refusal.as_ref());
        let prepared = Instant::now();
        if group.writers > 0 {
            self.write(&mut group);
        }
        let now = Instant::now();
        let answered = group.answers.len();
        self.pace.wrote(now - prepared, answered, waiting.len() + self.shared.queue.len());
        let mut released = 0;
        for answer in group.answers {
            self.shared.stats.answered(answer.start, now);
            released += answer.weight;
            // Whoever no longer waits does not want to know.
            answer.reply.send(answer.result).ok();
        }
        self.shared.queue.release(released);
    }

    /// Takes a group from the front of the queue and lays it out in memory.
    fn prepare(&mut self, waiting: &mut VecDeque<Request>, refusal: Option<&CommitError>) -> Group {
        let floor = self.shared.readers.floor();
        self.active.collect(floor);
        let view = self.shared.readers.view();
        let history = History::new(&view, self.shared.checkpoints.retired());
        let mut group =
            Group { version: self.last + 1, floor, writers: 0, undo: Vec::new(), answers: Vec::new() };
        let config = &self.shared.config;
        let (transactions_max, bytes_max) = (config.group_transactions_max, config.group_bytes_max);
        let short = self.shared.room.is_short();
        self.record.start();
        while group.answers.len() < transactions_max
            && self.record.len() < bytes_max
            && let Some(request) = waiting.pop_front()
        {
            let weight = request.weight();
            let Request { commit, cohort, start, reply, .. } = request;
            let admitted = match refusal {
                None => self.admit(&commit, cohort.map(|cohort| cohort.version), &history, (short, weight)),
                Some(refusal) => Err(refusal.clone()),
            };
            let result = admitted.and_then(|()| self.lay_out(commit, &mut group, &view));
            if matches!(result, Err(CommitError::Conflict)) {
                self.shared.stats.conflict();
            }
            group.answers.push(Answer { reply, start, weight, result });
        }
        group
    }

    fn admit(
        &self,
        commit: &Commit,
        read_at: Option<u64>,
        history: &History,
        (short, bytes): (bool, usize),
    ) -> Result<(), CommitError> {
        if let Some(error) = self.shared.failure() {
            return Err(error);
        }
        if short && !makes_room(commit) && !self.shared.room.allows(bytes as u64) {
            let reason = "the disk reserve is in use; until it is back, clear something first".to_owned();
            return Err(CommitError::Full { reason });
        }
        match read_at {
            Some(version) if !commit.reads.is_empty() => history.check(&commit.reads, version),
            _ => Ok(()),
        }
    }

    /// Applies a transaction to the overlay and adds it to the record.
    fn lay_out(&mut self, commit: Commit, group: &mut Group, view: &View) -> Result<Committed, CommitError> {
        let stamp = Stamp::new(Version(group.version), group.writers);
        // What is added to may have to be read from the engine, which can fail: only before anything is
        // applied.
        let terms = stored_terms(&commit, view).map_err(|error| CommitError::Failed(Arc::new(error)))?;
        let mut terms = terms.into_iter();
        for mutation in commit.mutations {
            let operation = self.resolve(mutation, &stamp, &mut terms);
            self.record.push(&operation);
            group.undo.extend(self.active.apply(operation, group.version, group.floor));
        }
        group.writers += 1;
        Ok(Committed { stamp })
    }

    fn resolve(
        &mut self,
        mutation: Mutation,
        stamp: &Stamp,
        terms: &mut impl Iterator<Item = Option<Bytes>>,
    ) -> Operation {
        match mutation {
            Mutation::Set { key, value } => {
                Operation::Set { key: self.arena.keep(&key), value: self.arena.keep(&value), fresh: false }
            }
            Mutation::Clear { key } => Operation::Clear { key: self.arena.keep(&key) },
            Mutation::ClearRange { range } => {
                let (begin, end) = (self.arena.keep(&range.begin), self.arena.keep(&range.end));
                Operation::ClearRange { range: crate::store::KeyRange { begin, end } }
            }
            Mutation::Add { key, delta } => {
                let below = terms.next().flatten();
                // This transaction may have written the key itself meanwhile.
                let old = match self.active.get(&key, u64::MAX) {
                    Lookup::Value(value) => Some(value),
                    Lookup::Gone => None,
                    Lookup::Below => below,
                };
                let value = Mutation::added(old.as_deref(), delta);
                Operation::Set { key: self.arena.keep(&key), value, fresh: false }
            }
            Mutation::SetStampedKey { key, offset, value } => {
                let key = self.arena.keep_stamped(&key, offset, stamp);
                Operation::Set { key, value: self.arena.keep(&value), fresh: true }
            }
            Mutation::SetStampedValue { key, value, offset } => {
                let value = self.arena.keep_stamped(&value, offset, stamp);
                Operation::Set { key: self.arena.keep(&key), value, fresh: false }
            }
        }
    }

    /// Makes a group durable and visible, or turns its answers into the reason why not.
    fn write(&mut self, group: &mut Group) {
        let error = match self.log.append(group.version, &mut self.record) {
            Ok(bytes) => {
                self.last = group.version;
                self.active.add_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
                self.shared.stats.group(u64::from(group.writers), bytes, self.active.bytes());
                self.shared.readers.publish(group.version);
                return;
            }
            Err(AppendError::Full(error)) => {
                self.active.forget(group.version, std::mem::take(&mut group.undo));
                // Moving what there is into the engine frees the log.
                self.freeze_if_idle();
                CommitError::Full { reason: error.to_string() }
            }
            Err(AppendError::Broken { source, attempted }) => {
                tracing::error!(error = %source, "log is broken; nothing more will commit");
                let cause = Arc::new(source);
                self.shared.fail(cause.clone());
                self.active.forget(group.version, std::mem::take(&mut group.undo));
                if attempted { CommitError::OutcomeUnknown } else { CommitError::Failed(cause) }
            }
        };
        for answer in group.answers.iter_mut().filter(|answer| answer.result.is_ok()) {
            answer.result = Err(error.clone());
        }
    }

    /// Starts a checkpoint when the active generation is full; when the one before is still on its way into
    /// the engine and this one has grown as large again, waits. An error when that would take too long.
    fn make_room(&mut self) -> Result<(), CommitError> {
        let (bytes, limit) = (self.active.bytes(), self.shared.config.checkpoint_bytes);
        if bytes >= 2 * limit && self.shared.checkpoints.is_busy() {
            let start = Instant::now();
            let waited = self.shared.checkpoints.wait(&self.shared);
            self.shared.stats.stall(start);
            waited?;
        }
        // On a full disk, what was cleared makes room only once it is cleared in the engine.
        if bytes >= limit || self.shared.room.is_short() {
            self.freeze_if_idle();
        }
        Ok(())
    }

    fn freeze_if_idle(&mut self) {
        let shared = &self.shared;
        if self.active.is_empty() || shared.checkpoints.is_busy() || shared.failure().is_some() {
            return;
        }
        let frozen = std::mem::replace(&mut self.active, Arc::new(Generation::new(self.last)));
        shared.readers.exchange(|view| View {
            active: Arc::clone(&self.active),
            frozen: Some(Arc::clone(&frozen)),
            base: Arc::clone(&view.base),
        });
        shared.checkpoints.start(frozen);
    }

    fn finish(mut self) {
        let shared = Arc::clone(&self.shared);
        if shared.checkpoints.wait(&shared).is_ok() {
            self.freeze_if_idle();
        }
        if shared.checkpoints.wait(&shared).is_err() {
            // What could not move is in the log, which the next opening reads.
            tracing::warn!("closing without a last checkpoint");
        }
    }
}

/// What is stored under the keys that a transaction adds to, in the order of its adds.
fn stored_terms(commit: &Commit, view: &View) -> Result<Vec<Option<Bytes>>, BaseError> {
    let keys = commit.mutations.iter().filter_map(|mutation| match mutation {
        Mutation::Add { key, .. } => Some(key),
        _ => None,
    });
    keys.map(|key| view.get(key, u64::MAX)).collect()
}

/// Whether a transaction only clears, or clears a range and leaves a short note about it.
fn makes_room(commit: &Commit) -> bool {
    const NOTE_BYTES_MAX: usize = 512;
    let is_clear =
        |mutation: &&Mutation| matches!(mutation, Mutation::Clear { .. } | Mutation::ClearRange { .. });
    let clears_a_range =
        commit.mutations.iter().any(|mutation| matches!(mutation, Mutation::ClearRange { .. }));
    let notes: usize =
        commit.mutations.iter().filter(|mutation| !is_clear(mutation)).map(Mutation::bytes).sum();
    notes == 0 || clears_a_range && notes <= NOTE_BYTES_MAX
}

/// Memory for keys and values, in large pieces. What the overlay keeps is copied here, because a caller's
/// bytes may be a small part of something large.
#[derive(Default)]
struct Arena {
    bytes: BytesMut,
}

impl Arena {
    const PIECE_BYTES: usize = 64 << 10;

    fn keep(&mut self, bytes: &[u8]) -> Bytes {
        self.reserve(bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.split().freeze()
    }

    fn keep_stamped(&mut self, template: &[u8], offset: usize, stamp: &Stamp) -> Bytes {
        self.reserve(template.len());
        self.bytes.extend_from_slice(template);
        self.bytes[offset..offset + Stamp::LEN].copy_from_slice(stamp.as_bytes());
        self.bytes.split().freeze()
    }

    fn reserve(&mut self, len: usize) {
        if self.bytes.capacity() - self.bytes.len() < len {
            self.bytes = BytesMut::with_capacity(len.max(Self::PIECE_BYTES));
        }
    }
}
