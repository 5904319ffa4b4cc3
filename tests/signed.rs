//! Tokens of an identity provider, and TLS, over real connections.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
#[path = "common/gate.rs"]
mod gate;
#[path = "common/process.rs"]
mod process;
#[path = "common/server.rs"]
mod server;

use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use cadre::{
    credential::{Access, AdminToken, Issuer, KeySource, Trust},
    http::{Settings, Tls},
};
use cadre_cluster::clock::{Clock, SystemClock};
use gate::{ADMIN, bearer};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use process::{Dev, cadre};
use serde_json::{Value, json};
use server::{Server, assert_refused};

/// Of these tests, and good for nothing else.
const RSA_DER: &str = include_str!("data/rsa-of-tests.der.base64");
const RSA_MODULUS: &str = include_str!("data/rsa-of-tests.modulus");

/// An identity provider on this machine.
struct Provider {
    url: String,
    asked: Arc<AtomicUsize>,
    ed: rcgen::KeyPair,
    ec: rcgen::KeyPair,
}

impl Provider {
    fn start() -> Self {
        let ed = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let ec = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (x, y) = ec.public_key_raw()[1..].split_at(32);
        let keys = json!({ "keys": [
            { "kty": "RSA", "kid": "rsa", "use": "sig", "alg": "RS256", "n": RSA_MODULUS.trim(), "e": "AQAB" },
            { "kty": "EC", "kid": "ec", "crv": "P-256", "x": text(x), "y": text(y) },
            { "kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": text(ed.public_key_raw()) },
        ] });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        // It ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 2_048];
                let _ = stream.read(&mut request);
                let body = keys.to_string();
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        Self { url, asked, ed, ec }
    }

    fn serve(&self) -> Server {
        let issuer = Issuer {
            issuer: "https://id.example".into(),
            audience: "cadre".into(),
            keys: KeySource::parse(&self.url).unwrap(),
            tenant_claim: "org".into(),
            scope_claim: "permissions".into(),
            leeway: Duration::ZERO,
        };
        let administrator = Some(AdminToken::parse(ADMIN).unwrap());
        let access = Access::Required(Trust { administrator, signed: Some(issuer) });
        Server::start_with(Settings { access, ..Settings::default() })
    }

    fn key(&self, id: &str) -> (Algorithm, EncodingKey) {
        match id {
            "rsa" => (Algorithm::RS256, EncodingKey::from_rsa_der(&STANDARD.decode(RSA_DER.trim()).unwrap())),
            "ec" => (Algorithm::ES256, EncodingKey::from_ec_der(&self.ec.serialize_der())),
            _ => (Algorithm::EdDSA, EncodingKey::from_ed_der(&self.ed.serialize_der())),
        }
    }

    fn sign(&self, id: &str, claims: &Value) -> String {
        let (algorithm, key) = self.key(id);
        let header = Header { kid: Some(id.to_owned()), ..Header::new(algorithm) };
        jsonwebtoken::encode(&header, claims, &key).unwrap()
    }
}

fn seconds() -> u64 {
    SystemClock.now().0 / 1_000
}

fn claims() -> Value {
    json!({ "iss": "https://id.example", "aud": "cadre", "exp": seconds() + 600, "sub": "ada", "org": "acme",
        "permissions": ["read", "submit"] })
}

#[test]
fn p8_a_signed_token_lets_in_for_its_tenant_and_its_scopes() {
    let provider = Provider::start();
    let server = provider.serve();
    server.tenant("acme");
    for id in ["rsa", "ec", "ed"] {
        let token = provider.sign(id, &claims());
        let made = json!({ "sessionId": format!("sess_{id}") });
        let (status, answer) = server.call_as(&token, "create_session", &made);
        assert_eq!(status, 200, "{id}: {answer}");
        let decided =
            server.call_as(&token, "respond_action", &json!({ "actionId": "actn_x", "decision": "allow" }));
        assert_refused(decided, 403, "forbidden", None);
    }
    let (_, key) = server.key("acme", &["read"]);
    let (_, listed) = server.call_as(&key, "list_sessions", &json!({}));
    assert_eq!(
        listed["result"]["sessions"].as_array().unwrap().len(),
        3,
        "the tenant is the one of the keys"
    );
    assert_eq!(provider.asked.load(Ordering::SeqCst), 1, "its keys are fetched once");
    server.stop();
}

#[test]
fn p8_a_token_that_is_not_quite_right_is_no_credential() {
    let provider = Provider::start();
    let server = provider.serve();
    server.tenant("acme");
    let good = provider.sign("ed", &claims());
    assert_eq!(server.call_as(&good, "list_sessions", &json!({})).0, 200);
    let with = |name: &str, value: Value| {
        let mut claims = claims();
        claims[name] = value;
        provider.sign("ed", &claims)
    };
    let text = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let (head, rest) = good.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    let of_other = {
        let other = Provider::start();
        other.sign("ed", &claims())
    };
    let shared = jsonwebtoken::encode(
        &Header { kid: Some("rsa".into()), ..Header::new(Algorithm::HS256) },
        &claims(),
        &EncodingKey::from_secret(RSA_MODULUS.trim().as_bytes()),
    );
    let (_, ed) = provider.key("ed");
    let unknown = jsonwebtoken::encode(
        &Header { kid: Some("x".into()), ..Header::new(Algorithm::EdDSA) },
        &claims(),
        &ed,
    );
    let swapped = jsonwebtoken::encode(
        &Header { kid: Some("rsa".into()), ..Header::new(Algorithm::EdDSA) },
        &claims(),
        &ed,
    );
    let root = claims().to_string().replace("acme", "root");
    let bad = [
        ("another issuer", with("iss", json!("https://evil.example"))),
        ("another audience", with("aud", json!(["others"]))),
        ("expired", with("exp", json!(seconds() - 1))),
        ("not yet valid", with("nbf", json!(seconds() + 600))),
        ("of no tenant", with("org", Value::Null)),
        ("of a tenant that is not there", with("org", json!("none"))),
        ("unsigned", format!("{}.{body}.", text(json!({ "alg": "none" })))),
        ("without a signature", format!("{head}.{body}.")),
        ("changed", format!("{head}.{}.{signature}", URL_SAFE_NO_PAD.encode(root))),
        ("signed by somebody else", of_other),
        ("signed with what everybody knows", shared.unwrap()),
        ("of a key that is not known", unknown.unwrap()),
        ("of a key of another kind", swapped.unwrap()),
        ("cut", good[..good.len() - 4].to_owned()),
    ];
    let expected = json!({ "error": { "code": "unauthorized", "message": "the credential is not valid",
        "retryable": false, "details": {} } });
    for (what, token) in &bad {
        assert_eq!(server.call_as(token, "list_sessions", &json!({})), (401, expected.clone()), "{what}");
    }
    for number in 0..50 {
        let head = text(json!({ "alg": "EdDSA", "kid": format!("made-up-{number}") }));
        assert_eq!(server.call_as(&format!("{head}.{body}.{signature}"), "list_sessions", &json!({})).0, 401);
    }
    assert!(provider.asked.load(Ordering::SeqCst) <= 2, "names that are made up make nobody ask");
    server.stop();
}

#[test]
fn p8_a_token_that_expires_ends_what_it_has_open() {
    let provider = Provider::start();
    let server = provider.serve();
    server.tenant("acme");
    let mut claims = claims();
    assert_eq!(
        server.call_as(&provider.sign("ed", &claims), "create_session", &json!({ "sessionId": "sess_a" })).0,
        200
    );
    claims["exp"] = json!(seconds() + 4);
    let token = provider.sign("ed", &claims);
    let mut stream = server.stream("/v1/sessions/sess_a/stream", &[("Authorization", &bearer(&token))]);
    assert_eq!(stream.next().unwrap().0, "snapshot");
    let (event, _, data) = stream.next().unwrap();
    assert_eq!((event.as_str(), &data["error"]["details"]["reason"]), ("error", &json!("expired")), "{data}");
    assert_eq!(stream.next(), None);
    server.stop();
}

#[test]
fn p8_a_tenant_that_is_too_fast_is_told_when_to_come_back_and_others_notice_nothing() {
    let server = gate::start();
    for tenant in ["noisy", "quiet"] {
        server.tenant(tenant);
    }
    let (_, noisy) = server.key("noisy", &["read"]);
    let (_, quiet) = server.key("quiet", &["read"]);
    let quotas = json!({ "commandsPerSecond": 1 });
    assert_eq!(server.admin("PUT", "tenants/noisy/quotas", &quotas).0, 200);
    let refused = (0..2_000).find_map(|_| {
        let response =
            server.send("POST", "/v1/commands/list_sessions", &[("Authorization", &bearer(&noisy))], b"{}");
        (response.status() == 429).then_some(response)
    });
    let mut refused = refused.expect("the quota is in force");
    let after: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=2).contains(&after), "{after}");
    let body: Value = serde_json::from_str(&refused.body_mut().read_to_string().unwrap()).unwrap();
    assert_eq!(
        (&body["error"]["code"], &body["error"]["details"]["quota"]),
        (&json!("rate_limited"), &json!("commandsPerSecond"))
    );
    for _ in 0..20 {
        assert_eq!(server.call_as(&quiet, "list_sessions", &json!({})).0, 200);
    }
    let mut metrics = server.send("GET", "/metrics", &[("Authorization", &bearer(ADMIN))], b"");
    let metrics = metrics.body_mut().read_to_string().unwrap();
    assert!(
        metrics.contains(r#"cadre_rate_limited_total{tenant="noisy",quota="commandsPerSecond"}"#),
        "{metrics}"
    );
    server.stop();
}

#[test]
fn over_tls_everything_is_as_it_is_without() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    assert!(Tls::read(&certificate, &key).is_ok());
    let data = folder.path().join("data");
    let dev = Dev::spawn_with(&data, "127.0.0.1:0", Stdio::inherit(), |command| {
        command.env("CADRE_TLS_CERT", &certificate).env("CADRE_TLS_KEY", &key);
        command.env("CADRE_AUTH", "required").env("CADRE_ADMIN_TOKEN", ADMIN);
    });
    let url = dev.ready();
    assert!(url.starts_with("https://127.0.0.1:"), "{url}");
    let run = |args: &[&str]| {
        let output = cadre(&url).env("CADRE_TOKEN", ADMIN).args(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let trusted = certificate.to_str().unwrap();
    assert_eq!(run(&["--ca-cert", trusted, "admin", "tenants", "create", "acme"]).0, Some(0));
    assert_eq!(run(&["admin", "tenants"]).0, Some(6), "a certificate that nobody knows is not trusted");
    let (status, said) = run(&["--ca-cert", key.to_str().unwrap(), "admin", "tenants"]);
    assert!(status == Some(1) && said.contains("no certificate"), "{said}");
    // In the clear there is nothing to be had.
    let clear = url.replace("https:", "http:");
    let output = cadre(&clear).env("CADRE_TOKEN", ADMIN).args(["admin", "tenants"]).output().unwrap();
    assert_ne!(output.status.code(), Some(0));
    dev.signal("TERM");
    assert!(dev.ended().success());
}
