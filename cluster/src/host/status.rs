//! What a node is doing, and whether it should be given work.
//!
//! Health is applied progress, not a role held: a node that owns a shard and does not get its inputs applied is not
//! ready, however regularly its heart beats.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    address::{Address, ShardId},
    clock::Timestamp,
    placement::{Epoch, MemberId},
};

/// What a node is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Who it is.
    pub member: MemberId,
    /// The shards it serves.
    pub shards: BTreeMap<ShardId, ShardStatus>,
    /// Entities in memory.
    pub entities_live: usize,
    /// Inputs that wait.
    pub inputs_waiting: usize,
    /// How long ago it last read members and leases; `None` if it never could.
    pub placement_seen: Option<Duration>,
    /// How long ago it began the last heartbeat that was accepted.
    pub beaten: Duration,
    /// Whether it hands over and leaves.
    pub draining: bool,
    /// Whether another life has taken its name: it serves nothing any more.
    pub superseded: bool,
}

/// How a shard gets on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardStatus {
    /// Under which epoch it is served.
    pub epoch: Epoch,
    /// Whether all that its last owner left has been found and taken up.
    pub caught_up: bool,
    /// How long ago it could last look for work.
    pub looked: Duration,
    /// How many entities had messages waiting when it last looked.
    pub inboxes: usize,
    /// The input in the store that has waited longest for this owner.
    pub oldest: Option<Waiting>,
}

/// An input that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// For whom.
    pub address: Address,
    /// How long, since this node has owned it.
    pub waited: Duration,
}

/// Why a node should not be given work now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// Another life has its name.
    #[error("another node has the name {member}")]
    Superseded {
        /// Who is over.
        member: MemberId,
    },
    /// It hands over and leaves.
    #[error("the node is draining")]
    Draining,
    /// It cannot see the cluster, and so not what it should do.
    #[error("members and leases could not be read for too long")]
    Lost,
    /// It cannot write, not even a heartbeat: the others may take its shards, if they can.
    #[error("no heartbeat was accepted for {} ms", .beaten.as_millis())]
    Silent {
        /// How long.
        beaten: Duration,
    },
    /// It has taken shards and not yet taken up what was left there.
    #[error("shard {shard} is catching up")]
    CatchingUp {
        /// One of them.
        shard: ShardId,
    },
    /// It cannot see what waits.
    #[error("shard {shard} could not look for work for {} ms", .looked.as_millis())]
    Blind {
        /// The shard.
        shard: ShardId,
        /// How long.
        looked: Duration,
    },
    /// It sees what waits, and it goes on waiting.
    #[error("shard {shard} does not progress: {waiting}")]
    Stalled {
        /// The shard.
        shard: ShardId,
        /// What waits there.
        waiting: Waiting,
    },
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an input of {} has waited for {} ms", self.address, self.waited.as_millis())
    }
}

impl NodeStatus {
    /// Whether the node should be given work: it has caught up, and nothing has waited longer than `patience`.
    pub fn check(&self, patience: Duration) -> Result<(), NotReady> {
        if self.superseded {
            return Err(NotReady::Superseded { member: self.member.clone() });
        }
        if self.draining {
            return Err(NotReady::Draining);
        }
        if self.placement_seen.is_none_or(|seen| seen > patience) {
            return Err(NotReady::Lost);
        }
        for (shard, status) in &self.shards {
            let shard = *shard;
            if status.looked > patience {
                return Err(NotReady::Blind { shard, looked: status.looked });
            }
            if !status.caught_up {
                return Err(NotReady::CatchingUp { shard });
            }
            if let Some(waiting) = status.oldest.as_ref().filter(|waiting| waiting.waited > patience) {
                return Err(NotReady::Stalled { shard, waiting: waiting.clone() });
            }
        }
        if self.beaten > patience {
            return Err(NotReady::Silent { beaten: self.beaten });
        }
        Ok(())
    }
}

/// How a shard gets on, as its actor sees it and its node tells it.
#[derive(Debug)]
pub(super) struct Progress {
    began: Instant,
    seen: Mutex<Seen>,
}

#[derive(Debug)]
struct Seen {
    looked: Instant,
    caught_up: bool,
    inboxes: usize,
    oldest: Option<Waiting>,
}

impl Progress {
    pub fn new() -> Self {
        let began = Instant::now();
        Self { began, seen: Mutex::new(Seen { looked: began, caught_up: false, inboxes: 0, oldest: None }) }
    }

    /// A look has succeeded, and all that it found was announced. `all`: there was no more than that. `oldest` is what
    /// it found that has waited longest, and since when.
    pub fn looked(&self, all: bool, inboxes: usize, oldest: Option<(Address, Timestamp)>, now: Timestamp) {
        let owned = self.began.elapsed();
        let waiting =
            |(address, since): (_, Timestamp)| Waiting { address, waited: since.until(now).min(owned) };
        let mut seen = self.seen();
        seen.looked = Instant::now();
        seen.caught_up |= all;
        seen.inboxes = inboxes;
        seen.oldest = oldest.map(waiting);
    }

    pub fn status(&self, epoch: Epoch) -> ShardStatus {
        let seen = self.seen();
        ShardStatus {
            epoch,
            caught_up: seen.caught_up,
            looked: seen.looked.elapsed(),
            inboxes: seen.inboxes,
            oldest: seen.oldest.clone(),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
