//! What is in a feed. To the substrate an event is bytes; only its index terms have a meaning here.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Cursor;
use crate::codec::Stored;

/// A name under which an event can be found: `("task", "task_1")`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Term {
    /// Which index.
    pub index: String,
    /// Which entry of it.
    pub term: String,
}

/// An event that a step appends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// Under what it will be found by filtered reads.
    pub terms: Vec<Term>,
    /// What it says.
    pub body: Bytes,
}

/// An event as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Where it stands.
    pub cursor: Cursor,
    /// What it says.
    pub body: Bytes,
}

/// An event as it is stored. The terms are kept with it so that trimming finds the index entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// See [`NewEvent::terms`].
    pub terms: Vec<Term>,
    /// See [`NewEvent::body`].
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
}

impl Stored for EventRecord {
    const NAME: &'static str = "event";
    const VERSION: u8 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_event_never_changes_its_layout() {
        let term = Term { index: "task".into(), term: "task_1".into() };
        crate::codec::golden::hold(
            &EventRecord { terms: vec![term], body: b"{}".to_vec() },
            "01929192a47461736ba67461736b5f31c4027b7d",
        );
    }
}
