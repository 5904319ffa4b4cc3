//! Placement: which node owns which shard.
//!
//! There is no leader and no second consensus: every node reads the same members and leases from the store,
//! computes the same assignment, and takes or gives up its own part of it in transactions. Two facts keep it
//! safe, and neither depends on a clock:
//!
//! - **Fence.** Each life of a member has a fence, a counter in the store. Whoever takes a shard from a member
//!   raises that member's fence in the same transaction, and every commit of the member reads it. So a member
//!   that slept through the taking cannot commit (P1), at the price of one key per group commit rather than
//!   one per shard.
//! - **Observation.** A member is taken for dead when its heartbeat has not changed for a whole lease time on
//!   the observer's own monotonic clock. Clocks of different nodes are never compared.

mod assign;
mod liveness;
mod plan;
mod record;
mod restore;
mod transition;

pub(crate) use transition::read_fence;

pub use assign::assign;
pub use liveness::Liveness;
pub use plan::{Action, View, plan};
pub use record::{ClusterRecord, Epoch, LeaseRecord, MemberId, MemberRecord};
pub use restore::{RestoreError, begin_feed_epoch};
pub use transition::{
    BeatError, ClaimError, Claimed, JoinError, Joined, Takeover, beat, claim, ensure_cluster, join, leave,
    read_view, reclaim, release,
};
