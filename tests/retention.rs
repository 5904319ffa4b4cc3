//! What is kept for a time, and goes when that is over: blobs and idempotency keys.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use cadre::{
    blob::{BlobError, BlobMeta, BlobState, Blobs, NewBlob, Retention},
    entity::records,
    fact::{
        Cursor, Publisher,
        id::{BlobRef, SessionId},
    },
    replay::{ReplayCase, Verdict, fold},
    runtime::{Caller, EventFilter, Runtime, Settings},
};
use cadre_cluster::{
    bus::{Bus, LocalBus},
    clock::{Clock, SystemClock, Timestamp},
    codec,
    host::HostConfig,
    keys,
    placement::Takeover,
    store::{
        RangeRead, Store,
        embedded::{Embedded, EmbeddedConfig},
    },
};
use common::{PATIENCE, check_feed, conform_events, conform_snapshot, count, input, turn};
use futures::{TryStreamExt, poll};
use serde_json::{Value, json};

const HOUR: Duration = Duration::from_secs(3_600);
const MONTH: Duration = Duration::from_secs(31 * 24 * 3_600);

/// The system's clock, put forward.
#[derive(Default)]
struct Shifted(AtomicU64);

impl Clock for Shifted {
    fn now(&self) -> Timestamp {
        Timestamp(SystemClock.now().0 + self.0.load(Ordering::SeqCst))
    }
}

/// A store, and as many nodes on it as a test wants.
struct World {
    embedded: Embedded,
    bus: Bus,
    clock: Arc<Shifted>,
    retention: Retention,
    _folder: tempfile::TempDir,
}

impl World {
    fn new(retention: Retention) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let embedded = Embedded::open(EmbeddedConfig::new(folder.path())).unwrap();
        let (bus, clock) = (Arc::new(LocalBus::new()), Arc::new(Shifted::default()));
        Self { embedded, bus, clock, retention, _folder: folder }
    }

    async fn node(&self, name: &str) -> Node {
        let host = HostConfig { takeover: Takeover::AtOnce, shards: 4, ..HostConfig::new("test", name) };
        let publisher = Publisher::new("cadre_test");
        let settings = Settings { host, publisher, deadline: PATIENCE, retention: self.retention };
        let seed = rand::random();
        let (store, bus, clock) = (self.store(), self.bus.clone(), self.clock.clone());
        Node(Runtime::start(settings, store, bus, clock, seed).await.unwrap())
    }

    fn store(&self) -> Store {
        self.embedded.store()
    }

    fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
    }

    /// What is left of blobs of a tenant, by name: how many records of each, its entries among them.
    async fn left(&self, tenant: &str) -> BTreeMap<String, usize> {
        let read = RangeRead::new(keys::data_range(tenant, &[]));
        let pairs: Vec<_> = self.store().begin().snapshot_stream(read).try_collect().await.unwrap();
        let mut left = BTreeMap::new();
        for pair in pairs {
            let text = String::from_utf8_lossy(keys::data_path(&pair.key, tenant).unwrap()).into_owned();
            if let Some(at) = text.find("blob_") {
                let name = text[at..].split('\0').next().unwrap().to_owned();
                *left.entry(name).or_default() += 1;
            }
        }
        left
    }

    async fn meta(&self, blob: &str) -> Option<BlobMeta> {
        let key = keys::data("local", &records::blob(&BlobRef::parse(blob).unwrap()));
        let stored = self.store().begin().snapshot_get(&key).await.unwrap();
        stored.map(|stored| codec::decode(&stored).unwrap())
    }
}

struct Node(Runtime);

impl Node {
    async fn call(&self, name: &str, args: Value) -> Value {
        self.call_as(&Caller::local(), name, args).await
    }

    async fn call_as(&self, caller: &Caller, name: &str, args: Value) -> Value {
        let answer = self.0.call(caller, name, args, None, PATIENCE).await;
        answer.unwrap_or_else(|error| panic!("{name}: {}", error.to_json())).result
    }

    /// Runs a script as a turn, to its end.
    async fn run(&self, caller: &Caller, session: &str, script: Value) {
        let submitted = self.call_as(caller, "submit_turn", turn(session, script)).await;
        for _ in 0..6_000 {
            let over = |event: &&Value| event["turnId"] == submitted["turnId"];
            let ended = |event: &Value| event["type"] == "turn.completed";
            if self.events_as(caller, session).await.iter().filter(over).any(ended) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the turn does not end");
    }

    async fn events(&self, session: &str) -> Vec<Value> {
        self.events_as(&Caller::local(), session).await
    }

    async fn events_as(&self, caller: &Caller, session: &str) -> Vec<Value> {
        let (mut all, mut after) = (Vec::new(), Cursor::START);
        let session = SessionId::parse(session).unwrap();
        loop {
            let page = self.0.events(caller, &session, after, 1_000, &EventFilter::default()).await.unwrap();
            after = page.cursor;
            all.extend(
                page.events
                    .iter()
                    .map(|event| serde_json::to_value(self.0.publisher().envelope(event)).unwrap()),
            );
            if !page.more {
                return all;
            }
        }
    }
}

fn expired(events: &[Value]) -> Vec<&Value> {
    events.iter().filter(|event| event["type"] == "output.expired").collect()
}

fn refs<'a>(events: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let mut refs: Vec<_> =
        events.into_iter().map(|event| event["outputRef"].as_str().unwrap().to_owned()).collect();
    refs.sort();
    refs
}

#[tokio::test]
async fn p9_what_is_large_goes_after_a_month_and_its_session_is_told_of_each() {
    let world = World::new(Retention::default());
    let node = world.node("one").await;
    let (mine, other) = (Caller::local(), Caller::within("other", "other"));
    let big = json!({ "tool": "big", "args": { "bytes": 200_000 } });
    let child = json!({ "spawn": { "count": 1, "script": [big] } });
    let wordy = json!({ "tool": "echo", "args": { "text": "x".repeat(2_000) } });
    node.run(&mine, "sess_a", json!([big, child, wordy, { "say": "done" }])).await;
    node.run(&other, "sess_a", json!([big])).await;
    let before = node.events("sess_a").await;
    let spilled: Vec<_> = before.iter().filter(|event| event["type"] == "output.spilled").cloned().collect();
    assert_eq!(spilled.len(), 2);
    let kept = world.left("local").await;
    assert_eq!(kept.len(), 3, "two outputs and the arguments of a call: {kept:?}");

    world.pass(MONTH - 3 * 24 * HOUR);
    assert_eq!(node.0.sweep().await, Default::default(), "nothing goes before its time");
    world.pass(3 * 24 * HOUR);
    let swept = node.0.sweep().await;
    assert_eq!((swept.blobs, swept.failures, swept.more), (4, 0, false));
    assert!(swept.blob_bytes > 600_000, "{swept:?}");
    assert_eq!((world.left("local").await, world.left("other").await), Default::default());

    let after = node.events("sess_a").await;
    assert_eq!(after[..before.len()], before, "history stays as it was");
    let told = expired(&after);
    assert_eq!(refs(told.iter().copied()), kept.keys().cloned().collect::<Vec<_>>());
    for spilled in &spilled {
        let told = told.iter().find(|told| told["outputRef"] == spilled["outputRef"]).unwrap();
        for id in ["threadId", "turnId", "stepId", "toolCallId", "subagentId"] {
            assert_eq!(told[id], spilled[id], "{id}");
        }
        assert_eq!(told["payload"]["sizeBytes"], spilled["payload"]["sizeBytes"]);
        assert_eq!(told["payload"]["hash"], spilled["payload"]["hash"]);
        assert!(told["payload"]["hash"].as_str().unwrap().starts_with("sha256:"));
        assert_eq!(
            (&told["payload"]["reason"], &told["streamId"]),
            (&json!("retention"), &json!("session:sess_a"))
        );
    }
    assert!(spilled.iter().any(|event| event["subagentId"].is_string()), "one is a subagent's");
    assert!(
        told.iter().all(|told| told["turnId"].is_string() && told["toolCallId"].is_string()),
        "arguments, too"
    );
    check_feed(&after);
    conform_events(&after);
    let snapshot = node.call("get_session", json!({ "sessionId": "sess_a" })).await;
    conform_snapshot(&snapshot);
    assert_eq!(snapshot["outputSummary"]["expired"], 3, "{}", snapshot["outputSummary"]);
    assert_eq!(snapshot["outputSummary"].get("recentRefs").unwrap_or(&json!([])), &json!([]));

    // P5: the facts fold to what is served, and evidence says which references lead nowhere.
    let exported = node.call("export_replay", json!({ "sessionId": "sess_a" })).await;
    let blob = BlobRef::parse(exported["ref"].as_str().unwrap()).unwrap();
    let (content, _) = node.0.blobs().read_all("local", &blob).await.unwrap();
    let report = fold(&ReplayCase::parse(&content).unwrap());
    assert_eq!(report.verdict, Verdict::Equal, "{report}");
    for command in ["export_evidence", "export_replay", "export_review"] {
        let exported = node.call(command, json!({ "sessionId": "sess_a" })).await;
        let missing = exported["missing"].as_array().unwrap();
        let mut missing: Vec<_> = missing.iter().map(|missing| missing.as_str().unwrap()).collect();
        missing.sort_unstable();
        assert_eq!(missing, kept.keys().map(String::as_str).collect::<Vec<_>>(), "{command}: arguments, too");
    }

    assert_eq!(expired(&node.events_as(&other, "sess_a").await).len(), 1, "each tenant has its own");
    assert_eq!(node.0.sweep().await.blobs, 0, "nothing is left to do");
    assert_eq!(expired(&node.events("sess_a").await).len(), 3);
    node.0.stop().await;
}

#[tokio::test]
async fn p3_a_sweep_that_is_cut_anywhere_tells_of_each_output_once() {
    const OUTPUTS: usize = 40;
    let world = World::new(Retention::default());
    let mut node = world.node("one").await;
    let big = json!({ "tool": "big", "args": { "bytes": 100_000 } });
    node.run(&Caller::local(), "sess_a", json!([{ "repeat": OUTPUTS, "steps": [big] }])).await;
    world.pass(MONTH);
    let (mut cut, mut in_the_middle) = (0, BTreeSet::new());
    for polls in 1..10_000 {
        let done = {
            let mut sweep = pin!(node.0.sweep());
            let mut done = false;
            for _ in 0..polls {
                done = poll!(&mut sweep).is_ready();
                if done {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            done
        };
        if done {
            break;
        }
        cut += 1;
        if polls % 5 == 0 {
            node.0.kill().await;
            node = world.node("one").await;
        }
        for blob in world.left("local").await.into_keys() {
            let leaving = |meta: BlobMeta| meta.state == BlobState::Leaving;
            if world.meta(&blob).await.is_some_and(leaving) {
                in_the_middle.insert(blob.clone());
                let read = node.0.blobs().read_all("local", &BlobRef::parse(&blob).unwrap()).await;
                assert!(matches!(read, Err(BlobError::Expired { .. })), "{read:?}");
            }
        }
    }
    assert!(cut > 3 && in_the_middle.len() > 3, "{cut} sweeps were cut, {} blobs seen", in_the_middle.len());
    let swept = node.0.sweep().await;
    assert_eq!((swept.blobs, swept.failures), (0, 0), "the last one went through");
    assert_eq!(world.left("local").await, BTreeMap::new());
    let events = node.events("sess_a").await;
    let told = refs(expired(&events));
    let distinct: BTreeSet<_> = told.iter().collect();
    assert_eq!((told.len(), distinct.len()), (OUTPUTS, OUTPUTS));
    check_feed(&events);
    node.0.stop().await;
}

#[tokio::test]
async fn p3_two_nodes_that_sweep_at_once_tell_of_each_output_once() {
    const OUTPUTS: usize = 30;
    let world = World::new(Retention::default());
    let (one, two) = (world.node("one").await, world.node("two").await);
    let big = json!({ "tool": "big", "args": { "bytes": 40_000 } });
    for session in ["sess_a", "sess_b"] {
        one.run(&Caller::local(), session, json!([{ "repeat": OUTPUTS, "steps": [big] }])).await;
    }
    world.pass(MONTH);
    let (first, second) = tokio::join!(one.0.sweep(), two.0.sweep());
    // Both may have asked for one at the very same time, and are told the same.
    assert!(first.blobs + second.blobs >= 2 * OUTPUTS as u64, "{first:?} {second:?}");
    assert_eq!(first.failures + second.failures, 0);
    assert_eq!(world.left("local").await, BTreeMap::new());
    for session in ["sess_a", "sess_b"] {
        let events = two.events(session).await;
        let told = refs(expired(&events));
        assert_eq!((told.len(), told.iter().collect::<BTreeSet<_>>().len()), (OUTPUTS, OUTPUTS));
        check_feed(&events);
    }
    one.0.stop().await;
    two.0.stop().await;
}

#[tokio::test]
async fn what_belongs_to_nobody_goes_without_a_word() {
    let world = World::new(Retention::default());
    let node = world.node("one").await;
    let new = |blob: &str, session: Option<&str>| NewBlob {
        blob: BlobRef::parse(blob).unwrap(),
        media_type: "text/plain".into(),
        session: session.map(|session| SessionId::parse(session).unwrap()),
        content: vec![7; 70_000].into(),
    };
    node.0.blobs().write("local", new("blob_loose", None)).await.unwrap();
    node.0.blobs().write("local", new("blob_lost", Some("sess_never"))).await.unwrap();
    node.0.blobs().keep("local", new("blob_kept", None)).await.unwrap();
    world.pass(MONTH);
    let swept = node.0.sweep().await;
    assert_eq!((swept.blobs, swept.blob_bytes, swept.failures), (2, 140_000, 0));
    assert_eq!(world.left("local").await, BTreeMap::from([("blob_kept".into(), 4)]));
    let listed = node.call("list_sessions", json!({})).await;
    assert_eq!(listed["sessions"], json!([]), "nobody was made to be told");
    node.0.stop().await;
}

#[tokio::test]
async fn p9_a_node_sweeps_by_itself_what_it_was_told_to_keep_for_a_minute() {
    let retention = Retention::of(Duration::from_secs(60)).unwrap();
    let world = World::new(retention.swept_every(Duration::from_secs(1)).unwrap());
    let node = world.node("one").await;
    let script = json!([{ "tool": "big", "args": { "bytes": 40_000 } }, { "tool": "echo", "args": { "text": "x".repeat(2_000) } }]);
    node.run(&Caller::local(), "sess_a", script).await;
    for blob in world.left("local").await.keys() {
        let meta = world.meta(blob).await.unwrap();
        assert_eq!(meta.created.after(Duration::from_secs(60)), meta.expires, "{blob}");
    }
    world.pass(Duration::from_secs(61));
    for _ in 0..1_000 {
        if world.left("local").await.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(world.left("local").await, BTreeMap::new());
    assert_eq!(count(&node.events("sess_a").await, "output.expired"), 2);
    node.0.stop().await;
}

#[tokio::test]
async fn p3_a_key_is_forgotten_after_its_time_and_one_that_is_used_again_is_not() {
    let world = World::new(Retention::default());
    let node = world.node("one").await;
    let keyed = async |key: &str, title: &str| {
        let args = json!({ "title": title });
        let answer = node.0.call(&Caller::local(), "create_session", args, Some(key), PATIENCE).await;
        answer.map(|answer| answer.result["sessionId"].clone()).map_err(|error| error.to_json())
    };
    let keys_left = async || {
        let read = RangeRead::new(keys::data_range("local", &[])).limit(1_000);
        let page = world.store().begin().snapshot_range(&read).await.unwrap();
        let named = |key: &[u8]| String::from_utf8_lossy(key).contains("key-number-");
        page.pairs.iter().filter(|pair| named(&pair.key)).count()
    };
    let mut first = Vec::new();
    for number in 0..20 {
        first.push(keyed(&format!("key-number-{number:02}"), "one").await.unwrap());
    }
    assert_eq!(keys_left().await, 40, "what each stands for, and when it expires");
    world.pass(24 * HOUR);
    assert_eq!(node.0.sweep().await.keys, 0, "they are remembered for longer than a day");
    assert_eq!(keyed("key-number-00", "one").await, Ok(first[0].clone()));
    world.pass(2 * HOUR);
    // It is over, so it may stand for something else.
    let renewed = keyed("key-number-19", "two").await.unwrap();
    assert_ne!(renewed, first[19]);
    assert_eq!(node.0.sweep().await.keys, 19);
    assert_eq!(keys_left().await, 2);
    assert_eq!(keyed("key-number-19", "two").await, Ok(renewed), "the same answer");
    let reused = keyed("key-number-19", "three").await.unwrap_err();
    assert_eq!(reused["error"]["details"]["status"], "key_reused");
    node.0.stop().await;
}

#[tokio::test]
async fn an_input_that_waits_for_longer_than_it_is_kept_fails_with_the_reason() {
    let world = World::new(Retention::of(Duration::from_secs(60)).unwrap());
    let node = world.node("one").await;
    let large = json!([{ "say": "x".repeat(150_000) }]);
    node.call("create_session", json!({ "sessionId": "sess_w" })).await;
    let args = json!({ "sessionId": "sess_w", "taskId": "task_w", "objective": "o", "agent": "scripted",
        "input": input(&large), "autoStart": false });
    node.call("create_task", args).await;
    world.pass(Duration::from_secs(61));
    node.call("start_task", json!({ "taskId": "task_w" })).await;
    let mut failed = Value::Null;
    for _ in 0..1_000 {
        let events = node.events("sess_w").await;
        if let Some(event) = events.iter().find(|event| event["type"] == "task.failed") {
            failed = event["payload"]["error"]["message"].clone();
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(failed.as_str().is_some_and(|message| message.contains("expired")), "{failed}");
    node.0.stop().await;
}

/// A blob whose time was over long ago.
async fn old(store: Store, blob: &str) -> BlobMeta {
    struct Then;

    impl Clock for Then {
        fn now(&self) -> Timestamp {
            Timestamp(SystemClock.now().0 - MONTH.as_millis() as u64)
        }
    }

    let blobs = Blobs::new(store, Arc::new(Then), Retention::BLOBS_DEFAULT);
    let new = NewBlob {
        blob: BlobRef::parse(blob).unwrap(),
        media_type: "text/plain".into(),
        session: None,
        content: "gone".into(),
    };
    blobs.write("local", new).await.unwrap()
}

#[path = "common/server.rs"]
mod server;

#[test]
fn a_read_of_an_expired_blob_says_since_when_also_before_it_is_swept() {
    let server = server::Server::start();
    let meta = server.tokio.block_on(old(server.rig.store(), "blob_old"));
    let get = |path: &str| {
        let (status, body) = server.get(path);
        server::assert_refused((status, body.clone()), 404, "not_found", None);
        body["error"].clone()
    };
    let gone = get("/v1/blobs/blob_old");
    assert_eq!(gone["details"]["status"], "expired");
    assert_eq!(gone["details"]["expiredAt"], cadre::fact::Time(meta.expires).to_string());
    assert_eq!(gone["details"]["keptMs"], Retention::BLOBS_DEFAULT.as_millis() as u64);
    assert!(gone["message"].as_str().unwrap().contains("has expired at 20"), "{gone}");
    assert_eq!(server.send("HEAD", "/v1/blobs/blob_old", &[], b"").status(), 404);
    assert_eq!(server.send("GET", "/v1/blobs/blob_old", &[("Range", "bytes=0-1")], b"").status(), 404);
    assert_eq!(server.tokio.block_on(server.rig.runtime.sweep()).blobs, 1);
    let gone = get("/v1/blobs/blob_old");
    assert!(gone["message"].as_str().unwrap().contains("output.expired"), "{gone}");
    assert_eq!(gone["details"].get("status"), None);
    let (_, metrics) = server.get_text("/metrics");
    for name in ["cadre_blobs_expired_total", "cadre_blobs_expired_bytes_total", "cadre_sweep_failures_total"]
    {
        assert!(metrics.contains(name), "{name} is not in {metrics}");
    }
    server.stop();
}

#[tokio::test]
async fn p9_an_output_over_the_limit_is_cut_and_everybody_who_looks_is_told() {
    let retention = Retention::default().of_outputs(100_001).unwrap();
    let world = World::new(retention);
    let node = world.node("one").await;
    let script = json!([
        { "tool": "big", "args": { "bytes": 300_000 } },
        { "tool": "big", "args": { "bytes": 100_001 } },
        { "tool": "echo", "args": { "text": "é".repeat(60_000) } },
    ]);
    node.run(&Caller::local(), "sess_c", script).await;
    let events = node.events("sess_c").await;
    let of = |class: &str| events.iter().filter(|event| event["type"] == class).collect::<Vec<_>>();
    let (cut, spilled, results) = (of("output.truncated"), of("output.spilled"), of("tool.result"));
    assert_eq!((cut.len(), spilled.len(), results.len()), (2, 3, 3));
    let json_bytes = json!({ "text": "é".repeat(60_000) }).to_string().len() as u64;
    for (cut, result, original, kept) in
        [(cut[0], results[0], 300_000, 100_001), (cut[1], results[2], json_bytes, 100_001)]
    {
        let said = &cut["payload"];
        assert_eq!((said["sizeBytes"].as_u64(), said["keptBytes"].as_u64()), (Some(original), Some(kept)));
        assert_eq!(said["source"], "tool");
        assert!(said["reason"].as_str().unwrap().contains("100001 bytes"), "{said}");
        for id in ["threadId", "turnId", "stepId", "toolCallId", "outputRef"] {
            assert!(cut[id].is_string(), "{id}");
            assert_eq!(cut[id], result[id], "{id}");
        }
        assert_eq!(result["payload"]["sizeBytes"], original);
        let blob = BlobRef::parse(cut["outputRef"].as_str().unwrap()).unwrap();
        let (content, meta) = node.0.blobs().read_all("local", &blob).await.unwrap();
        assert_eq!((content.len() as u64, meta.media_type.as_str()), (kept, "text/plain"));
        assert!(std::str::from_utf8(&content).is_ok(), "no character is cut in two");
        let spilled = spilled.iter().find(|spilled| spilled["outputRef"] == cut["outputRef"]).unwrap();
        assert_eq!(spilled["payload"]["sizeBytes"], kept, "what can be read");
    }
    check_feed(&events);
    conform_events(&events);
    let snapshot = node.call("get_session", json!({ "sessionId": "sess_c" })).await;
    assert_eq!(snapshot["outputSummary"]["truncated"], 2);
    let read =
        node.call("get_thread_read", json!({ "sessionId": "sess_c", "threadId": cut[0]["threadId"] })).await;
    assert!(read.to_string().contains("\"truncatedFromBytes\":300000"), "{read:#}");
    let exported = node.call("export_evidence", json!({ "sessionId": "sess_c" })).await;
    let blob = BlobRef::parse(exported["ref"].as_str().unwrap()).unwrap();
    let (content, _) = node.0.blobs().read_all("local", &blob).await.unwrap();
    let evidence: Value = serde_json::from_slice(&content).unwrap();
    let kept: Vec<_> = evidence["toolCalls"]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| (call["sizeBytes"].as_u64().unwrap(), call.get("keptBytes").and_then(Value::as_u64)))
        .collect();
    assert_eq!(kept, [(300_000, Some(100_001)), (100_001, None), (json_bytes, Some(100_001))]);
    node.0.stop().await;
}

#[tokio::test]
async fn p9_a_look_is_bounded_and_what_cannot_be_removed_keeps_nothing_else_waiting() {
    let world = World::new(Retention::default());
    let node = world.node("one").await;
    let write = |number: usize| {
        let new = NewBlob {
            blob: BlobRef::parse(&format!("blob_{number:04}")).unwrap(),
            media_type: "text/plain".into(),
            session: None,
            content: "x".into(),
        };
        let blobs = node.0.blobs().clone();
        async move { drop(blobs.write("local", new).await.unwrap()) }
    };
    write(0).await;
    futures::future::join_all((1..=1_100).map(write)).await;
    // The first one to go cannot be read.
    let mut damaged = world.store().begin();
    let key = keys::data("local", &records::blob(&BlobRef::parse("blob_0000").unwrap()));
    damaged.set(key, &b"?"[..]);
    damaged.commit().await.unwrap();
    world.pass(MONTH);
    let first = node.0.sweep().await;
    assert_eq!((first.blobs, first.failures, first.more), (999, 1, true));
    let second = node.0.sweep().await;
    assert_eq!((second.blobs, second.failures, second.more), (101, 0, false), "it goes on where it ended");
    let third = node.0.sweep().await;
    assert_eq!((third.blobs, third.failures, third.more), (0, 1, false), "and tries the first one again");
    assert_eq!(world.left("local").await.keys().collect::<Vec<_>>(), ["blob_0000"]);
    node.0.stop().await;
}

#[tokio::test]
async fn a_channel_that_nobody_comes_back_to_is_forgotten_and_its_sessions_told_once() {
    use cadre::{
        fact::id::{ChannelId, SessionId},
        runtime::channels::{KEPT, Peer, Wanted},
    };
    let world = World::new(Retention::default());
    let node = world.node("one").await;
    let local = Caller::local();
    node.call("create_session", json!({ "sessionId": "sess_a" })).await;
    let session = SessionId::parse("sess_a").unwrap();
    let channel = ChannelId::parse("chan_1").unwrap();
    let wanted = Wanted { channel: Some(channel.clone()), ..Wanted::default() };
    let taken = node.0.take_channel(&local, &wanted).await.unwrap();
    let listens = node.0.listen(&local, &taken.hold, &session).await.unwrap();
    let peer = Peer::default();
    node.0.tell_listens(&local, &taken, &session, (&listens, &peer), (None, false)).await;
    // Its gateway dies here. As long as it is remembered it can be taken up.
    world.pass(KEPT - HOUR);
    assert_eq!(node.0.sweep().await.channels, 0);
    let resumed = Wanted { token: Some(taken.token.clone()), ..Wanted::default() };
    let again = node.0.take_channel(&local, &resumed).await.unwrap();
    assert_eq!((again.resumed, &again.hold.channel), (true, &channel));
    world.pass(KEPT + HOUR);
    let (one, two) = tokio::join!(node.0.sweep(), node.0.sweep());
    assert!(one.channels + two.channels >= 1);
    let events = node.events_as(&local, "sess_a").await;
    let of = |class: &str| events.iter().filter(|event| event["type"] == class).collect::<Vec<_>>();
    assert_eq!((of("channel.connected").len(), of("channel.disconnected").len()), (1, 1));
    assert_eq!(of("channel.disconnected")[0]["payload"]["reason"], "lost");
    // Its name is free, its token is not good any more.
    let refused = node.0.take_channel(&local, &resumed).await.unwrap_err();
    assert_eq!(refused.field(), Some("resumeToken"));
    assert!(!node.0.take_channel(&local, &wanted).await.unwrap().resumed);
    node.0.stop().await;
}

#[tokio::test]
async fn p8_a_resume_token_is_worth_nothing_to_another_tenant() {
    use cadre::runtime::channels::Wanted;
    let world = World::new(Retention::default());
    let node = world.node("one").await;
    let other = Caller::within("other", "other");
    let taken = node.0.take_channel(&Caller::local(), &Wanted::default()).await.unwrap();
    let stolen = Wanted { token: Some(taken.token.clone()), ..Wanted::default() };
    let refused = node.0.take_channel(&other, &stolen).await.unwrap_err();
    let forged = Wanted { token: Some(format!("{}x", taken.token)), ..Wanted::default() };
    assert_eq!(refused, node.0.take_channel(&other, &forged).await.unwrap_err(), "as if it were forged");
    // The same name is another channel.
    let named = Wanted { channel: Some(taken.hold.channel.clone()), ..Wanted::default() };
    assert!(!node.0.take_channel(&other, &named).await.unwrap().resumed);
    node.0.stop().await;
}
