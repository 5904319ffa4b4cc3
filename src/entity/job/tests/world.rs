//! A node that hosts jobs, and what can be asked of it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cadre_cluster::{
    address::Address,
    bus::LocalBus,
    clock::{Clock, SystemClock, Timestamp},
    feed::{Cursor, Feed},
    host::{CallError, HostConfig, Kinds, Node, read_entity},
    keys,
    placement::Takeover,
    store::{
        KeyRange, RangeRead, Store,
        embedded::{Embedded, EmbeddedConfig},
        key_after,
    },
};
use tempfile::TempDir;

use crate::{
    blob::{Blobs, Retention},
    control::Error,
    entity::{
        Host, Job, JobItem, Lineage, Named, Subagent, Task,
        job::{Command, Create, ItemCommand, ItemRecord, Reply, Spec, State, decode_view, run_id},
        kind, records,
    },
    exec::{Engine, Response},
    fact::{
        Fact, Part, StoredEvent,
        id::{ActionId, ItemId, JobId, RunId, SessionId},
        payload::Payload,
        status::ItemStatus,
    },
    scripted::AGENT,
    view::{ItemView, JobView},
};

pub const TENANT: &str = "tester";
/// How long items are kept.
pub const KEPT_MS: u64 = 24 * 3_600_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// The system's clock, put forward.
#[derive(Default)]
pub struct Shifted(AtomicU64);

impl Shifted {
    pub fn forward_ms(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for Shifted {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::SeqCst))
    }
}

pub struct World {
    pub store: Store,
    pub clock: Arc<Shifted>,
    pub job: JobId,
    node: Option<Node>,
    starts: u64,
    _folder: TempDir,
}

impl World {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = EmbeddedConfig {
            reserve_bytes: 1 << 20,
            segment_bytes: 4 << 20,
            cache_bytes: 8 << 20,
            ..EmbeddedConfig::new(folder.path())
        };
        let store = Embedded::open(config).unwrap().store();
        let job = JobId::parse("job_tested").unwrap();
        let mut world = Self { store, clock: Arc::default(), job, node: None, starts: 0, _folder: folder };
        world.restart().await;
        world
    }

    /// Kills the node, if there is one.
    pub fn crash(&mut self) {
        self.node = None;
    }

    /// Kills the node and starts another.
    pub async fn restart(&mut self) {
        self.crash();
        self.starts += 1;
        let config = HostConfig {
            shards: 8,
            takeover: Takeover::AtOnce,
            look_every: Duration::from_millis(100),
            ..HostConfig::new("test", "one")
        };
        let blobs = Blobs::new(self.store.clone(), self.clock.clone(), Retention::BLOBS_DEFAULT);
        let mut engine = Engine::scripted(Some(blobs));
        engine.limits.job_items_kept_ms = KEPT_MS;
        let host = Host::new(Arc::new(engine));
        let kinds = Kinds::new()
            .with(Job::new(host.clone(), self.store.clone()))
            .with(JobItem(host.clone()))
            .with(Subagent(host.clone()))
            .with(Task::new(host, self.store.clone()));
        // A new process: what is asked of it does not get to the one that is dying.
        let (store, bus) = (self.store.clone(), Arc::new(LocalBus::new()));
        let node = Node::start(config, store, bus, self.clock.clone(), kinds, self.starts).await.unwrap();
        self.node = Some(node);
    }

    pub fn session() -> SessionId {
        SessionId::parse("sess_tested").unwrap()
    }

    /// Writes the items and creates the job, as the control plane does.
    pub async fn create(&self, scripts: &[&str], spec: Spec) -> Result<Reply, Error> {
        self.write(scripts).await;
        self.create_of(scripts.len() as u32, spec, 1).await
    }

    /// Writes the items.
    pub async fn write(&self, scripts: &[&str]) {
        for (chunk, scripts) in scripts.chunks(1_000).enumerate() {
            let mut tx = self.store.begin();
            for (at, script) in scripts.iter().enumerate() {
                let index = (chunk * 1_000 + at) as u32;
                let record = ItemRecord {
                    item_id: ItemId::parse(&format!("item_{index}")).unwrap(),
                    input: vec![Part::text(*script)],
                    blob: None,
                };
                tx.set(keys::data(TENANT, &records::item(&self.job, index)), record.encode());
            }
            tx.commit().await.unwrap();
        }
    }

    /// Says that the items come.
    pub async fn prepare(&self, items: u32, fingerprint: u128) -> Result<Reply, Error> {
        self.call(Command::Prepare { session: Self::session(), fingerprint, items }).await
    }

    /// Creates the job, whether its items are there or not.
    pub async fn create_of(&self, items: u32, spec: Spec, fingerprint: u128) -> Result<Reply, Error> {
        self.prepare(items, fingerprint).await?;
        self.create_prepared(items, spec, fingerprint).await
    }

    /// Creates the job, whether anybody has said that its items come or not.
    pub async fn create_prepared(&self, items: u32, spec: Spec, fingerprint: u128) -> Result<Reply, Error> {
        let spec = Spec { instruction: "do it".into(), agent: AGENT.into(), ..spec };
        let create = Create {
            session: Self::session(),
            parent: None,
            lineage: Lineage::default(),
            depth: 0,
            fingerprint,
            items,
            spec: Named(Box::new(spec)),
        };
        self.call(Command::Create(Box::new(create))).await
    }

    pub async fn call(&self, command: Command) -> Result<Reply, Error> {
        let address = Address::new(TENANT, kind::JOB, self.job.as_str()).unwrap();
        let client = self.node.as_ref().unwrap().client();
        match client.call::<Job>(&address, &command, None, PATIENCE).await {
            Ok(called) => Ok(called.reply),
            Err(CallError::Refused(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    /// Answers a question of an attempt.
    pub async fn respond(&self, run: &RunId, action: &ActionId, decision: &str) -> Result<(), Error> {
        let address = Address::new(TENANT, kind::ITEM, run.as_str()).unwrap();
        let response = Response {
            action: action.clone(),
            decision: decision.into(),
            by: "test".into(),
            reason: None,
            payload: None,
        };
        let client = self.node.as_ref().unwrap().client();
        match client.call::<JobItem>(&address, &ItemCommand::Respond(response), None, PATIENCE).await {
            Ok(_) => Ok(()),
            Err(CallError::Refused(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    }

    pub async fn cancel(&self) -> Reply {
        self.call(Command::Cancel { reason: Some("enough".into()), by: "test".into() }).await.unwrap()
    }

    pub async fn retry(&self, index: u32) -> Result<Reply, Error> {
        let status = self.item(index).await.map_or(ItemStatus::Pending, |view| view.status);
        let item = ItemId::parse(&format!("item_{index}")).unwrap();
        self.call(Command::Retry { index, item, status, by: "test".into() }).await
    }

    /// What is stored of the job, and how large that is.
    pub async fn state(&self) -> (State, usize) {
        let address = Address::new(TENANT, kind::JOB, self.job.as_str()).unwrap();
        let stored = self.store.begin().snapshot_get(&keys::state(&address)).await.unwrap();
        stored.map_or_else(Default::default, |stored| (read_entity::<Job>(&stored).unwrap().1, stored.len()))
    }

    pub async fn item(&self, index: u32) -> Option<ItemView> {
        let key = keys::data(TENANT, &records::item_view(&self.job, index));
        let stored = self.store.begin().snapshot_get(&key).await.unwrap()?;
        Some(decode_view(&stored).unwrap())
    }

    /// How many records of items are stored: what they are given, and how they stand.
    pub async fn recorded(&self) -> (usize, usize) {
        let tx = self.store.begin();
        let mut counts = [0; 2];
        for (count, path) in
            counts.iter_mut().zip([records::items(&self.job), records::item_views(&self.job)])
        {
            let mut range = KeyRange::prefix(keys::data(TENANT, &path).to_vec());
            loop {
                let page = tx.snapshot_range(&RangeRead::new(range.clone()).limit(1_000)).await.unwrap();
                *count += page.pairs.len();
                match page.pairs.last() {
                    Some(last) if page.more => range.begin = key_after(&last.key),
                    _ => break,
                }
            }
        }
        counts.into()
    }

    /// Whether anything is stored of an attempt.
    pub async fn has_attempt(&self, index: u32, attempt: u32) -> bool {
        let (state, _) = self.state().await;
        let run = run_id(state.work.unwrap().base(), index, attempt);
        let address = Address::new(TENANT, kind::ITEM, run.as_str()).unwrap();
        self.store.begin().snapshot_get(&keys::state(&address)).await.unwrap().is_some()
    }

    /// Waits for something that is stored outside of the job.
    pub async fn eventually(&self, what: &str, holds: impl AsyncFn() -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !holds().await {
            assert!(tokio::time::Instant::now() < deadline, "does not come about: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub async fn counted(&self, status: &str) -> i64 {
        let key = keys::data(TENANT, &records::count(&Self::session(), "jobs", status));
        let stored = self.store.begin().snapshot_get(&key).await.unwrap();
        stored.map_or(0, |stored| i64::from_le_bytes(stored[..].try_into().unwrap()))
    }

    /// Waits for something to be so.
    pub async fn until(&self, what: &str, holds: impl Fn(&State) -> bool) -> State {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let (state, _) = self.state().await;
            if holds(&state) {
                return state;
            }
            assert!(tokio::time::Instant::now() < deadline, "does not come about: {what}: {:?}", state.work);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits for the end.
    pub async fn over(&self) -> State {
        self.until("it ends", |state| state.work.as_ref().is_some_and(|work| work.closed)).await
    }

    /// All facts of the session, in order.
    pub async fn facts(&self) -> Vec<Fact> {
        let feed = Feed::new(self.store.clone(), TENANT, Self::session().as_str(), 1);
        let (mut facts, mut cursor) = (Vec::new(), Cursor::START);
        loop {
            let page = feed.read(cursor, 1_000).await.unwrap();
            facts.extend(page.events.iter().map(|event| StoredEvent::decode(&event.body).unwrap().fact));
            cursor = page.cursor;
            if !page.more {
                return facts;
            }
        }
    }

    /// Checks what holds of every job, whatever happened to it: P5 (what is stored is the fold of the feed), one terminal
    /// fact at the end of each life, and never more at once than allowed.
    pub async fn check(&self) -> Vec<Fact> {
        let facts = self.facts().await;
        let (state, bytes) = self.state().await;
        assert!(bytes < 96 * 1024, "{bytes} bytes");
        let allowed = state.work.as_ref().map_or(8, |work| work.spec.concurrency());
        let (mut view, mut items, mut running) = (JobView::default(), BTreeMap::new(), 0_usize);
        for fact in &facts {
            if view.status.is_terminal() {
                let is_reopened = matches!(fact.payload, Payload::JobStarted(_));
                assert!(is_reopened, "P11: {} follows the end", fact.event_type());
            }
            match &fact.payload {
                Payload::JobItemStarted(_) => running += 1,
                Payload::JobItemCompleted(_) | Payload::JobItemFailed(_) => {
                    running = running.saturating_sub(1)
                }
                _ => {}
            }
            assert!(running <= allowed, "{running} at once, {allowed} are allowed");
            if fact.ids.job() == Some(&self.job)
                && let Some(change) = view.apply(fact)
            {
                let index = change.index.unwrap();
                let item = items.entry(index).or_insert_with(|| ItemView::new(change.item_id.clone()));
                item.change(&change);
            }
        }
        view.session_id = Some(Self::session());
        assert_eq!(view, state.view.0, "P5: the view is the fold of the feed");
        for (index, item) in items {
            assert_eq!(self.item(index).await, Some(item), "P5: item {index}");
        }
        facts
    }
}

/// How often facts of a class are there.
pub fn count(facts: &[Fact], class: &str) -> usize {
    facts.iter().filter(|fact| fact.event_type().as_str() == class).count()
}
