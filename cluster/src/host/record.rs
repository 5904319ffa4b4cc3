//! The stored form of an entity.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{effect::PendingEffect, write::Write};
use crate::{
    address::{Address, ShardId},
    clock::Timestamp,
    codec::{self, DecodeError, Stored},
    feed::Cursor,
    keys,
    store::Stamp,
};

/// All that the host keeps of an entity between steps. Written whole by every step that changes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// How many events there are; private facts do not count.
    pub sequence: u64,
    /// When the last step was: time never goes back for an entity, whatever the clocks of its owners do.
    pub at: Timestamp,
    /// The timers that are set, by name.
    pub timers: BTreeMap<String, Timestamp>,
    /// The effects that have not ended, by id.
    pub effects: BTreeMap<String, PendingEffect>,
    /// The entity's own state, encoded with its own version.
    pub state: Bytes,
}

impl Stored for Record {
    const NAME: &'static str = "entity record";
    /// 1: effects without `held`. 2: effects without `trace`.
    const VERSION: u8 = 3;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, DecodeError> {
        match version {
            1 | 2 => codec::unpack(Self::NAME, body),
            _ => Err(DecodeError::Version { name: Self::NAME, found: version, known: Self::VERSION }),
        }
    }
}

/// The answer recorded under an idempotency key, stored under [`crate::keys::idempotency`] until it expires.
///
/// The stamp of the commit that records it becomes part of the value: one byte of version, ten of stamp, two of
/// position, four of feed epoch (zero when the command caused no event), then MessagePack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerRecord {
    /// A hash of the command, so that the same key with another command is noticed.
    pub fingerprint: u128,
    /// Whether `body` is a refusal.
    pub refused: bool,
    pub body: Bytes,
    pub expires: Timestamp,
    /// The position of the last event that the command caused.
    pub cursor: Option<Cursor>,
}

impl AnswerRecord {
    const VERSION: u8 = 1;
    const HEAD: usize = 1 + Stamp::LEN + 2 + 4;

    /// The value, and where its stamp goes. `position` is that of the command's last event, counted from the
    /// first of its step.
    pub fn encode_stamped(&self, feed_epoch: u32, position: Option<u16>) -> (Vec<u8>, usize) {
        let mut value = Vec::with_capacity(Self::HEAD + self.body.len() + 48);
        value.push(Self::VERSION);
        value.extend_from_slice(&[0; Stamp::LEN]);
        value.extend_from_slice(&position.unwrap_or(0).to_be_bytes());
        value.extend_from_slice(&position.map_or(0, |_| feed_epoch).to_be_bytes());
        value.extend_from_slice(&codec::pack(&(self.fingerprint, self.refused, &self.body, self.expires)));
        (value, 1)
    }

    pub fn decode(value: &[u8]) -> Result<Self, DecodeError> {
        const NAME: &str = "recorded answer";
        let malformed = || DecodeError::Malformed { name: NAME, reason: "it is too short".into() };
        let (head, body) = value.split_at_checked(Self::HEAD).ok_or_else(malformed)?;
        if head[0] != Self::VERSION {
            return Err(DecodeError::Version { name: NAME, found: head[0], known: Self::VERSION });
        }
        let mut stamp = [0; Stamp::LEN];
        stamp.copy_from_slice(&head[1..=Stamp::LEN]);
        let position = u16::from_be_bytes([head[11], head[12]]);
        let epoch = u32::from_be_bytes([head[13], head[14], head[15], head[16]]);
        let (fingerprint, refused, body, expires) = codec::unpack(NAME, body)?;
        let cursor = (epoch != 0).then(|| Cursor::new(epoch, Stamp::from(stamp), position));
        Ok(Self { fingerprint, refused, body, expires, cursor })
    }
}

/// The idempotency keys of one step, stored under [`crate::keys::expiry`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ExpiryRecord {
    pub keys: Vec<String>,
}

impl ExpiryRecord {
    /// As many of the longest keys fit into one value.
    pub const KEYS_MAX: usize = 64;
}

impl Stored for ExpiryRecord {
    const NAME: &'static str = "expiry list";
    const VERSION: u8 = 1;
}

/// A message in an inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MessageRecord {
    pub from: Address,
    pub body: Bytes,
    /// When it was sent, by the sender's clock.
    #[serde(default)]
    pub sent: Timestamp,
    /// The trace context of what caused it.
    #[serde(default)]
    pub trace: Option<String>,
}

impl Stored for MessageRecord {
    const NAME: &'static str = "inbox message";
    /// 1: without `sent` and `trace`.
    const VERSION: u8 = 2;

    fn upgrade(version: u8, body: &[u8]) -> Result<Self, DecodeError> {
        match version {
            1 => codec::unpack(Self::NAME, body),
            _ => Err(DecodeError::Version { name: Self::NAME, found: version, known: Self::VERSION }),
        }
    }
}

/// An input that could not be applied, kept for people to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// `command`, `message`, `timer`, `effect` or `progress`.
    pub input: String,
    /// What it said, as far as it can be kept.
    pub body: Bytes,
    /// Why it could not be applied.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

impl DeadLetter {
    /// Enough to recognise it by, and always storable.
    const BODY_BYTES_MAX: usize = 32 * 1024;
    const REASON_BYTES_MAX: usize = 4 * 1024;

    /// A letter that fits into one value, whatever it is about.
    pub(super) fn new(input: &str, body: &Bytes, mut reason: String, at: Timestamp) -> Self {
        let end = (0..=Self::REASON_BYTES_MAX).rev().find(|end| reason.is_char_boundary(*end));
        reason.truncate(end.unwrap_or(0));
        Self { input: input.to_owned(), body: body.slice(..body.len().min(Self::BODY_BYTES_MAX)), reason, at }
    }
}

impl DeadLetter {
    /// Puts it where it is found, until it expires.
    pub(super) fn write(&self, shard: ShardId, of: &Address, ttl: Duration) -> Write {
        Write::Stamped(vec![
            (keys::dead_letter(of), codec::encode(self)),
            (keys::letter_expiry(shard, self.at.after(ttl), of), Bytes::new()),
        ])
    }
}

impl Stored for DeadLetter {
    const NAME: &'static str = "dead letter";
    const VERSION: u8 = 1;
}

/// What is stored of an entity under [`keys::state`]: how many events it has, and its state. Read it in one transaction
/// with [`crate::feed::Feed::snapshot_cursor`], and the feed goes on exactly where the state ends.
pub fn read_entity<E: super::Entity>(stored: &[u8]) -> Result<(u64, E::State), DecodeError> {
    let record: Record = codec::decode(stored)?;
    Ok((record.sequence, codec::decode(&record.state)?))
}
