//! Facts as the simulation's entities put them into feeds.

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    address::Address,
    clock::Timestamp,
    codec,
    feed::{Cursor, Event, NewEvent, Term},
    host::Moment,
};

/// A fact, who it is of, and which one it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Recorded<F> {
    pub cursor: Cursor,
    pub who: Address,
    pub sequence: u64,
    pub at: Timestamp,
    pub fact: F,
}

impl<F: Serialize + DeserializeOwned> Recorded<F> {
    pub fn event(moment: &Moment<'_>, sequence: u64, fact: &F, terms: Vec<Term>) -> NewEvent {
        NewEvent { terms, body: codec::pack(&(moment.address, sequence, moment.now, fact)) }
    }

    pub fn read(event: &Event) -> Self {
        let (who, sequence, at, fact) =
            codec::unpack("recorded fact", &event.body).expect("the simulation reads what it wrote");
        Self { cursor: event.cursor, who, sequence, at, fact }
    }
}
