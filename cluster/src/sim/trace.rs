//! What happened in a simulation, line by line: for reading after a failure, and for comparing two runs.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

/// A list of lines that many parts of one simulation write to. Clones are the same list.
///
/// A line carries the virtual time since the first one, so two runs of one seed give equal lines.
#[derive(Debug, Clone, Default)]
pub struct Trace(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    origin: Option<Instant>,
    lines: Vec<String>,
}

impl Trace {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a line.
    pub fn note(&self, line: impl fmt::Display) {
        let now = Instant::now();
        let mut inner = self.inner();
        let at = now - *inner.origin.get_or_insert(now);
        inner.lines.push(format!("{:>10} us  {line}", at.as_micros()));
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.inner().lines.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
