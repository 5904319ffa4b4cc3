//! The transactions of placement. Each may be run again: it looks before it writes.

use std::{collections::BTreeMap, time::Duration};

use futures::future::try_join_all;

use super::{ClusterRecord, Epoch, LeaseRecord, MemberId, MemberRecord, View, plan::Action};
use crate::{
    address::{Address, ShardId},
    clock::Timestamp,
    codec::{self, DecodeError, Stored},
    keys,
    store::{Attempt, CommitError, KeyRange, RangeRead, ReadError, Store, Transaction},
};

/// Why a node could not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Another node with this name is alive.
    #[error("a node named {name} is alive in this cluster; give this one another name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The cluster was created with another number of shards.
    #[error(
        "the stored cluster {cluster} has {stored} shards, the configuration says {configured}; set it to {stored}"
    )]
    ShardCount {
        /// The cluster.
        cluster: String,
        /// What is stored.
        stored: u16,
        /// What was asked for.
        configured: u16,
    },
    /// Correct the configuration.
    #[error("a cluster has at least one shard; the configuration says 0")]
    NoShards,
    /// Correct the configuration.
    #[error("a node's name is 1 to {max} bytes without control characters; {name:?} is not", max = Address::PART_BYTES_MAX)]
    Name {
        /// The name.
        name: String,
    },
    /// There is no cluster to join yet: [`ensure_cluster`] comes first.
    #[error("the store holds no cluster")]
    NoCluster,
    /// The store belongs to another cluster.
    #[error("the store holds the cluster {stored}, the configuration says {configured}")]
    ClusterName {
        /// What is stored.
        stored: String,
        /// What was asked for.
        configured: String,
    },
    /// Something stored is not readable by this binary.
    #[error("cannot read the stored cluster")]
    Decode(#[from] DecodeError),
    /// The store did not answer.
    #[error("cannot join through the store")]
    Store(#[from] CommitError),
}

impl From<ReadError> for JoinError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.into())
    }
}

/// Creates the cluster record, or checks that the stored one is the same cluster.
pub async fn ensure_cluster(
    store: &Store,
    name: &str,
    shards: u16,
    now: Timestamp,
) -> Result<ClusterRecord, JoinError> {
    if shards == 0 {
        return Err(JoinError::NoShards);
    }
    let mut attempt = Attempt::idempotent();
    let record = loop {
        match try_ensure_cluster(store, name, shards, now).await {
            Ok(record) => break record,
            Err(JoinError::Store(error)) => attempt.again(error).await?,
            Err(error) => return Err(error),
        }
    };
    if record.name != name {
        return Err(JoinError::ClusterName { stored: record.name, configured: name.into() });
    }
    if record.shards != shards {
        return Err(JoinError::ShardCount {
            cluster: name.into(),
            stored: record.shards,
            configured: shards,
        });
    }
    Ok(record)
}

async fn try_ensure_cluster(
    store: &Store,
    name: &str,
    shards: u16,
    now: Timestamp,
) -> Result<ClusterRecord, JoinError> {
    let mut tx = store.begin();
    if let Some(bytes) = tx.get(&keys::cluster()).await? {
        return Ok(codec::decode(&bytes)?);
    }
    let record = ClusterRecord { name: name.into(), shards, feed_epoch: 1, created: now };
    tx.set(keys::cluster(), codec::encode(&record));
    tx.commit().await?;
    Ok(record)
}

/// What to do about a record that a former life left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// Watch for a lease time whether it still beats.
    AfterWatching,
    /// Nobody else can be running on this store: replace it at once.
    AtOnce,
}

/// The result of joining.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// Who we are.
    pub member: MemberId,
    /// The fence as we left it.
    pub fence: u64,
    /// The epoch that this life gives to feed events. Whoever begins the next one ends this life.
    pub feed_epoch: u32,
}

/// Joins under a name, as a new life of it.
pub async fn join(
    store: &Store,
    name: &str,
    takeover: Takeover,
    ttl: Duration,
    now: Timestamp,
) -> Result<Joined, JoinError> {
    if name.is_empty() || name.len() > Address::PART_BYTES_MAX || name.contains(char::is_control) {
        return Err(JoinError::Name { name: name.into() });
    }
    let mut watched: Option<(MemberRecord, tokio::time::Instant)> = None;
    let mut attempt = Attempt::idempotent();
    loop {
        let may_replace = |record: &MemberRecord| match (takeover, &watched) {
            (Takeover::AtOnce, _) => true,
            (_, Some((before, since))) => before == record && since.elapsed() >= ttl,
            _ => false,
        };
        match try_join(store, name, may_replace, now).await {
            Ok(Ok(joined)) => return Ok(joined),
            Ok(Err(found)) => {
                match &watched {
                    Some((before, _)) if *before != found => {
                        return Err(JoinError::NameTaken { name: name.into() });
                    }
                    Some(_) => {}
                    None => watched = Some((found, tokio::time::Instant::now())),
                }
                tokio::time::sleep(ttl / 8).await;
            }
            Err(JoinError::Store(error)) => {
                // What is found next may be our own record, from a commit whose outcome is not known.
                watched = watched.filter(|_| !matches!(error, CommitError::OutcomeUnknown));
                attempt.again(error).await?;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn try_join(
    store: &Store,
    name: &str,
    may_replace: impl Fn(&MemberRecord) -> bool,
    now: Timestamp,
) -> Result<Result<Joined, MemberRecord>, JoinError> {
    let mut tx = store.begin();
    let cluster = tx.get(&keys::cluster()).await?.ok_or(JoinError::NoCluster)?;
    let cluster: ClusterRecord = codec::decode(&cluster)?;
    let found = tx.get(&keys::member(name)).await?;
    let found = found.map(|bytes| codec::decode::<MemberRecord>(&bytes)).transpose()?;
    if let Some(record) = &found
        && !may_replace(record)
    {
        return Ok(Err(record.clone()));
    }
    // Incarnations grow also across a clean leave, which removes the record: the fences remember.
    let last = RangeRead::new(keys::fences(name)).limit(1).reverse();
    let fenced = tx.range(&last).await?.pairs.first().map(|pair| codec::decode::<FenceRecord>(&pair.value));
    let fenced = fenced.transpose()?.map_or(0, |fence| fence.incarnation);
    let last = fenced.max(found.map_or(0, |record| record.incarnation));
    let incarnation = 1 + last.max(cluster.incarnation_min());
    let member = MemberId { name: name.into(), incarnation };
    // A former life whose fence is gone can commit nothing more, so its markers are not needed either.
    tx.clear_range(keys::fences(name));
    tx.clear_range(keys::commit_markers(name));
    tx.set(keys::fence(name, incarnation), codec::encode(&FenceRecord { incarnation, takings: 0 }));
    let record = MemberRecord { incarnation, beat: 0, draining: false, joined: now };
    tx.set(keys::member(name), codec::encode(&record));
    tx.commit().await?;
    Ok(Ok(Joined { member, fence: 0, feed_epoch: cluster.feed_epoch }))
}

/// The value of a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct FenceRecord {
    incarnation: u64,
    takings: u64,
}

impl Stored for FenceRecord {
    const NAME: &'static str = "fence";
    const VERSION: u8 = 1;
}

/// How often something was taken from this life of a member; `None` when its time is over.
pub(crate) async fn read_fence(tx: &Transaction, me: &MemberId) -> Result<Option<u64>, ReadError> {
    let bytes = tx.get(&keys::fence(&me.name, me.incarnation)).await?;
    Ok(bytes.and_then(|bytes| codec::decode::<FenceRecord>(&bytes).ok()).map(|fence| fence.takings))
}

/// Makes every commit of this life that has not happened yet look at its leases again.
async fn raise_fence(tx: &mut Transaction, of: &MemberId) -> Result<(), ReadError> {
    // A fence that is gone fences already.
    if let Some(takings) = read_fence(tx, of).await? {
        let raised = FenceRecord { incarnation: of.incarnation, takings: takings + 1 };
        tx.set(keys::fence(&of.name, of.incarnation), codec::encode(&raised));
    }
    Ok(())
}

/// Takes a shard of our own once more, with a new epoch: nothing that was begun before counts any longer.
pub async fn reclaim(store: &Store, me: &MemberId, seen: &LeaseRecord) -> Result<Claimed, ClaimError> {
    let mut tx = store.begin();
    let fence = read_fence(&tx, me).await?.ok_or(ClaimError::Changed { shard: seen.shard })?;
    let current = read::<LeaseRecord>(&tx, &keys::lease(seen.shard)).await?;
    if current.as_ref() != Some(seen) {
        return Err(ClaimError::Changed { shard: seen.shard });
    }
    let lease = LeaseRecord { epoch: Epoch(seen.epoch.0 + 1), ..seen.clone() };
    tx.set(keys::lease(lease.shard), codec::encode(&lease));
    tx.commit().await?;
    Ok(Claimed { leases: vec![lease], fence })
}

/// Members and leases, at one version.
pub async fn read_view(tx: &Transaction) -> Result<View, CommitError> {
    let mut view = View::default();
    for pair in read_all(tx, keys::members()).await? {
        let record = codec::decode::<MemberRecord>(&pair.value).map_err(failed)?;
        let (_, name): (i64, String) = foundationdb_tuple::unpack(&pair.key).map_err(failed)?;
        view.members.insert(name, record);
    }
    for pair in read_all(tx, keys::leases()).await? {
        let lease = codec::decode::<LeaseRecord>(&pair.value).map_err(failed)?;
        view.leases.insert(lease.shard, lease);
    }
    Ok(view)
}

async fn read_all(tx: &Transaction, range: KeyRange) -> Result<Vec<crate::store::KeyValue>, ReadError> {
    use futures::TryStreamExt;
    tx.snapshot_stream(RangeRead::new(range).limit(usize::MAX)).try_collect().await
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> CommitError {
    CommitError::Failed(std::sync::Arc::new(error))
}

/// Why a heartbeat was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum BeatError {
    /// Another life has this name now, or somebody removed it: stop.
    #[error("{me} is no longer a member: another node took its name, or it was removed")]
    Superseded {
        /// Who is over.
        me: MemberId,
    },
    /// The store did not answer.
    #[error("cannot write a heartbeat")]
    Store(#[from] CommitError),
}

/// Shows that this life goes on.
pub async fn beat(store: &Store, me: &MemberId, draining: bool) -> Result<(), BeatError> {
    let mut tx = store.begin();
    let record = read::<MemberRecord>(&tx, &keys::member(&me.name)).await?;
    let Some(record) = record.filter(|record| record.incarnation == me.incarnation) else {
        return Err(BeatError::Superseded { me: me.clone() });
    };
    let next = MemberRecord { beat: record.beat + 1, draining, ..record };
    tx.set(keys::member(&me.name), codec::encode(&next));
    tx.commit().await?;
    Ok(())
}

/// Leaves for good. Its leases, if it still has any, are free from then on.
pub async fn leave(store: &Store, me: &MemberId) -> Result<(), CommitError> {
    let mut attempt = Attempt::idempotent();
    while let Err(error) = try_leave(store, me).await {
        attempt.again(error).await?;
    }
    Ok(())
}

async fn try_leave(store: &Store, me: &MemberId) -> Result<(), CommitError> {
    let mut tx = store.begin();
    let record = read::<MemberRecord>(&tx, &keys::member(&me.name)).await?;
    if record.is_some_and(|record| record.incarnation == me.incarnation) {
        tx.clear(keys::member(&me.name));
        tx.clear_range(keys::commit_markers(&me.name));
        tx.commit().await?;
    }
    Ok(())
}

/// Why shards could not be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Look again: somebody was faster, or the owner showed a sign of life.
    #[error("the lease of shard {shard} has changed")]
    Changed {
        /// The shard.
        shard: ShardId,
    },
    /// The store did not answer, or the outcome is unknown: look again.
    #[error("cannot claim shards")]
    Store(#[from] CommitError),
}

impl From<ReadError> for ClaimError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.into())
    }
}

/// Shards that were taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Their leases.
    pub leases: Vec<LeaseRecord>,
    /// Our own fence when they were. One that has moved since may mean that they were taken from us already.
    pub fence: u64,
}

/// Takes shards, all or none. `view` is what the claims were planned on: an owner who has shown a sign of life
/// since then keeps its shards.
pub async fn claim(
    store: &Store,
    me: &MemberId,
    claims: &[Action],
    view: &View,
) -> Result<Claimed, ClaimError> {
    let mut tx = store.begin();
    let planned: Vec<_> = claims
        .iter()
        .filter_map(|action| match action {
            Action::Claim { shard, seen } => Some((*shard, seen.as_ref())),
            Action::Release { .. } => None,
        })
        .collect();
    let Some((first, _)) = planned.first() else { return Ok(Claimed { leases: Vec::new(), fence: 0 }) };
    let fence = read_fence(&tx, me).await?.ok_or(ClaimError::Changed { shard: *first })?;
    let leases = read_leases(&tx, planned.iter().map(|(shard, _)| *shard)).await?;
    let mut losers: BTreeMap<&MemberId, ShardId> = BTreeMap::new();
    let mut taken = Vec::with_capacity(planned.len());
    for ((shard, seen), current) in planned.into_iter().zip(leases) {
        if current.as_ref() != seen {
            return Err(ClaimError::Changed { shard });
        }
        if let Some(owner) = seen.and_then(|lease| lease.owner.as_ref()) {
            losers.entry(owner).or_insert(shard);
        }
        let epoch = Epoch(seen.map_or(0, |lease| lease.epoch.0) + 1);
        taken.push(LeaseRecord { shard, epoch, owner: Some(me.clone()) });
    }
    for (loser, shard) in losers {
        let record = view.members.get(&loser.name);
        // A life whose name another one has is over for good, and that one's heartbeats say nothing about it. Of any
        // other, a heartbeat between our look and now means that it lives.
        if record.is_none_or(|record| record.incarnation == loser.incarnation)
            && read::<MemberRecord>(&tx, &keys::member(&loser.name)).await?.as_ref() != record
        {
            return Err(ClaimError::Changed { shard });
        }
        raise_fence(&mut tx, loser).await?;
    }
    for lease in &taken {
        tx.set(keys::lease(lease.shard), codec::encode(lease));
    }
    tx.commit().await?;
    Ok(Claimed { leases: taken, fence })
}

/// The leases of these shards, read side by side: one after the other would take a slow store longer than a lease
/// lasts.
async fn read_leases(
    tx: &Transaction,
    shards: impl IntoIterator<Item = ShardId>,
) -> Result<Vec<Option<LeaseRecord>>, CommitError> {
    try_join_all(shards.into_iter().map(|shard| async move { read(tx, &keys::lease(shard)).await })).await
}

async fn read<T: Stored>(tx: &Transaction, key: &[u8]) -> Result<Option<T>, CommitError> {
    let bytes = tx.get(key).await?;
    bytes.map(|bytes| codec::decode(&bytes)).transpose().map_err(failed)
}

/// Gives up shards, those of them that are still ours. The caller has drained them: nothing it began for them is
/// still on its way.
///
/// A release may arrive late, after its sender has given up on it and serves the shards again. So it raises the
/// sender's own fence, as a taking would.
pub async fn release(store: &Store, me: &MemberId, shards: &[ShardId]) -> Result<(), CommitError> {
    let mut tx = store.begin();
    raise_fence(&mut tx, me).await?;
    for lease in read_leases(&tx, shards.iter().copied()).await?.into_iter().flatten() {
        if lease.owner.as_ref() == Some(me) {
            tx.set(keys::lease(lease.shard), codec::encode(&LeaseRecord { owner: None, ..lease }));
        }
    }
    tx.commit().await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        sim::{Dice, Lifeline},
        store::simulated::SimStore,
    };

    const TTL: Duration = Duration::from_secs(2);
    const SHARD: ShardId = ShardId(0);

    async fn join_at_once(store: &Store) -> MemberId {
        ensure_cluster(store, "test", 1, Timestamp::default()).await.expect("nothing hinders it");
        let joined = join(store, "a", Takeover::AtOnce, TTL, Timestamp::default()).await;
        joined.expect("nothing hinders it").member
    }

    async fn claim_what_is_seen(store: &Store, me: &MemberId, view: &View) -> Result<(), ClaimError> {
        let seen = view.leases.get(&SHARD).cloned();
        claim(store, me, &[Action::Claim { shard: SHARD, seen }], view).await.map(drop)
    }

    #[tokio::test(start_paused = true)]
    async fn own_heartbeats_do_not_keep_a_member_from_what_its_former_life_had() {
        let store = SimStore::new(Dice::new(1)).connect(Lifeline::new("a"));
        let former = join_at_once(&store).await;
        claim_what_is_seen(&store, &former, &View::default()).await.unwrap();
        let me = join_at_once(&store).await;
        let view = read_view(&store.begin()).await.unwrap();
        beat(&store, &me, false).await.unwrap();
        claim_what_is_seen(&store, &me, &view).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_that_beats_after_the_look_keeps_its_shards() {
        let store = SimStore::new(Dice::new(1)).connect(Lifeline::new("a"));
        let owner = join_at_once(&store).await;
        claim_what_is_seen(&store, &owner, &View::default()).await.unwrap();
        let view = read_view(&store.begin()).await.unwrap();
        beat(&store, &owner, false).await.unwrap();
        let other = MemberId { name: "b".into(), incarnation: 1 };
        let refused = claim_what_is_seen(&store, &other, &view).await;
        assert!(matches!(refused, Err(ClaimError::Changed { shard: SHARD })), "{refused:?}");
    }

    #[test]
    fn a_stored_fence_never_changes_its_layout() {
        codec::golden::hold(&FenceRecord { incarnation: 3, takings: 258 }, "019203cd0102");
    }
}
