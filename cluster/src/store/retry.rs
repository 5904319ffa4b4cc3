//! The retry loop: when to run a transaction again, and how long to wait before.

use std::time::Duration;

use super::CommitError;

/// Counts the attempts at one transaction. The caller owns the loop, so that what runs more than once is
/// plain to see:
///
/// ```no_run
/// # async fn example(store: cadre_cluster::store::Store) -> Result<(), cadre_cluster::store::CommitError> {
/// # use cadre_cluster::store::{Attempt, CommitError, Store};
/// async fn once(store: &Store) -> Result<(), CommitError> {
///     let mut tx = store.begin();
///     let old = tx.get(b"greeting").await?;
///     if old.is_none() {
///         tx.set(&b"greeting"[..], &b"hello"[..]);
///     }
///     tx.commit().await.map(drop)
/// }
/// let mut attempt = Attempt::idempotent();
/// while let Err(error) = once(&store).await {
///     attempt.again(error).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Attempt {
    idempotent: bool,
    failures: u32,
    failures_max: u32,
}

impl Attempt {
    /// Conflicts among a few writers resolve in one or two rounds; an outage outlasts any count that a caller
    /// would wait for, so it is the caller's to see.
    const FAILURES_MAX: u32 = 12;
    const BACKOFF_FIRST: Duration = Duration::from_millis(1);
    const BACKOFF_MAX: Duration = Duration::from_millis(250);

    /// For a transaction that may be applied twice without harm: also run again when its outcome is unknown.
    pub fn idempotent() -> Self {
        Self { idempotent: true, failures: 0, failures_max: Self::FAILURES_MAX }
    }

    /// For a transaction that must not be applied twice: an unknown outcome is the caller's to resolve.
    pub fn once() -> Self {
        Self { idempotent: false, failures: 0, failures_max: Self::FAILURES_MAX }
    }

    /// Gives up after so many failures instead.
    pub fn failures_max(mut self, failures_max: u32) -> Self {
        self.failures_max = failures_max;
        self
    }

    /// Waits until it is worth trying again, or gives the error back when it is not.
    pub async fn again(&mut self, error: CommitError) -> Result<(), CommitError> {
        let unknown = matches!(error, CommitError::OutcomeUnknown);
        if !(error.is_retryable() || unknown && self.idempotent) || self.failures >= self.failures_max {
            return Err(error);
        }
        tokio::time::sleep(self.backoff()).await;
        self.failures += 1;
        Ok(())
    }

    fn backoff(&self) -> Duration {
        (Self::BACKOFF_FIRST * 2u32.saturating_pow(self.failures.min(16))).min(Self::BACKOFF_MAX)
    }
}
