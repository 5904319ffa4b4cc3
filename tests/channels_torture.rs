//! P4 under fire: channels that are cut at any moment, change the gateway and the encoding, and come back with what they
//! have, while gateways and workers are killed and drained. In the end every client's log is the feed: nothing lost,
//! nothing doubled, everything in order. The same for Server-Sent Events.
//!
//! Each node lives on a tokio runtime of its own, with a worker and a gateway. Killed, all of it stops where it stands;
//! what it had written to the store is there, and nobody says goodbye.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/channel.rs"]
mod channel;
mod common;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use cadre::{
    fact::{Cursor, Publisher, id::SessionId},
    http,
    runtime::{Caller, EventFilter, Runtime, Settings},
};
use cadre_cluster::{
    bus::LocalBus,
    clock::SystemClock,
    host::HostConfig,
    store::{
        Store,
        embedded::{Embedded, EmbeddedConfig},
    },
};
use channel::{Channel, JSON, MSGPACK};
use common::turn;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot, time::Instant};

const NODES: usize = 3;
const SESSIONS: usize = 20;
const CHANNELS: usize = 50;
const STREAMS: usize = 6;
/// How long there is fire.
const FIRE: Duration = Duration::from_secs(12);
const PATIENCE: Duration = Duration::from_secs(90);
const SEED: u64 = 4_711;

struct Node {
    tokio: tokio::runtime::Runtime,
    runtime: Runtime,
    url: String,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

impl Node {
    fn start(store: &Store, bus: &Arc<LocalBus>, life: u64) -> Self {
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let host = HostConfig { shards: 32, ..HostConfig::new("torture", &format!("node-{life}")) };
        let publisher = Publisher::new("cadre_test");
        let settings =
            Settings { host, publisher, deadline: Duration::from_secs(10), retention: Default::default() };
        let (runtime, listener) = tokio.block_on(async {
            let runtime = Runtime::start(settings, store.clone(), bus.clone(), Arc::new(SystemClock), life)
                .await
                .unwrap();
            (runtime, TcpListener::bind("127.0.0.1:0").await.unwrap())
        });
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let server = http::serve(runtime.clone(), listener, async { drop(stopped.await) });
        let served = tokio.spawn(async { server.await.unwrap() });
        Self { tokio, runtime, url, stop, served }
    }

    /// As a crash would.
    fn kill(self) {
        self.tokio.shutdown_background();
    }

    /// As an upgrade would.
    fn drain(self) {
        let _ = self.stop.send(());
        let (served, runtime) = (self.served, self.runtime);
        self.tokio.block_on(async {
            served.await.unwrap();
            runtime.stop().await;
        });
    }
}

/// Where gateways are right now.
type Urls = Arc<Mutex<Vec<String>>>;

fn pick(urls: &Urls, rng: &mut StdRng) -> String {
    urls.lock().unwrap().choose(rng).unwrap().clone()
}

/// What a client has, by session.
type Log = BTreeMap<String, Vec<Value>>;

fn last(log: &Log, session: &str) -> Option<String> {
    Some(log.get(session)?.last()?["cursor"].as_str().unwrap().to_owned())
}

/// One client of a channel.
struct Client {
    rng: StdRng,
    urls: Urls,
    sessions: Vec<String>,
    log: Log,
    channel: String,
    token: Option<String>,
    cuts: usize,
    resumed: usize,
}

impl Client {
    /// Follows until it is cut, or until it has everything up to `ends`.
    async fn connect(&mut self, for_at_most: Duration, ends: Option<&BTreeMap<String, String>>) -> bool {
        let (url, encoding) =
            (pick(&self.urls, &mut self.rng), *[JSON, MSGPACK].choose(&mut self.rng).unwrap());
        let Ok(mut channel) = Channel::try_connect(&url, Some(encoding)).await else { return false };
        let hello = match &self.token {
            Some(token) => json!({ "op": "hello", "channelId": self.channel, "resumeToken": token }),
            None => json!({ "op": "hello" }),
        };
        let done = tokio::time::timeout(for_at_most, self.follow(&mut channel, hello, ends)).await;
        let is_done = matches!(done, Ok(Some(())));
        if !is_done && self.rng.random_bool(0.7) {
            channel.cut().await;
        }
        self.cuts += usize::from(!is_done);
        is_done
    }

    /// `None` when the server ends it.
    async fn follow(
        &mut self,
        channel: &mut Channel,
        hello: Value,
        ends: Option<&BTreeMap<String, String>>,
    ) -> Option<()> {
        channel.try_say(&hello).await.ok()?;
        let welcome = channel.try_hear().await?;
        if welcome["op"] != "welcome" {
            assert_eq!(welcome["error"]["retryable"], true, "{welcome}");
            return None;
        }
        if let Some(token) = &self.token {
            assert_eq!((&welcome["resumed"], &welcome["channelId"]), (&json!(true), &json!(self.channel)));
            assert!(!token.is_empty());
            self.resumed += 1;
        }
        self.channel = welcome["channelId"].as_str().unwrap().to_owned();
        self.token = Some(welcome["resumeToken"].as_str().unwrap().to_owned());
        let acked: BTreeMap<&str, &str> = welcome["subscriptions"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| Some((one["sessionId"].as_str()?, one["acked"].as_str()?)))
            .collect();
        for session in self.sessions.clone() {
            let mut subscribe = json!({ "op": "subscribe", "sessionId": session, "snapshot": false });
            let known = last(&self.log, &session);
            match (acked.get(session.as_str()), known) {
                // It goes on where it said it was, and has forgotten what came after that.
                (Some(acked), Some(known)) if self.rng.random_bool(0.5) => {
                    assert!(*acked <= known.as_str(), "nothing was acknowledged that was not seen");
                    self.log
                        .get_mut(&session)
                        .unwrap()
                        .retain(|event| event["cursor"].as_str().unwrap() <= *acked);
                }
                (_, Some(known)) => subscribe["after"] = json!(known),
                (Some(acked), None) => panic!("{acked} was acknowledged by somebody else"),
                (None, None) => {}
            }
            channel.try_say(&subscribe).await.ok()?;
        }
        channel.try_say(&json!({ "op": "credit", "events": 1_000 })).await.ok()?;
        let mut received = 0;
        loop {
            let mut frame = channel.try_hear().await?;
            match frame["op"].as_str().unwrap() {
                "event" => {
                    let session = frame["sessionId"].as_str().unwrap().to_owned();
                    let event = frame["event"].take();
                    assert_eq!(event["cursor"], frame["cursor"]);
                    self.log.entry(session.clone()).or_default().push(event);
                    received += 1;
                    if received % 200 == 0 {
                        channel.try_say(&json!({ "op": "credit", "events": 200 })).await.ok()?;
                    }
                    if self.rng.random_bool(0.05) {
                        let ack = json!({ "op": "ack", "sessionId": session, "cursor": frame["cursor"] });
                        channel.try_say(&ack).await.ok()?;
                    }
                }
                "caught_up" => {}
                "bye" => return None,
                "error" => assert_eq!(frame["error"]["retryable"], true, "{frame}"),
                other => panic!("{other}: {frame}"),
            }
            if let Some(ends) = ends
                && self.sessions.iter().all(|session| last(&self.log, session).as_ref() >= ends.get(session))
            {
                return Some(());
            }
        }
    }
}

/// A client of Server-Sent Events that comes back with `Last-Event-ID`, until it has everything up to `end`.
fn stream(urls: &Urls, session: &str, seed: u64, end: &Mutex<Option<String>>) -> (Vec<Value>, usize) {
    let (mut rng, mut log, mut cuts) = (StdRng::seed_from_u64(seed), Vec::<Value>::new(), 0);
    let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
    let agent: ureq::Agent = config.timeout_per_read(Some(Duration::from_secs(2))).build().into();
    let is_done = |log: &[Value]| {
        let end = end.lock().unwrap();
        end.as_ref().is_some_and(|end| log.last().is_some_and(|event| event["cursor"].as_str() >= Some(end)))
    };
    let begun = Instant::now();
    while !is_done(&log) {
        assert!(begun.elapsed() < PATIENCE, "a stream does not reach the end");
        let url = format!("{}/v1/sessions/{session}/stream", pick(urls, &mut rng));
        let mut request = agent.get(&url);
        request = match log.last() {
            Some(event) => request.header("Last-Event-ID", event["cursor"].as_str().unwrap()),
            None => request.query("after", "0".repeat(32)),
        };
        let cut_after = rng.random_range(1..400);
        let Ok(response) = request.call() else {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if response.status() != 200 {
            std::thread::sleep(Duration::from_millis(50));
            continue;
        }
        let mut class = String::new();
        for line in BufReader::new(response.into_body().into_reader()).lines().take(cut_after) {
            let Ok(line) = line else { break };
            match line.split_once(": ") {
                Some(("event", name)) => class = name.to_owned(),
                Some(("data", data)) if class == "fact" => {
                    // A line that was cut has no end, and is no line.
                    let Ok(event) = serde_json::from_str(data) else { break };
                    log.push(event);
                }
                _ => {}
            }
            if is_done(&log) {
                break;
            }
        }
        cuts += 1;
    }
    (log, cuts)
}

async fn feed(runtime: &Runtime, session: &str) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), Cursor::START);
    let id = SessionId::parse(session).unwrap();
    loop {
        let page =
            runtime.events(&Caller::local(), &id, after, 1_000, &EventFilter::default()).await.unwrap();
        all.extend(
            page.events
                .iter()
                .map(|event| serde_json::to_value(runtime.publisher().envelope(event)).unwrap()),
        );
        after = page.cursor;
        if !page.more {
            return all;
        }
    }
}

/// Submits turns to a session until the fire is out, each until it is answered.
async fn load(urls: Urls, session: String, seed: u64, fire: Arc<AtomicBool>) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut turns = 0;
    while turns == 0 || fire.load(Ordering::Relaxed) {
        let script = json!([
            { "say": "some text that is said in parts", "chunks": rng.random_range(1..6) },
            { "tool": "echo", "args": { "n": turns } },
            { "spawn": { "count": rng.random_range(0..4), "script": [{ "say": "child" }], "join": "all" } },
            { "sleep": rng.random_range(1..60) },
            { "say": "{{turn}}" },
        ]);
        let key = format!("{session}-{turns:06}");
        let frame = json!({ "op": "command", "id": "1", "name": "submit_turn", "args": turn(&session, script), "idempotencyKey": key });
        'answered: loop {
            let url = pick(&urls, &mut rng);
            let Ok(mut channel) = Channel::try_connect(&url, Some(JSON)).await else { continue };
            let asked = async {
                channel.try_say(&json!({ "op": "hello" })).await.ok()?;
                channel.try_say(&frame).await.ok()?;
                loop {
                    let heard = channel.try_hear().await?;
                    if heard["op"] == "result" {
                        return Some(heard);
                    }
                }
            };
            if let Ok(Some(answer)) = tokio::time::timeout(Duration::from_secs(5), asked).await {
                match answer["error"].is_null() {
                    true => break 'answered,
                    false => assert_eq!(answer["error"]["retryable"], true, "{answer}"),
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        turns += 1;
        tokio::time::sleep(Duration::from_millis(rng.random_range(50..400))).await;
    }
    turns
}

#[test]
fn p4_every_log_is_the_feed_after_cuts_kills_and_drains() {
    let folder = tempfile::tempdir().unwrap();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let embedded = Embedded::open(EmbeddedConfig::new(folder.path())).unwrap();
    let (store, bus) = (embedded.store(), Arc::new(LocalBus::new()));
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut nodes: Vec<Node> = (0..NODES as u64).map(|life| Node::start(&store, &bus, life)).collect();
    let urls: Urls = Arc::new(Mutex::new(nodes.iter().map(|node| node.url.clone()).collect()));
    let sessions: Vec<String> = (0..SESSIONS).map(|n| format!("sess_{n:02}")).collect();
    let fire = Arc::new(AtomicBool::new(true));
    let loads: Vec<_> = sessions
        .iter()
        .zip(1_000..)
        .map(|(session, seed)| tokio.spawn(load(urls.clone(), session.clone(), seed, fire.clone())))
        .collect();
    // Everybody follows sessions that are there.
    tokio.block_on(async {
        for session in &sessions {
            let begun = Instant::now();
            while feed(&nodes[0].runtime, session).await.is_empty() {
                assert!(begun.elapsed() < PATIENCE, "{session} does not begin");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    let ends = Arc::new(Mutex::new(None::<BTreeMap<String, String>>));
    let all_cuts = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CHANNELS as u64)
        .map(|number| {
            let mut rng = StdRng::seed_from_u64(SEED + number);
            let mut client = Client {
                sessions: sessions.choose_multiple(&mut rng, 3).cloned().collect(),
                rng,
                urls: urls.clone(),
                log: Log::new(),
                channel: String::new(),
                token: None,
                cuts: 0,
                resumed: 0,
            };
            let (ends, all_cuts) = (ends.clone(), all_cuts.clone());
            tokio.spawn(async move {
                let begun = Instant::now();
                loop {
                    assert!(begun.elapsed() < PATIENCE + FIRE, "a channel does not reach the end");
                    let known = ends.lock().unwrap().clone();
                    let time = match &known {
                        Some(_) => Duration::from_secs(20),
                        None => Duration::from_millis(client.rng.random_range(1..1_500)),
                    };
                    if client.connect(time, known.as_ref()).await {
                        all_cuts.fetch_add(client.cuts, Ordering::Relaxed);
                        return client;
                    }
                    tokio::time::sleep(Duration::from_millis(client.rng.random_range(0..50))).await;
                }
            })
        })
        .collect();
    let stream_ends: Vec<Arc<Mutex<Option<String>>>> = (0..STREAMS).map(|_| Arc::default()).collect();
    let streams: Vec<_> = (0..STREAMS)
        .map(|n| {
            let (urls, session, end) = (urls.clone(), sessions[n].clone(), stream_ends[n].clone());
            std::thread::spawn(move || stream(&urls, &session, n as u64, &end))
        })
        .collect();

    // The fire.
    let (begun, mut life, mut killed, mut drained) = (Instant::now(), NODES as u64, 0, 0);
    while begun.elapsed() < FIRE {
        std::thread::sleep(Duration::from_millis(rng.random_range(500..1_500)));
        let victim = rng.random_range(0..nodes.len());
        urls.lock().unwrap().remove(victim);
        let node = nodes.remove(victim);
        match rng.random_bool(0.5) {
            true => {
                node.kill();
                killed += 1;
            }
            false => {
                node.drain();
                drained += 1;
            }
        }
        nodes.push(Node::start(&store, &bus, life));
        urls.lock().unwrap().push(nodes.last().unwrap().url.clone());
        life += 1;
    }
    fire.store(false, Ordering::Relaxed);
    let turns: usize = tokio.block_on(async {
        let mut turns = 0;
        for load in loads {
            turns += load.await.unwrap();
        }
        turns
    });

    // P7: all turns end. What comes after that is about the channels themselves.
    let over = tokio.block_on(async {
        let begun = Instant::now();
        loop {
            let mut over = 0;
            for session in &sessions {
                let events = feed(&nodes[0].runtime, session).await;
                let is_over =
                    |event: &&Value| event["type"] == "turn.completed" || event["type"] == "turn.failed";
                over += events.iter().filter(is_over).filter(|event| event["subagentId"].is_null()).count();
            }
            if over >= turns {
                return over;
            }
            assert!(begun.elapsed() < PATIENCE, "{over} of {turns} turns have ended");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    assert_eq!(over, turns, "each turn ends once");
    let feeds: BTreeMap<String, Vec<Value>> = tokio.block_on(async {
        let mut feeds = BTreeMap::new();
        for session in &sessions {
            feeds.insert(session.clone(), feed(&nodes[0].runtime, session).await);
        }
        feeds
    });
    let last_of = |session: &String| feeds[session].last().unwrap()["cursor"].as_str().unwrap().to_owned();
    *ends.lock().unwrap() =
        Some(sessions.iter().map(|session| (session.clone(), last_of(session))).collect());
    for (end, session) in stream_ends.iter().zip(&sessions) {
        *end.lock().unwrap() = Some(last_of(session));
    }

    let same = |who: &str, session: &str, log: &[Value]| {
        let end = last_of(&session.to_owned());
        let log: Vec<_> =
            log.iter().filter(|event| event["cursor"].as_str().unwrap() <= end.as_str()).collect();
        let feed: Vec<_> = feeds[session].iter().collect();
        let first = (0..log.len().max(feed.len())).find(|n| log.get(*n) != feed.get(*n));
        if let Some(first) = first {
            panic!(
                "{who} in {session}: {} events of {}; the first that differs is {first}: {:?}, not {:?}",
                log.len(),
                feed.len(),
                log.get(first).map(|event| (&event["cursor"], &event["type"])),
                feed.get(first).map(|event| (&event["cursor"], &event["type"])),
            );
        }
    };
    let (mut events, mut resumed) = (0, 0);
    for (number, client) in clients.into_iter().enumerate() {
        let client = tokio.block_on(client).unwrap();
        resumed += client.resumed;
        for (session, log) in &client.log {
            events += log.len();
            same(&format!("channel {number}"), session, log);
        }
        assert_eq!(client.log.len(), 3);
    }
    let mut stream_cuts = 0;
    for (number, stream) in streams.into_iter().enumerate() {
        let (log, cuts) = stream.join().unwrap();
        stream_cuts += cuts;
        same(&format!("stream {number}"), &sessions[number], &log);
    }
    let cuts = all_cuts.load(Ordering::Relaxed);
    println!(
        "{turns} turns, {events} events to {CHANNELS} channels, {cuts} cuts, {resumed} resumed, {stream_cuts} streams \
         begun, {killed} nodes killed, {drained} drained"
    );
    assert!(cuts > CHANNELS && resumed > CHANNELS && stream_cuts > STREAMS && killed > 0 && drained > 0);
    for node in nodes {
        node.drain();
    }
    tokio.block_on(embedded.close());
}
