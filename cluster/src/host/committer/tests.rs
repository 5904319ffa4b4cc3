use bytes::Bytes;

use super::*;
use crate::{
    bus::LocalBus,
    host::fair::EqualWeights,
    host::testing::{Hooked, take},
    placement::MemberId,
    store::RangeRead,
};

struct Bench {
    hooked: Hooked,
    me: MemberId,
    fence: Arc<Fence>,
    committer: Committer,
}

const ONE: ShardId = ShardId(1);
const TWO: ShardId = ShardId(2);

impl Bench {
    /// A committer that owns shards one and two.
    async fn new() -> Self {
        let hooked = Hooked::new();
        let me = hooked.member("me").await;
        let fence = Arc::new(Fence::new(me.clone(), 0));
        for shard in [ONE, TWO] {
            fence.add(shard, take(&hooked.sound, &me, shard).await.epoch, 0);
        }
        let (bells, _) = Bells::new("test".into(), Arc::new(LocalBus::new()), Arc::default());
        let limits = GroupLimits { steps: 10, bytes: 1 << 20, in_flight: 1 };
        let (committer, task) =
            committer(hooked.store(), fence.clone(), 1, limits, Arc::new(EqualWeights), bells);
        tokio::spawn(task);
        Self { hooked, me, fence, committer }
    }

    /// A step that appends three events to a feed named after its shard.
    fn submit(&self, shard: ShardId) -> oneshot::Receiver<Result<Placed, StepError>> {
        let event = || (keys::feed_event("t", &shard.to_string(), 1), Bytes::from_static(b"e"));
        let writes: Vec<_> = (0..3).map(|_| Write::Stamped(vec![event()])).collect();
        let (done, settled) = oneshot::channel();
        self.committer.submit(Step {
            owner: None,
            shard,
            epoch: Epoch(1),
            bytes: writes.iter().map(Write::bytes).sum(),
            positions: writes.len(),
            writes,
            inboxes: Vec::new(),
            feed: None,
            done: Done::Waiter(done),
        });
        settled
    }

    /// Where the first event of a shard's feed really is, and how many there are.
    async fn first(&self, shard: ShardId) -> (Placed, usize) {
        let prefix = keys::feed("t", &shard.to_string());
        let tx = self.hooked.sound.begin();
        let page = tx.snapshot_range(&RangeRead::new(KeyRange::prefix(prefix))).await.unwrap();
        let (stamp, base) = keys::stamp_of(&page.pairs[0].key).unwrap();
        (Placed { stamp, base }, page.pairs.len())
    }
}

#[tokio::test]
async fn p2_a_group_that_was_committed_is_answered_so_though_a_shard_of_it_was_taken_before_anybody_knew() {
    let bench = Bench::new().await;
    let other = bench.hooked.member("other").await;
    bench.hooked.after_unconfirmed_commit(async move |store: Store| {
        take(&store, &other, ONE).await;
    });
    let (one, two) = (bench.submit(ONE), bench.submit(TWO));
    for (shard, settled) in [(ONE, one), (TWO, two)] {
        let placed = settled.await.unwrap().unwrap();
        assert_eq!((placed, 3), bench.first(shard).await, "shard {shard}");
    }
    let lost = bench.submit(ONE).await.unwrap();
    assert!(matches!(lost, Err(StepError::Fenced)), "{lost:?}");
    bench.submit(TWO).await.unwrap().unwrap();
    assert_eq!((bench.first(ONE).await.1, bench.first(TWO).await.1), (3, 6));
}

#[tokio::test]
async fn p2_when_another_life_has_removed_the_markers_nobody_claims_to_know() {
    let bench = Bench::new().await;
    let (hooked, name) = (bench.hooked.clone(), bench.me.name.clone());
    bench.hooked.after_unconfirmed_commit(async move |_: Store| {
        hooked.member(&name).await;
    });
    let (one, two) = (bench.submit(ONE), bench.submit(TWO));
    for settled in [one, two] {
        let settled = settled.await.unwrap();
        assert!(matches!(settled, Err(StepError::Failed)), "{settled:?}");
    }
    let after = bench.submit(TWO).await.unwrap();
    assert!(after.is_err(), "{after:?}");
    assert_eq!(bench.first(TWO).await.1, 3);
}

#[tokio::test]
async fn p1_a_step_of_a_shard_that_was_taken_does_not_commit_and_its_neighbours_do() {
    let bench = Bench::new().await;
    let other = bench.hooked.member("other").await;
    take(&bench.hooked.sound, &other, ONE).await;
    assert!(bench.fence.owns(ONE, Epoch(1)), "nobody has told us yet");
    let (one, two) = (bench.submit(ONE), bench.submit(TWO));
    assert!(matches!(one.await.unwrap(), Err(StepError::Fenced)));
    two.await.unwrap().unwrap();
    assert_eq!(bench.first(TWO).await.1, 3);
    assert!(!bench.fence.owns(ONE, Epoch(1)));
}

#[tokio::test]
async fn a_barrier_waits_for_what_was_submitted_before() {
    let bench = Bench::new().await;
    let steps: Vec<_> = (0..30).map(|_| bench.submit(ONE)).collect();
    bench.committer.barrier().await;
    for mut step in steps {
        step.try_recv().expect("it is settled").unwrap();
    }
}
