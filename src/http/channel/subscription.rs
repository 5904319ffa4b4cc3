//! One session that a channel follows.

use crate::{
    fact::{Cursor, id::SessionId},
    runtime::{EventFilter, reader::Follower},
};

/// A session that a channel follows, and how far it is.
pub(super) struct Subscription {
    pub session: SessionId,
    pub follower: Follower,
    pub filter: EventFilter,
    /// Whether the client has not been told that it is up to date.
    pub catches_up: bool,
}

impl Subscription {
    /// Whether there may be something to say.
    pub(super) fn is_due(&self) -> bool {
        self.catches_up || self.follower.is_behind()
    }

    /// Everything up to here was sent, or does not pass the filter: what lies beyond cannot have arrived.
    pub(super) fn sent(&self) -> Cursor {
        self.follower.position()
    }
}
