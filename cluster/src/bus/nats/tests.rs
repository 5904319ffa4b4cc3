use std::{fs, net::TcpListener, path::Path, sync::Arc, time::Duration};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use bytes::Bytes;
use futures::future::join_all;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use super::{ConnectError, Credentials, NatsBus, NatsConfig, TlsConfig, testing::NatsServer};
use crate::bus::{
    Driver, Headers, PublishError, RequestError, Subject, SubscribeError, Subscription, TRACEPARENT,
};

mod conformance {
    use super::*;
    use crate::bus::conformance::Pair;

    async fn pair(server: &NatsServer) -> Pair {
        let config = NatsConfig { subscription_capacity: 64, ..server.config() };
        let one = NatsBus::connect(&config).await.unwrap();
        let other = NatsBus::connect(&config).await.unwrap();
        Pair { one: Arc::new(one), other: Arc::new(other), queue_capacity: 64 }
    }

    crate::bus_conformance!(pair(&NatsServer::start()).await);
}

const PATIENCE: Duration = Duration::from_secs(10);

fn subject(text: &str) -> Subject {
    Subject::from_wire(text)
}

async fn ask(bus: &NatsBus, to: &str, patience: Duration) -> Result<Bytes, RequestError> {
    bus.request(&subject(to), Headers::default(), Bytes::from_static(b"?"), patience).await
}

async fn publish(bus: &NatsBus, to: &str, payload: &'static str) -> Result<(), PublishError> {
    bus.publish(&subject(to), Headers::default(), Bytes::from_static(payload.as_bytes())).await
}

async fn next(subscription: &mut dyn Subscription) -> Bytes {
    timeout(PATIENCE, subscription.next()).await.expect("a message arrives").expect("the bus is open").payload
}

async fn echo(bus: &NatsBus, pattern: &str) {
    let mut subscription = bus.subscribe(&subject(pattern)).await.unwrap();
    tokio::spawn(async move {
        while let Some(delivery) = subscription.next().await {
            if let Some(reply) = delivery.reply {
                let _ = reply.send(delivery.payload).await;
            }
        }
    });
}

/// Waits for what a background task brings about.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "{what} did not happen");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_that_goes_and_comes_back_is_found_again_by_the_old_handles() {
    let mut server = NatsServer::start();
    let (one, two) = (
        NatsBus::connect(&server.config()).await.unwrap(),
        NatsBus::connect(&server.config()).await.unwrap(),
    );
    echo(&two, "echo").await;
    let mut bell = two.subscribe(&subject("bell.>")).await.unwrap();
    assert_eq!(ask(&one, "echo", PATIENCE).await, Ok(Bytes::from_static(b"?")));

    server.stop();
    let (patience, start) = (Duration::from_millis(300), Instant::now());
    let mut not_sent = 0;
    while start.elapsed() < Duration::from_secs(2) {
        let asked = Instant::now();
        match ask(&one, "echo", patience).await {
            Err(RequestError::NotSent { .. }) => not_sent += 1,
            Err(RequestError::TimedOut { .. } | RequestError::NoResponders { .. }) => {}
            other => panic!("there is no server: {other:?}"),
        }
        assert!(asked.elapsed() < patience + Duration::from_millis(500), "a request hung");
        sleep(Duration::from_millis(10)).await;
    }
    assert!(not_sent > 0);
    assert!(matches!(publish(&one, "bell.x", "lost").await, Err(PublishError::Unavailable { .. })));
    assert!(matches!(one.subscribe(&subject("x")).await, Err(SubscribeError::Unavailable { .. })));
    assert!(!one.is_connected());

    server.restart();
    eventually("a reconnect", async || one.is_connected() && two.is_connected()).await;
    eventually("an answer", async || ask(&one, "echo", patience).await.is_ok()).await;
    publish(&one, "bell.x", "back").await.unwrap();
    assert_eq!(next(&mut *bell).await, "back");
    let mut late = one.subscribe(&subject("late")).await.unwrap();
    publish(&two, "late", "x").await.unwrap();
    assert_eq!(next(&mut *late).await, "x");
}

#[tokio::test]
async fn messages_sent_without_a_connection_neither_wait_nor_arrive_later() {
    let mut server = NatsServer::start();
    let bus = NatsBus::connect(&server.config()).await.unwrap();
    let mut subscription = bus.subscribe(&subject("a")).await.unwrap();
    server.stop();
    eventually("the loss", async || !bus.is_connected()).await;
    let start = Instant::now();
    for _ in 0..10_000 {
        assert!(matches!(publish(&bus, "a", "lost").await, Err(PublishError::Unavailable { .. })));
    }
    for _ in 0..100 {
        assert!(matches!(ask(&bus, "a", PATIENCE).await, Err(RequestError::NotSent { .. })));
    }
    assert!(start.elapsed() < PATIENCE);
    server.restart();
    eventually("a message", async || publish(&bus, "a", "new").await.is_ok()).await;
    assert_eq!(next(&mut *subscription).await, "new");
}

#[tokio::test]
async fn a_frozen_server_makes_nobody_wait_past_the_timeout() {
    let mut server = NatsServer::start();
    let config = NatsConfig {
        connect_timeout_ms: 500,
        ping_interval_ms: 200,
        reconnect_delay_ms_max: 100,
        ..server.config()
    };
    let bus = NatsBus::connect(&config).await.unwrap();
    echo(&bus, "echo").await;
    server.freeze();
    let start = Instant::now();
    let patience = Duration::from_millis(300);
    assert!(matches!(
        ask(&bus, "echo", patience).await,
        Err(RequestError::TimedOut { .. } | RequestError::NotSent { .. })
    ));
    assert!(bus.subscribe(&subject("x")).await.is_err());
    let refused = NatsBus::connect(&config).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Unreachable { timeout_ms: 500, .. }), "{refused}");
    assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
    eventually("the loss is noticed", async || !bus.is_connected()).await;
    server.thaw();
    eventually("an answer", async || ask(&bus, "echo", patience).await.is_ok()).await;
}

#[tokio::test]
async fn requests_beyond_the_capacity_wait_their_turn_and_forget_nothing() {
    let server = NatsServer::start();
    let config = NatsConfig { subscription_capacity: 8, ..server.config() };
    let (bus, responder) = (NatsBus::connect(&config).await.unwrap(), server.config());
    echo(&NatsBus::connect(&responder).await.unwrap(), "echo.>").await;
    let asked = (0..500).map(|n| {
        let (bus, question) = (&bus, Bytes::from(n.to_string()));
        async move {
            let answer =
                bus.request(&subject("echo.x"), Headers::default(), question.clone(), PATIENCE).await;
            assert_eq!(answer, Ok(question));
        }
    });
    join_all(asked).await;
    assert_eq!(bus.inbox.waiting_count(), 0);
}

#[tokio::test]
async fn a_subscription_does_not_wait_behind_requests() {
    let server = NatsServer::start();
    let config = NatsConfig { subscription_capacity: 2, ..server.config() };
    let bus = NatsBus::connect(&config).await.unwrap();
    let _silent = bus.subscribe(&subject("silent")).await.unwrap();
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let bus = bus.clone();
            tokio::spawn(async move { ask(&bus, "silent", 2 * PATIENCE).await })
        })
        .collect();
    eventually("a full inbox", async || bus.inbox.waiting_count() == 2).await;
    bus.subscribe(&subject("new")).await.unwrap();
    waiting.iter().for_each(|request| request.abort());
}

#[tokio::test]
async fn requests_that_nobody_answers_leave_nothing_behind() {
    let server = NatsServer::start();
    let bus = NatsBus::connect(&server.config()).await.unwrap();
    let _silent = bus.subscribe(&subject("silent")).await.unwrap();
    let timed_out = (0..100).map(|_| ask(&bus, "silent", Duration::from_millis(50)));
    for answer in join_all(timed_out).await {
        assert_eq!(answer, Err(RequestError::TimedOut { timeout_ms: 50 }));
    }
    assert_eq!(bus.inbox.waiting_count(), 0);
}

#[tokio::test]
async fn the_server_sets_the_size_limit_and_headers_count() {
    let server = NatsServer::start_with("max_payload: 4096");
    let bus = NatsBus::connect(&server.config()).await.unwrap();
    let mut subscription = bus.subscribe(&subject("a")).await.unwrap();
    assert_eq!(bus.max_payload(), 3072);
    let sent = |payload: usize, header: usize| {
        let mut headers = Headers::default();
        headers.set(TRACEPARENT, &"x".repeat(header));
        let (bus, payload) = (&bus, Bytes::from(vec![1; payload]));
        async move { bus.publish(&subject("a"), headers, payload).await }
    };
    assert_eq!(sent(3073, 1).await, Err(PublishError::TooLarge { limit: 3072, actual: 3073 }));
    // `NATS/1.0`, `traceparent: `, and three line ends of two bytes: 27 bytes around the value.
    assert_eq!(sent(3000, 1070).await, Err(PublishError::TooLarge { limit: 4096, actual: 4097 }));
    sent(3000, 1069).await.unwrap();
    assert_eq!(next(&mut *subscription).await.len(), 3000);
    assert!(bus.is_connected(), "the server found nothing too large");
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_connection() {
    let server = NatsServer::start_with("max_connections: 1");
    // The look whether the server is ready was a connection too, which it may not have given up yet.
    let mut bus = None;
    eventually("a place", async || {
        bus = NatsBus::connect(&server.config()).await.ok();
        bus.is_some()
    })
    .await;
    let bus = bus.unwrap();
    let subscription = bus.subscribe(&subject("a")).await.unwrap();
    let full = NatsBus::connect(&server.config()).await.unwrap_err();
    assert!(matches!(full, ConnectError::Unreachable { .. }), "{full}");
    drop(bus);
    drop(subscription);
    eventually("a free place", async || NatsBus::connect(&server.config()).await.is_ok()).await;
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_unreachable() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = NatsConfig { servers: vec![format!("nats://127.0.0.1:{port}")], ..NatsConfig::default() };
    let error = NatsBus::connect(&config).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

#[tokio::test]
async fn somebody_who_accepts_and_says_nothing_is_unreachable_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = vec![silent.local_addr().unwrap().to_string()];
    let config = NatsConfig { servers, connect_timeout_ms: 200, ..NatsConfig::default() };
    let start = Instant::now();
    let error = NatsBus::connect(&config).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { timeout_ms: 200, .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn one_live_server_of_several_is_enough() {
    let server = NatsServer::start();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = vec![silent.local_addr().unwrap().to_string(), server.url()];
    let config = NatsConfig { servers, connect_timeout_ms: 3_000, ..NatsConfig::default() };
    NatsBus::connect(&config).await.unwrap();
}

#[tokio::test]
async fn wrong_credentials_are_refused_and_right_ones_are_not() {
    let password = |password: &str| Credentials::Password { user: "ada".into(), password: password.into() };
    let token = |token: &str| Credentials::Token(token.into());
    for (settings, right, wrong) in [
        (r#"authorization { user: ada, password: right }"#, password("right"), password("wrong")),
        (r#"authorization { token: right }"#, token("right"), token("wrong")),
    ] {
        let server = NatsServer::start_with(settings);
        for credentials in [wrong, Credentials::None] {
            let error = NatsBus::connect(&NatsConfig { credentials, ..server.config() }).await.unwrap_err();
            assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
            assert!(!error.to_string().contains("wrong"), "{error}");
        }
        NatsBus::connect(&NatsConfig { credentials: right, ..server.config() }).await.unwrap();
    }
}

#[tokio::test]
async fn an_nkey_proves_who_we_are() {
    let (ours, theirs) = (nkeys::KeyPair::new_user(), nkeys::KeyPair::new_user());
    let settings = format!("authorization {{ users: [ {{ nkey: {} }} ] }}", ours.public_key());
    let server = NatsServer::start_with(&settings);
    let connect = |seed: String| {
        let config = NatsConfig { credentials: Credentials::NkeySeed((*seed).into()), ..server.config() };
        async move { NatsBus::connect(&config).await }
    };
    connect(ours.seed().unwrap()).await.unwrap();
    for bad in ["SUANOSEED".into(), theirs.seed().unwrap()] {
        let error = connect(bad).await.unwrap_err();
        assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
        assert!(!error.to_string().contains("SUA"), "{error}");
    }
}

/// A token of the kind NATS uses: claims about a key, signed by another.
fn jwt(issuer: &nkeys::KeyPair, subject: &nkeys::KeyPair, kind: &str) -> String {
    let header = BASE64_URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"ed25519-nkey"}"#);
    let unlimited = match kind {
        "user" => r#""subs":-1,"data":-1,"payload":-1"#,
        _ => r#""limits":{"subs":-1,"data":-1,"payload":-1,"conn":-1,"leaf":-1,"imports":-1,"exports":-1}"#,
    };
    let claims = BASE64_URL_SAFE_NO_PAD.encode(format!(
        r#"{{"jti":"x","iat":1700000000,"iss":"{}","sub":"{}","name":"test","nats":{{"type":"{kind}","version":2,{unlimited}}}}}"#,
        issuer.public_key(),
        subject.public_key(),
    ));
    let signed = format!("{header}.{claims}");
    let signature = BASE64_URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
    format!("{signed}.{signature}")
}

fn creds(issuer: &nkeys::KeyPair, user: &nkeys::KeyPair) -> String {
    format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        jwt(issuer, user, "user"),
        user.seed().unwrap()
    )
}

#[tokio::test]
async fn a_credentials_file_proves_who_we_are() {
    let (operator, account) = (nkeys::KeyPair::new_operator(), nkeys::KeyPair::new_account());
    let server = NatsServer::start_with(&format!(
        "operator: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {} }}",
        jwt(&operator, &operator, "operator"),
        account.public_key(),
        jwt(&operator, &account, "account"),
    ));
    let folder = tempfile::tempdir().unwrap();
    let connect = |text: String| {
        let path = folder.path().join("user.creds");
        fs::write(&path, &text).unwrap();
        let server = server.config();
        async move {
            let file = NatsConfig { credentials: Credentials::File(path), ..server.clone() };
            let inline = NatsConfig { credentials: Credentials::Inline((*text).into()), ..server };
            [NatsBus::connect(&file).await, NatsBus::connect(&inline).await]
        }
    };
    let user = nkeys::KeyPair::new_user();
    for bus in connect(creds(&account, &user)).await {
        let bus = bus.unwrap();
        echo(&bus, "echo").await;
        assert_eq!(ask(&bus, "echo", PATIENCE).await, Ok(Bytes::from_static(b"?")));
    }
    for refused in connect(creds(&nkeys::KeyPair::new_account(), &user)).await {
        let error = refused.unwrap_err();
        assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
        assert!(!error.to_string().contains("SUA"), "{error}");
    }
}

/// An authority and certificates that it signed.
struct Authority {
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec!["127.0.0.1".into(), "localhost".into()]).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            fs::write(folder.path().join(format!("{name}.pem")), certificate.pem()).unwrap();
            fs::write(folder.path().join(format!("{name}.key")), key.serialize_pem()).unwrap();
        }
        Self { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn server(&self, verify: bool) -> NatsServer {
        let folder = self.path().display();
        NatsServer::start_with(&format!(
            "tls {{ cert_file: '{folder}/server.pem', key_file: '{folder}/server.key', \
             ca_file: '{folder}/ca.pem', verify: {verify} }}"
        ))
    }

    fn trust(&self) -> TlsConfig {
        TlsConfig { ca_file: Some(self.path().join("ca.pem")), ..TlsConfig::default() }
    }

    fn trust_and_identity(&self) -> TlsConfig {
        TlsConfig {
            client_cert_file: Some(self.path().join("client.pem")),
            client_key_file: Some(self.path().join("client.key")),
            ..self.trust()
        }
    }
}

#[tokio::test]
async fn tls_connects_with_the_right_authority_and_with_no_other() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = ours.server(false);
    let connect = |tls| {
        let config = NatsConfig { tls, ..server.config() };
        async move { NatsBus::connect(&config).await }
    };
    let bus = connect(Some(ours.trust())).await.unwrap();
    echo(&bus, "echo").await;
    assert_eq!(ask(&bus, "echo", PATIENCE).await, Ok(Bytes::from_static(b"?")));
    for tls in [Some(theirs.trust()), None] {
        let error = connect(tls).await.unwrap_err();
        assert!(matches!(error, ConnectError::Tls { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_asks_for_a_certificate_gets_ours() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = ours.server(true);
    let connect = |tls| {
        let config = NatsConfig { tls: Some(tls), ..server.config() };
        async move { NatsBus::connect(&config).await }
    };
    connect(ours.trust_and_identity()).await.unwrap();
    let foreign = TlsConfig { ca_file: ours.trust().ca_file, ..theirs.trust_and_identity() };
    for tls in [ours.trust(), foreign] {
        let error = connect(tls).await.unwrap_err();
        assert!(matches!(error, ConnectError::Tls { .. }), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_when_tls_is_required() {
    let server = NatsServer::start();
    let authority = Authority::new();
    let mut tls = authority.trust();
    let config = NatsConfig { tls: Some(tls.clone()), connect_timeout_ms: 1_000, ..server.config() };
    let error = NatsBus::connect(&config).await.unwrap_err();
    assert!(matches!(error, ConnectError::Tls { .. } | ConnectError::Unreachable { .. }), "{error}");
    tls.required = false;
    NatsBus::connect(&NatsConfig { tls: Some(tls), ..config }).await.unwrap();
}
