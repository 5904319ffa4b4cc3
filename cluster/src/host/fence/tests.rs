use std::sync::Arc;

use super::*;
use crate::host::testing::{Hooked, take};

#[tokio::test]
async fn p1_what_was_claimed_and_taken_again_before_a_refresh_read_is_not_ours() {
    let hooked = Hooked::new();
    let (me, other) = (hooked.member("me").await, hooked.member("other").await);
    let fence = Arc::new(Fence::new(me.clone(), 0));
    let meanwhile = fence.clone();
    // The refresh has begun and not read yet: we claim a shard, sleep, and it is taken from us.
    hooked.before_read(async move |store: Store| {
        let lease = take(&store, &me, ShardId(3)).await;
        meanwhile.add(ShardId(3), lease.epoch, 0);
        take(&store, &other, ShardId(3)).await;
    });
    fence.refresh(&hooked.store()).await.unwrap();
    assert_eq!(fence.known(), Some(1));
    assert!(!fence.owns(ShardId(3), Epoch(1)));
}

#[tokio::test]
async fn what_is_claimed_after_a_refresh_has_read_stays_ours() {
    let hooked = Hooked::new();
    let me = hooked.member("me").await;
    let fence = Fence::new(me.clone(), 0);
    let old = take(&hooked.sound, &me, ShardId(3)).await;
    // As if the claim had not been committed yet when the refresh read.
    fence.add(ShardId(3), Epoch(old.epoch.0 + 1), 0);
    fence.add(ShardId(4), Epoch(1), 0);
    fence.refresh(&hooked.store()).await.unwrap();
    assert!(fence.owns(ShardId(3), Epoch(2)) && fence.owns(ShardId(4), Epoch(1)));
}

#[tokio::test]
async fn what_was_given_up_is_not_ours() {
    let hooked = Hooked::new();
    let me = hooked.member("me").await;
    let fence = Fence::new(me.clone(), 0);
    let lease = take(&hooked.sound, &me, ShardId(3)).await;
    fence.add(ShardId(3), lease.epoch, 0);
    crate::placement::release(&hooked.sound, &me, &[ShardId(3)]).await.unwrap();
    fence.refresh(&hooked.store()).await.unwrap();
    assert!(!fence.owns(ShardId(3), lease.epoch));
}

#[tokio::test]
async fn p1_what_was_claimed_and_taken_again_before_we_noted_it_is_not_ours() {
    let hooked = Hooked::new();
    let (me, other) = (hooked.member("me").await, hooked.member("other").await);
    let fence = Fence::new(me.clone(), 0);
    // We claim, sleep, and lose it again; somebody refreshes; only then do we note what we had claimed.
    let lease = take(&hooked.sound, &me, ShardId(3)).await;
    take(&hooked.sound, &other, ShardId(3)).await;
    fence.refresh(&hooked.store()).await.unwrap();
    fence.add(ShardId(3), lease.epoch, 0);
    assert_eq!(fence.known(), Some(0), "no commit passes before another refresh");
    fence.refresh(&hooked.store()).await.unwrap();
    assert_eq!(fence.known(), Some(1));
    assert!(!fence.owns(ShardId(3), lease.epoch));
}

#[tokio::test]
async fn a_join_whose_commit_is_not_confirmed_does_not_take_itself_for_another() {
    use std::time::Duration;

    use crate::placement::{Takeover, join};
    let hooked = Hooked::new();
    let former = hooked.member("me").await;
    hooked.after_unconfirmed_commit(async |_: Store| {});
    let ttl = Duration::from_millis(200);
    let joined = join(&hooked.store(), "me", Takeover::AfterWatching, ttl, Default::default()).await.unwrap();
    assert!(joined.member.incarnation > former.incarnation);
}
