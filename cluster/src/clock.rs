//! Wall-clock time as an input.
//!
//! Durations and timeouts inside one process use `tokio::time`, which simulation can advance. Time that is
//! stored or compared between nodes is a [`Timestamp`] from a [`Clock`], which may be wrong and may even go
//! backwards: leases never depend on it, and an entity never sees it go back.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This much later.
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.as_millis().try_into().unwrap_or(u64::MAX)))
    }

    /// How long until `later`; zero when it has passed.
    pub fn until(self, later: Timestamp) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// The time now, as far as this node knows.
    fn now(&self) -> Timestamp;
}

/// The operating system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place where wall-clock time enters")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Timestamp(since.unwrap_or_default().as_millis().try_into().unwrap_or(u64::MAX))
    }
}
