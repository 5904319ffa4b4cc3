//! What a pack cannot tell, said instead of guessed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fact::status::Availability;

/// Something that is not in a pack, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnownGap {
    /// What.
    pub what: String,
    /// In which way it is missing.
    pub state: Availability,
    /// Why.
    pub reason: String,
}

impl KnownGap {
    /// No fact says it.
    pub fn unknown(what: &str, reason: impl Into<String>) -> Self {
        Self::new(what, Availability::Unknown, reason)
    }

    /// It was there, and is not at hand.
    pub fn unavailable(what: &str, reason: impl Into<String>) -> Self {
        Self::new(what, Availability::Unavailable, reason)
    }

    /// It goes on: the pack says how it stood.
    pub fn stale(what: &str, reason: impl Into<String>) -> Self {
        Self::new(what, Availability::Stale, reason)
    }

    fn new(what: &str, state: Availability, reason: impl Into<String>) -> Self {
        Self { what: what.to_owned(), state, reason: reason.into() }
    }
}
