//! Who an entity is and where it lives.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::bus::{Subject, escape_token, unescape_token};

/// One of the fixed number of parts that a cluster's entities are divided into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ShardId(pub u16);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// `(tenant, kind, id)`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Arc<Parts>);

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Parts {
    tenant: Box<str>,
    kind: Box<str>,
    id: Box<str>,
}

/// Why a text cannot be part of an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{part} must be 1 to {max} bytes without control characters, it has {actual}", max = Address::PART_BYTES_MAX)]
pub struct InvalidAddress {
    /// `tenant`, `kind` or `id`.
    pub part: &'static str,
    /// Its length in bytes.
    pub actual: usize,
}

impl Address {
    /// An address is in every key of its entity: three parts of this size stay far below the longest key,
    /// also when every byte has to be escaped in a subject.
    pub const PART_BYTES_MAX: usize = 256;

    /// An address of its parts.
    pub fn new(tenant: &str, kind: &str, id: &str) -> Result<Self, InvalidAddress> {
        for (part, text) in [("tenant", tenant), ("kind", kind), ("id", id)] {
            // A NUL would end one key's prefix inside another's; the other control characters help nobody.
            if text.is_empty() || text.len() > Self::PART_BYTES_MAX || text.contains(char::is_control) {
                return Err(InvalidAddress { part, actual: text.len() });
            }
        }
        Ok(Self(Arc::new(Parts { tenant: tenant.into(), kind: kind.into(), id: id.into() })))
    }

    /// Whose it is.
    pub fn tenant(&self) -> &str {
        &self.0.tenant
    }

    /// What kind of entity.
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// Which one.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The shard it lives in, of `count`. Part of the stored layout: must never change.
    pub fn shard(&self, count: u16) -> ShardId {
        let mut hash = Xxh3::new();
        for part in [self.tenant(), self.kind(), self.id()] {
            hash.update(part.as_bytes());
            hash.update(&[0xff]);
        }
        let shard = hash.digest() % u64::from(count.max(1));
        ShardId(u16::try_from(shard).expect("a remainder of a u16 fits a u16"))
    }

    /// Where to reach it on the bus.
    pub fn subject(&self, cluster: &str, shard: ShardId) -> Subject {
        Subject::from_tokens([
            "cadre",
            &escape_token(cluster),
            "actor",
            &shard.to_string(),
            &escape_token(self.kind()),
            &escape_token(self.tenant()),
            &escape_token(self.id()),
        ])
    }

    /// The address that [`Address::subject`] made this subject of.
    pub fn from_subject(subject: &Subject) -> Option<Self> {
        let mut tokens = subject.tokens().skip(4);
        let kind = unescape_token(tokens.next()?)?;
        let tenant = unescape_token(tokens.next()?)?;
        let id = unescape_token(tokens.next()?)?;
        if tokens.next().is_some() {
            return None;
        }
        Self::new(&tenant, &kind, &id).ok()
    }
}

/// What the owner of a shard listens to.
pub fn shard_subject(cluster: &str, shard: ShardId) -> Subject {
    Subject::from_tokens(["cadre", &escape_token(cluster), "actor", &shard.to_string(), ">"])
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.tenant(), self.kind(), self.id())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.tenant(), self.kind(), self.id()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (tenant, kind, id) = <(String, String, String)>::deserialize(deserializer)?;
        Self::new(&tenant, &kind, &id).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shard_of_an_address_never_changes() {
        let address = |id| Address::new("acme", "session", id).unwrap();
        assert_eq!(address("sess_1").shard(256), ShardId(241));
        assert_eq!(address("sess_2").shard(256), ShardId(14));
    }

    #[test]
    fn any_text_survives_the_way_through_a_subject() {
        for id in ["plain", "with.dot", "*", ">", "a b", "=", "ünï", "x=2e"] {
            let address = Address::new("t.1", "kind", id).unwrap();
            let subject = address.subject("c", ShardId(3));
            assert_eq!(subject.tokens().count(), 7);
            assert!(shard_subject("c", ShardId(3)).matches(&subject));
            assert_eq!(Address::from_subject(&subject), Some(address));
        }
    }

    #[test]
    fn parts_that_are_empty_or_too_long_are_refused_by_name() {
        assert_eq!(Address::new("", "k", "i").unwrap_err().part, "tenant");
        assert_eq!(Address::new("t", "k", "x\0y").unwrap_err().part, "id");
        let long = "x".repeat(257);
        assert_eq!(Address::new("t", "k", &long).unwrap_err(), InvalidAddress { part: "id", actual: 257 });
    }
}
