//! Every event that was ever committed, whatever is trimmed later.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;

use super::{bank::LEDGER, tree::FOREST, workload::TENANT};
use crate::{
    codec,
    feed::{Cursor, Event, EventRecord, Term},
    keys,
    store::{Commit, Mutation, Stamp},
};

/// Watches the feeds grow.
#[derive(Debug, Clone, Default)]
pub(super) struct History(Arc<Mutex<BTreeMap<&'static str, Vec<Appended>>>>);

/// An event as it was committed.
#[derive(Debug, Clone)]
pub(super) struct Appended {
    pub event: Event,
    pub terms: Vec<Term>,
    /// What its key says behind the feed's prefix, and those of its index entries behind theirs.
    pub place: Bytes,
}

impl History {
    pub fn see(&self, stamp: Stamp, commit: &Commit) {
        for mutation in &commit.mutations {
            let Mutation::SetStampedKey { key, offset, value } = mutation else { continue };
            for feed in [LEDGER, FOREST] {
                let prefix = keys::feed(TENANT, feed);
                if key.starts_with(&prefix) {
                    let key = Mutation::stamped(key, *offset, &stamp);
                    self.append(feed, key.slice(prefix.len()..), value);
                }
            }
        }
    }

    fn append(&self, feed: &'static str, place: Bytes, value: &[u8]) {
        let (epoch, stamp, position) = keys::parse_position(&place, 0).expect("an event has a place");
        let EventRecord { terms, body } = codec::decode(value).expect("an event is stored as one");
        let event = Event { cursor: Cursor::new(epoch, stamp, position), body: body.into() };
        let mut feeds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        feeds.entry(feed).or_default().push(Appended { event, terms, place });
    }

    /// All events of a feed, in the order of their commits.
    pub fn of(&self, feed: &str) -> Vec<Appended> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(feed).cloned().unwrap_or_default()
    }
}
