use std::sync::atomic::{AtomicU64, Ordering};

use cadre_cluster::store::{
    RangeRead,
    embedded::{Embedded, EmbeddedConfig},
};
use futures::poll;

use super::*;

const TENANT: &str = "acme";
const TTL: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Hand(AtomicU64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000 + self.0.load(Ordering::SeqCst))
    }
}

struct World {
    blobs: Blobs,
    hand: Arc<Hand>,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = EmbeddedConfig { reserve_bytes: 1 << 20, ..EmbeddedConfig::new(folder.path()) };
        let hand = Arc::new(Hand::default());
        let store = Embedded::open(config).unwrap().store();
        Self { blobs: Blobs::new(store, hand.clone(), TTL), hand, _folder: folder }
    }

    fn pass(&self, time: Duration) {
        self.hand.0.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }

    /// How many keys of the tenant are left.
    async fn left(&self) -> usize {
        let read = RangeRead::new(keys::data_range(TENANT, &[])).limit(10_000);
        self.blobs.store.begin().snapshot_range(&read).await.unwrap().pairs.len()
    }

    async fn due(&self) -> Vec<Due> {
        self.blobs.due(TENANT, None, 100).await.unwrap()
    }
}

fn new(bytes: usize) -> NewBlob {
    let session = SessionId::parse("sess_1").unwrap();
    let content = (0..bytes).map(|at| at as u8).collect::<Vec<_>>().into();
    NewBlob {
        blob: BlobRef::parse("blob_1").unwrap(),
        media_type: "text/plain".into(),
        session: Some(session),
        content,
    }
}

/// More than one transaction of pieces, and more than one of removal.
const LARGE: usize = 17 * 1024 * 1024;

#[tokio::test]
async fn a_blob_is_there_until_its_time_then_says_so_then_leaves_nothing() {
    let world = World::new();
    for bytes in [0, 10, 200_000, LARGE] {
        let (meta, content) = (world.blobs.write(TENANT, new(bytes)).await.unwrap(), new(bytes).content);
        let blob = new(0).blob;
        world.pass(TTL - Duration::from_millis(1));
        assert_eq!(world.blobs.read_all(TENANT, &blob).await.unwrap(), (content, meta.clone()));
        assert_eq!(world.due().await, []);
        world.pass(Duration::from_millis(1));
        let due = world.due().await;
        assert_eq!(due, [Due { at: meta.expires, blob: blob.clone() }]);
        assert_eq!(world.blobs.due(TENANT, Some(&due[0]), 100).await.unwrap(), []);
        assert_eq!(world.blobs.due("acme2", None, 100).await.unwrap(), []);
        let expired = |error: BlobError| matches!(error, BlobError::Expired { at, .. } if at == meta.expires);
        assert!(expired(world.blobs.meta(TENANT, &blob).await.unwrap_err()));
        let claimed = world.blobs.claim(TENANT, &due[0]).await.unwrap().unwrap();
        assert_eq!(claimed, BlobMeta { state: BlobState::Leaving, ..meta.clone() });
        assert!(expired(world.blobs.meta(TENANT, &blob).await.unwrap_err()), "also while it is removed");
        let writer = world.blobs.write(TENANT, new(bytes)).await;
        assert!(matches!(writer, Err(BlobError::Leaving { .. })), "nobody writes into what is removed");
        assert_eq!(world.blobs.claim(TENANT, &due[0]).await.unwrap(), Some(claimed.clone()), "again");
        world.blobs.empty(TENANT, &due[0], &claimed).await.unwrap();
        assert_eq!(world.left().await, 2, "what it was, and its entry");
        assert!(world.blobs.forget(TENANT, &due[0]).await.unwrap());
        assert!(!world.blobs.forget(TENANT, &due[0]).await.unwrap());
        assert_eq!(world.blobs.claim(TENANT, &due[0]).await.unwrap(), None);
        assert_eq!(world.left().await, 0, "of {bytes} bytes");
        assert!(matches!(world.blobs.meta(TENANT, &blob).await, Err(BlobError::NotFound { .. })));
    }
}

#[tokio::test]
async fn a_blob_that_is_written_again_lives_as_long_as_a_new_one() {
    let world = World::new();
    world.blobs.write(TENANT, new(LARGE)).await.unwrap();
    world.pass(TTL);
    let old = world.due().await.remove(0);
    let meta = world.blobs.write(TENANT, new(100_000)).await.unwrap();
    assert_eq!(world.due().await, []);
    assert_eq!(
        world.blobs.claim(TENANT, &old).await.unwrap(),
        None,
        "a sweeper that looked before is too late"
    );
    world.blobs.empty(TENANT, &old, &BlobMeta { size_bytes: LARGE as u64, ..meta.clone() }).await.unwrap();
    assert!(!world.blobs.forget(TENANT, &old).await.unwrap());
    let read = world.blobs.read_all(TENANT, &new(0).blob).await.unwrap();
    assert_eq!(read, (new(100_000).content, meta));
    assert_eq!(world.left().await, 4, "two pieces, what it is, and its entry");
}

#[tokio::test]
async fn what_a_writer_left_that_died_is_no_blob_and_goes_when_its_time_is_over() {
    let world = World::new();
    let mut was_cut = 0;
    for polls in 1..200 {
        let mut writing = Box::pin(world.blobs.write(TENANT, new(LARGE)));
        let mut ended = false;
        for _ in 0..polls {
            ended = poll!(&mut writing).is_ready();
            if ended {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        drop(writing);
        // What was on its way to the store may still get there.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let found = world.blobs.meta(TENANT, &new(0).blob).await;
        assert!(!ended || found.is_ok());
        world.pass(TTL);
        for due in world.due().await {
            let meta = world.blobs.claim(TENANT, &due).await.unwrap().unwrap();
            assert_eq!(meta.session.is_some(), found.is_ok(), "nobody is told of what was never there");
            was_cut += usize::from(found.is_err());
            world.blobs.empty(TENANT, &due, &meta).await.unwrap();
            assert!(world.blobs.forget(TENANT, &due).await.unwrap());
        }
        assert_eq!(world.left().await, 0, "after {polls} steps of a writer");
        if ended {
            break;
        }
    }
    assert!(was_cut > 2, "writers have died in the middle: {was_cut}");
}

/// As large as another, and other.
fn other(bytes: usize) -> NewBlob {
    NewBlob { content: vec![7; bytes].into(), ..new(0) }
}

#[tokio::test]
async fn a_blob_that_is_kept_is_not_replaced_by_another_of_its_name() {
    let world = World::new();
    for bytes in [10, LARGE] {
        let meta = world.blobs.write(TENANT, new(bytes)).await.unwrap();
        for others in [5, bytes, LARGE] {
            let refused = world.blobs.write(TENANT, other(others)).await;
            assert!(matches!(refused, Err(BlobError::Exists { .. })), "{refused:?}");
        }
        let read = world.blobs.read_all(TENANT, &name()).await.unwrap();
        assert_eq!(read, (new(bytes).content, meta.clone()));
        world.pass(Duration::from_millis(5));
        let again = world.blobs.write(TENANT, new(bytes)).await.unwrap();
        assert!(again.expires > meta.expires && again.hash == meta.hash, "the same one may be written again");
        assert_eq!(world.blobs.read_all(TENANT, &name()).await.unwrap(), (new(bytes).content, again));
        world.blobs.remove(TENANT, &name()).await.unwrap();
        assert_eq!(world.left().await, 0);
    }
}

fn name() -> BlobRef {
    new(0).blob
}

#[tokio::test]
async fn of_two_that_are_written_at_once_under_one_name_one_is_there_as_a_whole() {
    let world = World::new();
    for polls in 0..12 {
        let mut first = Box::pin(world.blobs.write(TENANT, new(LARGE)));
        for _ in 0..polls {
            if poll!(&mut first).is_ready() {
                assert!(polls > 2, "one was under way when the other began");
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (second, first) = tokio::join!(world.blobs.write(TENANT, other(LARGE - 1)), first);
        let (content, meta) = world.blobs.read_all(TENANT, &name()).await.unwrap();
        let won = match (&first, &second) {
            (Ok(meta), Err(BlobError::Exists { .. })) => (new(LARGE).content, meta.clone()),
            (Err(BlobError::Exists { .. }), Ok(meta)) => (other(LARGE - 1).content, meta.clone()),
            both => panic!("{both:?}"),
        };
        assert!(content == won.0 && meta == won.1, "after {polls} steps of the first");
        world.blobs.remove(TENANT, &name()).await.unwrap();
        assert_eq!(world.left().await, 0);
    }
}

#[tokio::test]
async fn two_that_write_the_same_at_once_have_both_written_it() {
    let world = World::new();
    let write = || world.blobs.write(TENANT, new(LARGE));
    let (one, two) = tokio::join!(write(), async {
        world.pass(Duration::from_millis(3));
        write().await
    });
    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((one.hash, one.created), (two.hash, two.created));
    let (content, _) = world.blobs.read_all(TENANT, &name()).await.unwrap();
    assert!(content == new(LARGE).content);
    world.blobs.remove(TENANT, &name()).await.unwrap();
    assert_eq!(world.left().await, 0);
}

#[test]
fn what_was_stored_before_blobs_said_where_they_came_from_is_still_read() {
    type Old = (String, u64, String, Timestamp, Timestamp, Option<SessionId>);
    let old: Old = ("text/plain".into(), 5, "ab".into(), Timestamp(1), Timestamp(2), None);
    let bytes = [&[1][..], &codec::pack(&old)[..]].concat();
    let meta: BlobMeta = codec::decode(&bytes).unwrap();
    let about = Ids::default();
    let read = (meta.media_type, meta.size_bytes, meta.hash, meta.created, meta.expires, meta.session);
    assert_eq!((read, meta.about, meta.state), (old, about, BlobState::Whole));
}
