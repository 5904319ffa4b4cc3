//! What placement keeps in the store.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{address::ShardId, clock::Timestamp, codec::Stored};

/// How often a shard has changed hands. The owner's number is the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What was decided when the cluster was created. Stored under [`crate::keys::cluster`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Its name.
    pub name: String,
    /// Into how many shards it is divided. Never changes.
    pub shards: u16,
    /// Raised when the cluster is restored from a backup: see [`super::begin_feed_epoch`].
    pub feed_epoch: u32,
    /// When it was created.
    pub created: Timestamp,
}

impl ClusterRecord {
    /// Larger than the incarnation of any life that began in an earlier feed epoch. A restored store does not know
    /// all of those, and some may still run.
    pub(super) fn incarnation_min(&self) -> u64 {
        u64::from(self.feed_epoch.saturating_sub(1)) << 32
    }
}

impl Stored for ClusterRecord {
    const NAME: &'static str = "cluster record";
    const VERSION: u8 = 1;
}

/// One life of a member: a node that restarts under its old name is somebody else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberId {
    /// The node's name.
    pub name: String,
    /// Which life.
    pub incarnation: u64,
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.name, self.incarnation)
    }
}

/// A member's sign of life. Stored under [`crate::keys::member`], removed when it leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Which life.
    pub incarnation: u64,
    /// Counts heartbeats. Only that it changes matters.
    pub beat: u64,
    /// Whether it is giving its shards away.
    pub draining: bool,
    /// When it joined, for people.
    pub joined: Timestamp,
}

impl Stored for MemberRecord {
    const NAME: &'static str = "member record";
    const VERSION: u8 = 1;
}

/// Who owns a shard. Stored under [`crate::keys::lease`], kept for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The shard, also in the key.
    pub shard: ShardId,
    /// How often it was claimed.
    pub epoch: Epoch,
    /// `None` once it was given up.
    pub owner: Option<MemberId>,
}

impl Stored for LeaseRecord {
    const NAME: &'static str = "lease";
    const VERSION: u8 = 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::golden::hold;

    #[test]
    fn stored_placement_never_changes_its_layout() {
        let created = Timestamp(1_700_000_000_000);
        hold(
            &ClusterRecord { name: "prod".into(), shards: 256, feed_epoch: 1, created },
            "0194a470726f64cd010001cf0000018bcfe56800",
        );
        hold(
            &MemberRecord { incarnation: 7, beat: 300, draining: true, joined: created },
            "019407cd012cc3cf0000018bcfe56800",
        );
        let owner = Some(MemberId { name: "node-1".into(), incarnation: 7 });
        hold(&LeaseRecord { shard: ShardId(200), epoch: Epoch(9), owner }, "0193ccc80992a66e6f64652d3107");
        hold(&LeaseRecord { shard: ShardId(1), epoch: Epoch(9), owner: None }, "01930109c0");
    }
}
