//! What went wrong, and how it is tried again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `error` of facts and answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// One word that programs act on.
    pub code: String,
    /// What people read.
    pub message: String,
    /// Whether trying again may help.
    #[serde(default)]
    pub retryable: bool,
}

/// A few lines. A failure stands in several facts and in states.
const MESSAGE_BYTES_MAX: usize = 2 * 1024;

impl Failure {
    /// A failure for which trying again is of no use.
    ///
    /// What people read is not long: a message is cut where a failure is carried from fact to fact.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_BYTES_MAX {
            let end = (0..=MESSAGE_BYTES_MAX).rev().find(|at| message.is_char_boundary(*at));
            message.truncate(end.unwrap_or(0));
            message.push('…');
        }
        Self { code: code.into(), message, retryable: false }
    }

    /// The same, for which trying again may help.
    #[must_use]
    pub fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }
}

/// How often and after what wait something is tried again. The wait doubles up to its maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RetryPolicy {
    /// Attempts in all, the first included.
    pub max_attempts: u32,
    /// The wait before the second attempt.
    pub backoff_ms: u64,
    /// The longest wait.
    pub max_backoff_ms: u64,
}

impl Default for RetryPolicy {
    /// No second attempt; when asked for one, a second apart at first, a minute at most.
    fn default() -> Self {
        Self { max_attempts: 1, backoff_ms: 1_000, max_backoff_ms: 60_000 }
    }
}

impl RetryPolicy {
    /// The wait before this attempt, counted from 1; none when there must not be one.
    pub fn wait_ms(&self, attempt: u32) -> Option<u64> {
        match attempt {
            0 | 1 => Some(0),
            _ if attempt > self.max_attempts => None,
            _ => {
                let doubled =
                    self.backoff_ms.saturating_mul(1_u64.checked_shl(attempt - 2).unwrap_or(u64::MAX));
                Some(doubled.min(self.max_backoff_ms))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_a_message_is_cut_where_a_character_ends() {
        let failure = Failure::new("x", "é".repeat(2_000));
        assert_eq!(failure.message.chars().count(), 1_025);
        assert!(failure.message.ends_with("é…"));
        assert_eq!(Failure::new("x", "short").message, "short");
    }

    #[test]
    fn the_wait_doubles_up_to_its_maximum_and_ends_with_the_attempts() {
        let policy = RetryPolicy { max_attempts: 5, backoff_ms: 100, max_backoff_ms: 300 };
        let waits: Vec<_> = (1..=6).map(|attempt| policy.wait_ms(attempt)).collect();
        assert_eq!(waits, [Some(0), Some(100), Some(200), Some(300), Some(300), None]);
        let endless = RetryPolicy { max_attempts: u32::MAX, ..policy };
        assert_eq!(endless.wait_ms(u32::MAX), Some(300));
    }
}
