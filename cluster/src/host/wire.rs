//! What callers and owners say to each other over the bus.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    address::{Address, ShardId},
    bus::{Subject, escape_token},
    feed::Cursor,
};

/// A command on its way to its entity.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Request {
    /// The same key and command give the same answer, however often they are sent.
    pub key: Option<String>,
    pub body: Bytes,
}

/// An idempotency key that is over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong {
    pub limit: usize,
    pub actual: usize,
}

impl Request {
    /// The longest idempotency key: part of a key of the store, beside an address and with room to be escaped.
    pub const KEY_BYTES_MAX: usize = 1_024;

    /// About what it takes in memory while it waits.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.as_ref().map_or(0, String::len) + self.body.len()
    }

    pub fn check_key(&self) -> Result<(), TooLong> {
        let actual = self.key.as_ref().map_or(0, String::len);
        if actual > Self::KEY_BYTES_MAX {
            return Err(TooLong { limit: Self::KEY_BYTES_MAX, actual });
        }
        Ok(())
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Response {
    /// Decided and durable.
    Answered { refused: bool, body: Bytes, cursor: Option<Cursor> },
    /// Not handled here: ask again, somewhere else or a little later. Nothing was done.
    Moving,
    /// Not handled here, and perhaps by another owner. Never said over the bus, where that one has been asked, too.
    NotOwner,
    /// Not handled now: too much waits already. Nothing was done.
    Busy,
    /// May have been done.
    OutcomeUnknown,
    /// The same idempotency key came with another command before.
    KeyReused,
    /// The command could not be applied, and was put aside as a dead letter.
    Poisoned { reason: String },
    /// The entity does not live in this shard: the caller counts the shards otherwise.
    Misrouted { shards: u16 },
    /// Nobody here knows this kind of entity.
    UnknownKind,
    /// The store cannot be used now. Nothing was done.
    Unavailable { reason: String },
}

impl Response {
    /// Whether it tells what became of the command. What is not decided tells that nothing was done, which only
    /// an owner can know.
    pub fn is_decided(&self) -> bool {
        match self {
            Self::Answered { .. }
            | Self::OutcomeUnknown
            | Self::KeyReused
            | Self::Poisoned { .. }
            | Self::Misrouted { .. } => true,
            Self::Moving | Self::NotOwner | Self::Busy | Self::UnknownKind | Self::Unavailable { .. } => {
                false
            }
        }
    }
}

/// Where the owner of a shard hears of new inbox messages. One token shorter than any entity's subject.
pub(super) fn bell_subject(cluster: &str, shard: ShardId) -> Subject {
    Subject::from_tokens(["cadre", &escape_token(cluster), "actor", &shard.to_string(), "bell"])
}

/// Whose inboxes got something; empty means too many to name.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Bell {
    pub inboxes: Vec<Address>,
}

impl Bell {
    /// A bell that names more would be larger than the look that it saves.
    pub const INBOXES_MAX: usize = 64;
}

/// Where members tell each other that placement has changed.
pub(super) fn placement_subject(cluster: &str) -> Subject {
    Subject::from_tokens(["cadre", &escape_token(cluster), "placement"])
}
