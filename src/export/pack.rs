//! What all packs have in common.

use serde::{Deserialize, Serialize};

use super::{KnownGap, Scope, Selection, sink::Full};
use crate::fact::{
    Cursor, Event,
    id::{EvidenceId, SessionId},
    payload::VerificationOutcome,
    time::Time,
};

/// What a pack is about; every pack begins with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct About {
    /// What it is, and which version of that: `cadre-evidence/1`.
    pub format: String,
    /// The version of the schemas of its events.
    pub schema_version: String,
    /// The installation that made it.
    pub runtime_id: String,
    /// Its id.
    pub evidence_id: EvidenceId,
    /// The session.
    pub session_id: SessionId,
    /// When it was made.
    pub exported_at: Time,
    /// Up to where it is true.
    pub cursor: Cursor,
}

/// From when to when, and how many facts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// How many facts.
    pub events: u64,
    /// The time of the earliest.
    pub from: Option<Time>,
    /// The time of the latest.
    pub to: Option<Time>,
}

impl Span {
    /// Takes in a fact.
    pub fn take(&mut self, event: &Event) {
        let at = Time(event.fact.at);
        self.events += 1;
        self.from = Some(self.from.map_or(at, |from| from.min(at)));
        self.to = self.to.max(Some(at));
    }

    /// How long it is.
    pub fn duration_ms(&self) -> u64 {
        self.from.zip(self.to).map_or(0, |(Time(from), Time(to))| to.0.saturating_sub(from.0))
    }
}

/// What is known once every fact was seen.
#[derive(Debug, Clone)]
pub struct Closing {
    /// What was selected.
    pub selection: Selection,
    /// What checks found.
    pub verification: Vec<VerificationOutcome>,
    /// What cannot be told.
    pub gaps: Vec<KnownGap>,
    /// What is referred to and not there any more.
    pub missing: Vec<String>,
}

/// A pack in the making.
pub trait Pack: Send {
    /// Takes in a fact, in the order of the feed.
    fn take(&mut self, event: &Event) -> Result<(), Full>;

    /// All of it, as JSON.
    fn finish(self: Box<Self>, closing: Closing) -> Result<Vec<u8>, Full>;
}

/// What a finished pack says of itself, read back from it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sealed {
    /// What it is about.
    pub scope: Scope,
    /// What checks found.
    pub verification: Vec<VerificationOutcome>,
    /// What is referred to and not there any more.
    pub missing: Vec<String>,
}

impl From<&Closing> for Sealed {
    fn from(closing: &Closing) -> Self {
        Self {
            scope: closing.selection.scope(),
            verification: closing.verification.clone(),
            missing: closing.missing.clone(),
        }
    }
}
