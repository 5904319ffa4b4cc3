//! What clients were told.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cadre_cluster::{
    feed::Cursor,
    sim::{Env, Trace},
};
use serde_json::Value;

use crate::{control::Error, control::result::Answer};

/// A command and its answer.
#[derive(Debug, Clone)]
pub(super) struct Told {
    /// The command.
    pub name: &'static str,
    /// Its arguments.
    pub args: Value,
    /// Its idempotency key.
    pub key: String,
    /// The end of all feeds when it was first sent.
    pub since: Cursor,
    /// The same when it was answered.
    pub until: Cursor,
    /// What it was answered.
    pub answer: Result<Answer, Error>,
    /// What it was answered when it was sent again after that.
    pub again: Option<Result<Answer, Error>>,
}

impl Told {
    /// The result, unless it was refused.
    pub fn result(&self) -> Option<&Value> {
        self.answer.as_ref().ok().map(|answer| &answer.result)
    }

    /// An argument, or an empty text.
    pub fn arg(&self, name: &str) -> &str {
        self.args[name].as_str().unwrap_or_default()
    }
}

/// Everything that was noticed outside of the feeds.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Commands and their answers.
    pub told: Vec<Told>,
    /// What must not be, by promise.
    pub broken: Vec<(u8, String)>,
    /// Replays in the middle of everything.
    pub replays: u64,
    /// Calls of which nobody knew what became of them.
    pub unknown: u64,
    /// Refusals of a stranger.
    pub refused_strangers: u64,
}

/// Shared by all clients of one simulation.
#[derive(Clone)]
pub(super) struct Log {
    notes: Arc<Mutex<Notes>>,
    end: Arc<Mutex<Cursor>>,
    /// What happened, in words.
    pub trace: Trace,
}

impl Log {
    /// Follows the end of all feeds from now on.
    pub fn new(env: &Env) -> Self {
        let log = Self { notes: Arc::default(), end: Arc::default(), trace: env.trace.clone() };
        let end = log.end.clone();
        env.store.on_commit(move |stamp, _, _| {
            *end.lock().unwrap_or_else(PoisonError::into_inner) = Cursor::new(1, stamp, u16::MAX);
        });
        log
    }

    /// The end of all feeds.
    pub fn end(&self) -> Cursor {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To read or to add.
    pub fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that must not be.
    pub fn broken(&self, promise: u8, what: String) {
        self.notes().broken.push((promise, what));
    }
}
