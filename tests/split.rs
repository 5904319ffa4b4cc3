//! A gateway without a worker: the control plane of one runtime, in front of the entities of another (P2, P4, P8).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use cadre::{
    control::Code,
    fact::{Publisher, id::SessionId},
    http,
    runtime::{Caller, EventFilter, Runtime, Settings},
};
use cadre_cluster::{
    bus::{Bus, LocalBus, nats::NatsBus, nats::testing::NatsServer},
    clock::{Clock, SystemClock},
    host::HostConfig,
    placement::{Takeover, begin_feed_epoch},
    store::{
        Store,
        embedded::{Embedded, EmbeddedConfig},
    },
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot};

const PATIENCE: Duration = Duration::from_secs(60);

/// One store, and buses to reach it by.
struct Cluster {
    embedded: Embedded,
    _folder: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let embedded = Embedded::open(EmbeddedConfig::new(folder.path())).unwrap();
        Self { embedded, _folder: folder }
    }

    fn store(&self) -> Store {
        self.embedded.store()
    }

    fn settings(name: &str) -> Settings {
        let host = HostConfig {
            takeover: Takeover::AtOnce,
            shards: 8,
            lease_ttl: Duration::from_millis(800),
            heartbeat_every: Duration::from_millis(100),
            ..HostConfig::new("test", name)
        };
        Settings {
            host,
            publisher: Publisher::new("test"),
            deadline: PATIENCE,
            retention: Default::default(),
        }
    }

    async fn worker(&self, name: &str, bus: Bus) -> Runtime {
        let clock = Arc::new(SystemClock);
        Runtime::start(Self::settings(name), self.store(), bus, clock, 1).await.unwrap()
    }

    async fn gateway(&self, bus: Bus) -> Runtime {
        let clock = Arc::new(SystemClock);
        Runtime::connect(Self::settings("gateway"), self.store(), bus, clock, 2).await.unwrap()
    }
}

fn turn(session: &str) -> Value {
    let script = json!([{ "say": "hello" }, { "spawn": { "count": 3, "script": [{ "say": "me too" }], "join": "all" } }]);
    json!({ "sessionId": session, "agent": "scripted", "input": [{ "type": "text", "text": script.to_string() }] })
}

async fn call(runtime: &Runtime, name: &str, args: Value, key: Option<&str>) -> Value {
    match runtime.call(&Caller::local(), name, args, key, PATIENCE).await {
        Ok(answer) => answer.result,
        Err(error) => panic!("{name}: {}", error.to_json()),
    }
}

/// Everything that is told of a session until its turn is over.
async fn followed(runtime: &Runtime, session: &str) -> Vec<String> {
    let session: SessionId = session.parse().unwrap();
    let start = cadre::fact::Cursor::START;
    let mut follow = runtime.follow(&Caller::local(), &session, start, EventFilter::default());
    let mut told = Vec::new();
    let following = async {
        loop {
            for event in follow.next().await.unwrap().events {
                let envelope = serde_json::to_value(runtime.publisher().envelope(&event)).unwrap();
                let (class, id) = (envelope["type"].as_str().unwrap(), envelope["eventId"].as_str().unwrap());
                told.push(format!("{class} {id}"));
                if class.starts_with("turn.completed") && envelope["subagentId"].is_null() {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, following).await.expect("the turn ends");
    told
}

async fn until_ready(runtime: &Runtime) {
    let ready = async {
        while runtime.ready(PATIENCE).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ready).await.expect("it gets ready");
}

async fn serves_what_another_hosts(cluster: &Cluster, near: Bus, far: Bus) {
    let worker = cluster.worker("one", near).await;
    let gateway = cluster.gateway(far).await;
    until_ready(&worker).await;
    until_ready(&gateway).await;
    assert!(worker.hosts() && !gateway.hosts());
    let accepted = call(&gateway, "submit_turn", turn("s"), Some("a-key-of-it")).await;
    assert_eq!(accepted["status"], "accepted");
    let (there, here) = tokio::join!(followed(&gateway, "s"), followed(&worker, "s"));
    assert_eq!(there, here, "P4: both see the same feed");
    assert!(there.iter().filter(|told| told.starts_with("subagent.completed")).count() == 3, "{there:?}");
    let again = call(&gateway, "submit_turn", turn("s"), Some("a-key-of-it")).await;
    assert_eq!(again, accepted, "P3: whoever is asked");
    let snapshots = [
        call(&gateway, "get_session", json!({ "sessionId": "s" }), None).await,
        call(&worker, "get_session", json!({ "sessionId": "s" }), None).await,
    ];
    assert_eq!(snapshots[0], snapshots[1]);
    let stranger = Caller::within("other", "x");
    let refused = gateway.call(&stranger, "get_session", json!({ "sessionId": "s" }), None, PATIENCE).await;
    assert_eq!(refused.unwrap_err().code, Code::NotFound, "P8");
    // It hosts nothing: when the worker leaves, nothing is done and nothing is lost.
    worker.stop().await;
    let me = Caller::local();
    let unserved =
        gateway.call(&me, "submit_turn", turn("t"), Some("another-key"), Duration::from_secs(2)).await;
    let code = unserved.unwrap_err().code;
    assert!(matches!(code, Code::Unavailable | Code::DeadlineExceeded), "{code:?}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_serves_what_a_worker_hosts() {
    let cluster = Cluster::new();
    let bus = Arc::new(LocalBus::new());
    serves_what_another_hosts(&cluster, bus.clone(), bus).await;
    cluster.embedded.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_reaches_its_worker_over_nats() {
    let (cluster, server) = (Cluster::new(), NatsServer::start());
    let near = Arc::new(NatsBus::connect(&server.config()).await.unwrap());
    let far = Arc::new(NatsBus::connect(&server.config()).await.unwrap());
    serves_what_another_hosts(&cluster, near, far).await;
    cluster.embedded.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p7_a_gateway_goes_on_when_its_worker_is_replaced() {
    let (cluster, bus) = (Cluster::new(), Arc::new(LocalBus::new()));
    let first = cluster.worker("one", bus.clone()).await;
    let gateway = cluster.gateway(bus.clone()).await;
    until_ready(&first).await;
    call(&gateway, "submit_turn", turn("a"), None).await;
    first.kill().await;
    let second = cluster.worker("two", bus).await;
    call(&gateway, "submit_turn", turn("b"), None).await;
    for session in ["a", "b"] {
        followed(&gateway, session).await;
    }
    second.stop().await;
    gateway.stop().await;
    cluster.embedded.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p4_a_gateway_of_before_a_restore_is_not_ready() {
    let (cluster, bus) = (Cluster::new(), Arc::new(LocalBus::new()));
    let gateway = cluster.gateway(bus.clone()).await;
    gateway.ready(PATIENCE).await.unwrap();
    begin_feed_epoch(&cluster.store(), SystemClock.now()).await.unwrap();
    let reason = gateway.ready(PATIENCE).await.unwrap_err();
    assert!(reason.contains("restored"), "{reason}");
    cluster.gateway(bus).await.ready(PATIENCE).await.unwrap();
    cluster.embedded.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_without_a_gateway_answers_those_who_watch_and_nobody_else() {
    let (cluster, bus) = (Cluster::new(), Arc::new(LocalBus::new()));
    let worker = cluster.worker("one", bus).await;
    until_ready(&worker).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(http::serve_health(worker.clone(), listener, async { drop(stopped.await) }));
    let asked = tokio::task::block_in_place(|| {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        ["/healthz", "/readyz", "/metrics", "/v1/commands", "/v1/sessions/s/events", "/openapi.json"]
            .map(|path| agent.get(format!("{url}{path}")).call().unwrap().status().as_u16())
    });
    assert_eq!(asked, [200, 200, 200, 404, 404, 404]);
    stop.send(()).unwrap();
    served.await.unwrap().unwrap();
    worker.stop().await;
    cluster.embedded.close().await;
}
