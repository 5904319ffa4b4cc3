//! What a cluster needs after its store was restored from a backup.
//!
//! Clients hold cursors that were handed out after the backup was taken. The restored store has not seen them
//! and counts its versions from an earlier one, so new events would sort before those cursors and stay hidden
//! from their holders. A new feed epoch puts every new event behind every cursor ever handed out (P4).

use super::ClusterRecord;
use crate::{
    clock::Timestamp,
    codec::{self, DecodeError},
    keys,
    store::{Attempt, CommitError, ReadError, Store},
};

/// Why no feed epoch could be begun.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// No node ever started on this store. Nothing was changed.
    #[error("the store holds no cluster; is it the restored one?")]
    NoCluster,
    /// Something stored is not readable by this binary.
    #[error("cannot read the stored cluster")]
    Decode(#[from] DecodeError),
    /// The store did not answer, or the outcome is unknown: do it again.
    #[error("cannot begin a feed epoch")]
    Store(#[from] CommitError),
}

impl From<ReadError> for RestoreError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.into())
    }
}

/// Begins a new feed epoch, and says which. To be done after a restore, before any node starts.
///
/// The same transaction ends every life of every member, so that a node which still runs commits nothing more,
/// least of all under the old epoch; its leases are free because their owner is gone. To do it twice, also because
/// the first outcome was not known, is harmless: an epoch without events costs nothing.
///
/// The epoch is at least the time in seconds. One more than the stored epoch would be the same number each time
/// the same backup is restored, and cursors of the first such epoch would hide events of the second. Only there
/// does it depend on a clock, which must not be behind that of the restore before.
pub async fn begin_feed_epoch(store: &Store, now: Timestamp) -> Result<u32, RestoreError> {
    let mut attempt = Attempt::idempotent();
    loop {
        match try_begin_feed_epoch(store, now).await {
            Ok(epoch) => return Ok(epoch),
            Err(RestoreError::Store(error)) => attempt.again(error).await?,
            Err(error) => return Err(error),
        }
    }
}

async fn try_begin_feed_epoch(store: &Store, now: Timestamp) -> Result<u32, RestoreError> {
    let mut tx = store.begin();
    let bytes = tx.get(&keys::cluster()).await?.ok_or(RestoreError::NoCluster)?;
    let record: ClusterRecord = codec::decode(&bytes)?;
    // A clock that is beyond all reason is not believed.
    let seconds = u32::try_from(now.0 / 1_000).unwrap_or(0);
    let next = record.feed_epoch.checked_add(1).expect("there are fewer restores than a u32 counts");
    let feed_epoch = next.max(seconds);
    tx.set(keys::cluster(), codec::encode(&ClusterRecord { feed_epoch, ..record }));
    for range in [keys::members(), keys::all_fences(), keys::all_commit_markers()] {
        tx.clear_range(range);
    }
    tx.commit().await?;
    Ok(feed_epoch)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::{
        placement::{Joined, Takeover, ensure_cluster, join},
        store::embedded::{Embedded, EmbeddedConfig},
    };

    fn empty() -> (Store, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let config = EmbeddedConfig { reserve_bytes: 1 << 20, ..EmbeddedConfig::new(folder.path()) };
        (Embedded::open(config).unwrap().store(), folder)
    }

    async fn joined(store: &Store, name: &str) -> Joined {
        ensure_cluster(store, "test", 8, Default::default()).await.unwrap();
        join(store, name, Takeover::AtOnce, Duration::ZERO, Default::default()).await.unwrap()
    }

    #[tokio::test]
    async fn p1_a_life_of_an_earlier_feed_epoch_is_never_lived_again() {
        let (store, _folder) = empty();
        let mut last = joined(&store, "a").await.member.incarnation;
        for now in [0, 1_800_000_000_000, u64::MAX] {
            begin_feed_epoch(&store, Timestamp(now)).await.unwrap();
            // As many as may have begun after the backup was taken, of which nothing in the store knows.
            let unknown = last + 1_000_000;
            last = joined(&store, "a").await.member.incarnation;
            assert!(last > unknown, "{last}");
        }
    }

    #[tokio::test]
    async fn whoever_joins_after_a_feed_epoch_began_appends_in_it() {
        let (store, _folder) = empty();
        assert_eq!(joined(&store, "a").await.feed_epoch, 1);
        let epoch = begin_feed_epoch(&store, Timestamp(5_000)).await.unwrap();
        assert_eq!(joined(&store, "b").await.feed_epoch, epoch);
    }

    #[tokio::test]
    async fn feed_epochs_rise_with_the_clock_and_also_without_it() {
        let (store, _folder) = empty();
        let begun = begin_feed_epoch(&store, Timestamp(0)).await;
        assert!(matches!(begun, Err(RestoreError::NoCluster)), "{begun:?}");
        joined(&store, "a").await;
        for (now, epoch) in [(0, 2), (9_999, 9), (9_999, 10), (1_000, 11), (u64::MAX, 12)] {
            assert_eq!(begin_feed_epoch(&store, Timestamp(now)).await.unwrap(), epoch);
        }
    }
}
