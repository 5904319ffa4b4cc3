//! Every key of the store, one function per family.
//!
//! Keys are tuples in FoundationDB's encoding, so its tools can read them. The first element says whether a
//! key belongs to the cluster, a shard or a tenant. What one owner scans (inboxes, timers) is ordered by
//! shard; what belongs to a tenant is below that tenant, so that it can be measured and removed as a whole.
//!
//! | key | value | written by |
//! |---|---|---|
//! | `(CLUSTER)` | [`crate::placement::ClusterRecord`] | whoever starts first |
//! | `(MEMBER, name)` | [`crate::placement::MemberRecord`] | that member |
//! | `(LEASE, shard)` | [`crate::placement::LeaseRecord`] | owner and claimant |
//! | `(FENCE, name, incarnation)` | count of takings | who takes a shard from that member |
//! | `(COMMIT, name, incarnation, number)` | stamp of that group commit | that member's committer |
//! | `(SHARD, n, INBOX, tenant, kind, id, stamp)` | message | any sender's step |
//! | `(SHARD, n, TIMER, due, tenant, kind, id, name)` | nothing | the entity's step |
//! | `(SHARD, n, AWAKE, tenant, kind, id)` | nothing | the entity's step, while effects are pending |
//! | `(SHARD, n, EXPIRY, at, tenant, kind, id, stamp)` | idempotency keys that expire then | the entity's step |
//! | `(SHARD, n, LETTER, at, tenant, kind, id, stamp)` | nothing: the dead letter of that stamp expires then | with the letter |
//! | `(TENANT, tenant, STATE, kind, id)` | entity record | the entity's step |
//! | `(TENANT, tenant, IDEMPOTENCY, kind, id, key)` | recorded answer | the entity's step |
//! | `(TENANT, tenant, FEED, feed, epoch, stamp)` | event | any step of that feed |
//! | `(TENANT, tenant, INDEX, feed, index, term, epoch, stamp)` | nothing | with the event |
//! | `(TENANT, tenant, FEED_META, feed)` | how far it is trimmed | trimming |
//! | `(TENANT, tenant, DEAD, kind, id, stamp)` | dead letter | the entity's step |
//! | `(TENANT, tenant, DATA, …)` | the runtime's own records | the entity's step |
//! | `(CLUSTER_DATA, …)` | the runtime's own records that are no tenant's | the runtime |
//! | `(SYSTEM, …)` | the runtime's records that belong to no tenant's data | the control plane |

#[cfg(test)]
mod tests;

use bytes::Bytes;
use foundationdb_tuple::{TuplePack, Versionstamp, pack, unpack};

use crate::{
    address::{Address, ShardId},
    clock::Timestamp,
    store::{KeyRange, Stamp},
};

const CLUSTER: i64 = 1;
const MEMBER: i64 = 2;
const LEASE: i64 = 3;
const FENCE: i64 = 4;
const COMMIT: i64 = 5;
const SHARD: i64 = 6;
const TENANT: i64 = 7;
const CLUSTER_DATA: i64 = 8;
const SYSTEM: i64 = 9;

const INBOX: i64 = 1;
const TIMER: i64 = 2;
const AWAKE: i64 = 3;
const EXPIRY: i64 = 4;
const LETTER: i64 = 5;

const STATE: i64 = 1;
const IDEMPOTENCY: i64 = 2;
const FEED: i64 = 3;
const INDEX: i64 = 4;
const FEED_META: i64 = 5;
const DEAD: i64 = 6;
const DATA: i64 = 7;

/// The tuple layer's type code of a versionstamp: ten bytes of stamp, two of position.
const VERSIONSTAMP_CODE: u8 = 0x33;
/// The length of the encoded versionstamp element.
pub const STAMP_ELEMENT_BYTES: usize = 1 + Stamp::LEN + 2;

/// A key that ends in the stamp of its own commit and a position within it. The committer fills in both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StampedKey {
    bytes: Vec<u8>,
}

impl StampedKey {
    fn after(mut bytes: Vec<u8>) -> Self {
        bytes.push(VERSIONSTAMP_CODE);
        bytes.extend_from_slice(&[0xff; Stamp::LEN + 2]);
        Self { bytes }
    }

    /// The key with its position set, and where the stamp goes.
    pub fn at(mut self, position: u16) -> (Bytes, usize) {
        let offset = self.bytes.len() - Stamp::LEN - 2;
        self.bytes[offset + Stamp::LEN..].copy_from_slice(&position.to_be_bytes());
        (self.bytes.into(), offset)
    }

    /// Its length.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// The stamp and position at the end of a key.
pub fn stamp_of(key: &[u8]) -> Option<(Stamp, u16)> {
    let element = key.get(key.len().checked_sub(STAMP_ELEMENT_BYTES)?..)?;
    if element[0] != VERSIONSTAMP_CODE {
        return None;
    }
    let stamp: [u8; Stamp::LEN] = element[1..=Stamp::LEN].try_into().ok()?;
    let position = u16::from_be_bytes(element[1 + Stamp::LEN..].try_into().ok()?);
    Some((Stamp::from(stamp), position))
}

/// `prefix` followed by a known stamp and position.
pub fn with_stamp(prefix: &[u8], stamp: &Stamp, position: u16) -> Bytes {
    let mut bytes = prefix.to_vec();
    bytes.push(VERSIONSTAMP_CODE);
    bytes.extend_from_slice(stamp.as_bytes());
    bytes.extend_from_slice(&position.to_be_bytes());
    bytes.into()
}

fn key<T: TuplePack>(tuple: &T) -> Bytes {
    pack(tuple).into()
}

/// The cluster's own record.
pub fn cluster() -> Bytes {
    key(&(CLUSTER,))
}

/// A member by name.
pub fn member(name: &str) -> Bytes {
    key(&(MEMBER, name))
}

/// All members.
pub fn members() -> KeyRange {
    KeyRange::prefix(pack(&(MEMBER,)))
}

/// The lease of a shard.
pub fn lease(shard: ShardId) -> Bytes {
    key(&(LEASE, i64::from(shard.0)))
}

/// Whether a key is a lease.
pub fn is_lease(key: &[u8]) -> bool {
    leases().contains(key)
}

/// All leases, in the order of their shards.
pub fn leases() -> KeyRange {
    KeyRange::prefix(pack(&(LEASE,)))
}

/// The fence of one life of a member.
pub fn fence(name: &str, incarnation: u64) -> Bytes {
    key(&(FENCE, name, incarnation))
}

/// The fences of all lives of a member.
pub fn fences(name: &str) -> KeyRange {
    KeyRange::prefix(pack(&(FENCE, name)))
}

/// The fences of all lives of all members.
pub fn all_fences() -> KeyRange {
    KeyRange::prefix(pack(&(FENCE,)))
}

/// The marker of one group commit.
pub fn commit_marker(name: &str, incarnation: u64, number: u64) -> Bytes {
    key(&(COMMIT, name, incarnation, number))
}

/// Whose marker a key is: name and incarnation.
pub fn parse_commit_marker(key: &[u8]) -> Option<(String, u64)> {
    let (family, name, incarnation, _): (i64, String, u64, u64) = unpack(key).ok()?;
    (family == COMMIT).then_some((name, incarnation))
}

/// The markers of all lives of a member.
pub fn commit_markers(name: &str) -> KeyRange {
    KeyRange::prefix(pack(&(COMMIT, name)))
}

/// The markers of all lives of all members.
pub fn all_commit_markers() -> KeyRange {
    KeyRange::prefix(pack(&(COMMIT,)))
}

fn shard_space(shard: ShardId, space: i64) -> Vec<u8> {
    pack(&(SHARD, i64::from(shard.0), space))
}

/// The inboxes of a shard.
pub fn inboxes(shard: ShardId) -> KeyRange {
    KeyRange::prefix(shard_space(shard, INBOX))
}

/// The inbox of one entity: the common start of its messages' keys.
pub fn inbox(shard: ShardId, to: &Address) -> Vec<u8> {
    pack(&(SHARD, i64::from(shard.0), INBOX, to.tenant(), to.kind(), to.id()))
}

/// A new message for an entity.
pub fn inbox_message(shard: ShardId, to: &Address) -> StampedKey {
    StampedKey::after(inbox(shard, to))
}

/// Whose inbox a key is in.
pub fn inbox_owner(key: &[u8]) -> Option<Address> {
    let (_, _, _, tenant, kind, id, _): (i64, i64, i64, String, String, String, Versionstamp) =
        unpack(key).ok()?;
    Address::new(&tenant, &kind, &id).ok()
}

/// A timer.
pub fn timer(shard: ShardId, due: Timestamp, of: &Address, name: &str) -> Bytes {
    key(&(SHARD, i64::from(shard.0), TIMER, due.0, of.tenant(), of.kind(), of.id(), name))
}

/// The timers of a shard that are due by `now`.
pub fn timers_due(shard: ShardId, now: Timestamp) -> KeyRange {
    KeyRange::new(
        shard_space(shard, TIMER),
        pack(&(SHARD, i64::from(shard.0), TIMER, now.0.saturating_add(1))),
    )
}

/// The timers of a shard that are due after `now`.
pub fn timers_after(shard: ShardId, now: Timestamp) -> KeyRange {
    let end = KeyRange::prefix(shard_space(shard, TIMER)).end;
    KeyRange::new(pack(&(SHARD, i64::from(shard.0), TIMER, now.0.saturating_add(1))), end)
}

/// What a timer's key says.
pub fn parse_timer(key: &[u8]) -> Option<(Timestamp, Address, String)> {
    let (_, _, _, due, tenant, kind, id, name): (i64, i64, i64, u64, String, String, String, String) =
        unpack(key).ok()?;
    Some((Timestamp(due), Address::new(&tenant, &kind, &id).ok()?, name))
}

/// Marks an entity that must be active whenever its shard is owned.
pub fn awake(shard: ShardId, of: &Address) -> Bytes {
    key(&(SHARD, i64::from(shard.0), AWAKE, of.tenant(), of.kind(), of.id()))
}

/// All entities of a shard that must be active.
pub fn awakes(shard: ShardId) -> KeyRange {
    KeyRange::prefix(shard_space(shard, AWAKE))
}

/// Whom an awake mark is for.
pub fn parse_awake(key: &[u8]) -> Option<Address> {
    let (_, _, _, tenant, kind, id): (i64, i64, i64, String, String, String) = unpack(key).ok()?;
    Address::new(&tenant, &kind, &id).ok()
}

/// A list of idempotency keys that expire at `at`.
pub fn expiry(shard: ShardId, at: Timestamp, of: &Address) -> StampedKey {
    StampedKey::after(pack(&(SHARD, i64::from(shard.0), EXPIRY, at.0, of.tenant(), of.kind(), of.id())))
}

/// What has expired by `now`.
pub fn expired(shard: ShardId, now: Timestamp) -> KeyRange {
    KeyRange::new(
        shard_space(shard, EXPIRY),
        pack(&(SHARD, i64::from(shard.0), EXPIRY, now.0.saturating_add(1))),
    )
}

/// Whose idempotency keys an expiry list names.
pub fn expiry_owner(key: &[u8]) -> Option<Address> {
    type Parts = (i64, i64, i64, u64, String, String, String, Versionstamp);
    let (_, _, _, _, tenant, kind, id, _): Parts = unpack(key).ok()?;
    Address::new(&tenant, &kind, &id).ok()
}

/// When a new dead letter expires. Written together with the letter, it ends in the same stamp.
pub fn letter_expiry(shard: ShardId, at: Timestamp, of: &Address) -> StampedKey {
    StampedKey::after(pack(&(SHARD, i64::from(shard.0), LETTER, at.0, of.tenant(), of.kind(), of.id())))
}

/// The dead letters that have expired by `now`.
pub fn letters_expired(shard: ShardId, now: Timestamp) -> KeyRange {
    KeyRange::new(
        shard_space(shard, LETTER),
        pack(&(SHARD, i64::from(shard.0), LETTER, now.0.saturating_add(1))),
    )
}

/// The dead letter that an entry of [`letters_expired`] is about.
pub fn expired_letter(key: &[u8]) -> Option<Bytes> {
    let (of, (stamp, position)) = (expiry_owner(key)?, stamp_of(key)?);
    Some(with_stamp(&dead_letters_of(&of), &stamp, position))
}

/// Everything that belongs to any tenant, tenant by tenant.
pub fn tenants() -> KeyRange {
    KeyRange::prefix(pack(&(TENANT,)))
}

/// Everything that belongs to a tenant.
pub fn tenant(tenant: &str) -> KeyRange {
    KeyRange::prefix(pack(&(TENANT, tenant)))
}

/// Whose a key is, if it is a tenant's.
pub fn tenant_of(key: &[u8]) -> Option<String> {
    let rest = key.strip_prefix(&pack(&(TENANT,))[..])?;
    // A text ends with a zero; one within it is followed by 0xff.
    let ends = |at: &usize| rest[*at] == 0 && rest.get(at + 1) != Some(&0xff);
    let end = (0..rest.len()).find(ends)?;
    unpack(&rest[..=end]).map(|(tenant,)| tenant).ok()
}

/// The record of an entity; [`crate::host::read_entity`] reads it.
pub fn state(of: &Address) -> Bytes {
    key(&(TENANT, of.tenant(), STATE, of.kind(), of.id()))
}

/// The records of all entities of a kind.
pub fn states(tenant: &str, kind: &str) -> KeyRange {
    KeyRange::prefix(pack(&(TENANT, tenant, STATE, kind)))
}

/// Whose record a key is.
pub fn parse_state(key: &[u8]) -> Option<Address> {
    let (family, tenant, space, kind, id): (i64, String, i64, String, String) = unpack(key).ok()?;
    if (family, space) != (TENANT, STATE) {
        return None;
    }
    Address::new(&tenant, &kind, &id).ok()
}

/// The answer recorded for an idempotency key.
pub fn idempotency(of: &Address, idempotency_key: &str) -> Bytes {
    key(&(TENANT, of.tenant(), IDEMPOTENCY, of.kind(), of.id(), idempotency_key))
}

/// All recorded answers of a tenant.
pub fn idempotencies(tenant: &str) -> KeyRange {
    KeyRange::prefix(pack(&(TENANT, tenant, IDEMPOTENCY)))
}

/// The events of a feed: the common start of their keys.
pub fn feed(tenant: &str, feed: &str) -> Vec<u8> {
    pack(&(TENANT, tenant, FEED, feed))
}

/// The events that a feed got in one epoch.
pub fn feed_epoch(tenant: &str, feed: &str, epoch: u32) -> Vec<u8> {
    pack(&(TENANT, tenant, FEED, feed, epoch))
}

/// A new event.
pub fn feed_event(tenant: &str, feed: &str, epoch: u32) -> StampedKey {
    StampedKey::after(feed_epoch(tenant, feed, epoch))
}

/// The epoch, stamp and position of an event's key, given the length of its [`feed`] or [`index`] prefix.
pub fn parse_position(key: &[u8], prefix_len: usize) -> Option<(u32, Stamp, u16)> {
    let (epoch, _): (u32, Versionstamp) = unpack(key.get(prefix_len..)?).ok()?;
    let (stamp, position) = stamp_of(key)?;
    Some((epoch, stamp, position))
}

/// The entries of an index term: the common start of their keys.
pub fn index(tenant: &str, feed: &str, index: &str, term: &str) -> Vec<u8> {
    pack(&(TENANT, tenant, INDEX, feed, index, term))
}

/// All index entries of a feed.
pub fn indexes(tenant: &str, feed: &str) -> KeyRange {
    KeyRange::prefix(pack(&(TENANT, tenant, INDEX, feed)))
}

/// A new index entry.
pub fn index_entry(tenant: &str, feed: &str, index: &str, term: &str, epoch: u32) -> StampedKey {
    StampedKey::after(pack(&(TENANT, tenant, INDEX, feed, index, term, epoch)))
}

/// What is known of a feed as a whole.
pub fn feed_meta(tenant: &str, feed: &str) -> Bytes {
    key(&(TENANT, tenant, FEED_META, feed))
}

/// A new dead letter.
pub fn dead_letter(of: &Address) -> StampedKey {
    StampedKey::after(dead_letters_of(of))
}

/// The dead letters of one entity: the common start of their keys.
pub fn dead_letters_of(of: &Address) -> Vec<u8> {
    pack(&(TENANT, of.tenant(), DEAD, of.kind(), of.id()))
}

/// All dead letters of a tenant.
pub fn dead_letters(tenant: &str) -> KeyRange {
    KeyRange::prefix(pack(&(TENANT, tenant, DEAD)))
}

/// Whose a dead letter is.
pub fn dead_letter_owner(key: &[u8]) -> Option<Address> {
    let (_, tenant, _, kind, id, _): (i64, String, i64, String, String, Versionstamp) = unpack(key).ok()?;
    Address::new(&tenant, &kind, &id).ok()
}

/// A record of the runtime's own, `path` being tuple-encoded by it. Written through
/// [`crate::host::Decision::set_record`] and its like.
pub fn data(tenant: &str, path: &[u8]) -> Bytes {
    [&data_space(tenant)[..], path].concat().into()
}

/// All such records whose path starts with `path_prefix`; with an empty one, all of the tenant. Bytes are compared: a
/// prefix of whole tuple elements has exactly the paths below it.
pub fn data_range(tenant: &str, path_prefix: &[u8]) -> KeyRange {
    KeyRange::prefix([&data_space(tenant)[..], path_prefix].concat())
}

/// The path of such a record of this tenant; `None` for any other key.
pub fn data_path<'a>(key: &'a [u8], tenant: &str) -> Option<&'a [u8]> {
    key.strip_prefix(&data_space(tenant)[..])
}

/// A record of the runtime's own that is no tenant's, `path` being tuple-encoded by it.
pub fn cluster_data(path: &[u8]) -> Bytes {
    [&pack(&(CLUSTER_DATA,))[..], path].concat().into()
}

/// All such records whose path starts with `path_prefix`.
pub fn cluster_data_range(path_prefix: &[u8]) -> KeyRange {
    KeyRange::prefix(cluster_data(path_prefix).to_vec())
}

/// A record of the runtime's own that is no tenant's: who the tenants are, for one. `path` is tuple-encoded by the runtime.
pub fn system(path: &[u8]) -> Bytes {
    [&pack(&(SYSTEM,))[..], path].concat().into()
}

/// All such records whose path starts with `path_prefix`; with an empty one, all.
pub fn system_range(path_prefix: &[u8]) -> KeyRange {
    KeyRange::prefix([&pack(&(SYSTEM,))[..], path_prefix].concat())
}

/// The path of such a record; `None` for any other key.
pub fn system_path(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&pack(&(SYSTEM,))[..])
}

fn data_space(tenant: &str) -> Vec<u8> {
    pack(&(TENANT, tenant, DATA))
}
