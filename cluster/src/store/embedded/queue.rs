//! Commits on their way to the committer.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, oneshot},
    time::Instant,
};

use super::readers::Cohort;
use crate::store::{Commit, CommitError, Committed};

/// One transaction that wants to commit.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) commit: Commit,
    /// Where it read; kept so that what it has to be checked against is kept.
    pub(super) cohort: Option<Arc<Cohort>>,
    pub(super) start: Instant,
    pub(super) reply: Reply,
    /// Its share of the queue's memory.
    weight: u32,
}

pub(super) type Reply = oneshot::Sender<Result<Committed, CommitError>>;

/// Bounded by memory, not by count: whoever finds no room waits outside.
#[derive(Debug)]
pub(super) struct Queue {
    room: Semaphore,
    room_max: u32,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Request>,
    /// The committer sleeps until so many wait: waking it costs a system call that is only made then.
    wake_at: Option<usize>,
    closed: bool,
}

impl Queue {
    pub(super) fn new(bytes: usize) -> Self {
        let room_max = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self {
            room: Semaphore::new(room_max as usize),
            room_max,
            state: Mutex::default(),
            arrived: Condvar::new(),
        }
    }

    /// Hands in a transaction and waits for its answer.
    pub(super) async fn submit(
        &self,
        commit: Commit,
        cohort: Option<Arc<Cohort>>,
    ) -> Result<Committed, CommitError> {
        let start = Instant::now();
        let weight = weight(&commit).min(self.room_max);
        // A closed semaphore is a closed store.
        self.room.acquire_many(weight).await.map_err(|_| closed())?.forget();
        let (reply, answer) = oneshot::channel();
        if !self.push(Request { commit, cohort, start, reply, weight }) {
            return Err(closed());
        }
        // No answer: the committer is gone, and nobody knows how far it came.
        answer.await.unwrap_or(Err(CommitError::OutcomeUnknown))
    }

    fn push(&self, request: Request) -> bool {
        let mut state = self.state();
        if state.closed {
            return false;
        }
        state.waiting.push_back(request);
        let waiting = state.waiting.len();
        if state.wake_at.take_if(|wake_at| waiting >= *wake_at).is_some() {
            drop(state);
            self.arrived.notify_one();
        }
        true
    }

    /// Moves everything that waits behind `batch`; blocks while there is nothing at all. False when the queue
    /// is closed and empty.
    pub(super) fn take(&self, batch: &mut VecDeque<Request>) -> bool {
        let mut state = self.state();
        while batch.is_empty() && state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            state.wake_at = Some(1);
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if batch.is_empty() {
            std::mem::swap(batch, &mut state.waiting);
        } else {
            batch.append(&mut state.waiting);
        }
        true
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.state().waiting.len()
    }

    /// Waits until `wanted` are in the queue, but no longer than that. False when they did not come.
    pub(super) fn gather(&self, wanted: usize, at_most: Duration) -> bool {
        let mut state = self.state();
        if state.waiting.len() < wanted && !state.closed {
            state.wake_at = Some(wanted);
            (state, _) = self.arrived.wait_timeout(state, at_most).unwrap_or_else(PoisonError::into_inner);
            state.wake_at = None;
        }
        state.waiting.len() >= wanted
    }

    /// Gives the room of an answered request back.
    pub(super) fn release(&self, weight: usize) {
        self.room.add_permits(weight);
    }

    /// Takes nothing more. What waits is still answered.
    pub(super) fn close(&self) {
        self.room.close();
        let mut state = self.state();
        state.closed = true;
        state.wake_at = None;
        drop(state);
        self.arrived.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.room.is_closed()
    }

    /// Nobody will answer what waits.
    pub(super) fn abandon(&self) {
        self.close();
        let abandoned = std::mem::take(&mut self.state().waiting);
        drop(abandoned);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Request {
    pub(super) fn weight(&self) -> usize {
        self.weight as usize
    }
}

pub(super) fn closed() -> CommitError {
    CommitError::Unavailable { reason: "the store is closed".to_owned() }
}

fn weight(commit: &Commit) -> u32 {
    const OVERHEAD: usize = 256;
    let reads: usize = commit.reads.iter().map(|range| range.begin.len() + range.end.len()).sum();
    let writes: usize = commit.mutations.iter().map(crate::store::Mutation::bytes).sum();
    u32::try_from(OVERHEAD + reads + writes).unwrap_or(u32::MAX)
}
