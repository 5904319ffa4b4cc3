//! P8 at the door: what belongs to somebody else, and what is no credential, over every command and every path.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "common/about.rs"]
mod about;
mod common;
#[path = "common/gate.rs"]
mod gate;
#[path = "common/server.rs"]
mod server;

use std::{
    collections::BTreeSet,
    io::Write,
    sync::{Arc, Mutex},
    thread::sleep,
    time::Duration,
};

use about::{Ids, about, unknown};
use cadre::{control::registry, fact::id::SessionId};
use cadre_cluster::store::{KeyRange, RangeRead, key_after};
use gate::{ADMIN, bearer};
use serde_json::{Value, json};
use server::Server;

/// Everything of an answer that could tell something: status, headers, body.
fn whole(server: &Server, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut response = server.send(method, path, headers, body.as_bytes());
    let mut said: Vec<_> = response
        .headers()
        .iter()
        // Which methods a path takes is in the documentation, not a matter of whose ids are in it.
        .filter(|(name, _)| !["date", "allow"].contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        .collect();
    said.sort();
    let text = response.body_mut().read_to_string().unwrap();
    format!("{}\n{}\n\n{text}", response.status(), said.join("\n"))
}

fn nameless(text: String, ids: &Ids) -> String {
    ids.iter().fold(text, |text, (what, id)| text.replace(id.as_str(), what))
}

/// One of everything, and an output that is kept apart.
fn everything(server: &Server) -> Ids {
    let (rig, tokio) = (&server.rig, &server.tokio);
    let mut ids = tokio.block_on(rig.everything());
    let script = json!([{ "tool": "big", "args": { "bytes": 100_000 } }]);
    tokio.block_on(rig.run("sess_outputs", script));
    let events = tokio.block_on(rig.served("sess_outputs"));
    let spilled = events.iter().find(|event| event["type"] == "output.spilled").unwrap();
    ids.insert(
        "blob",
        spilled["outputRef"].as_str().or(spilled["payload"]["outputRef"].as_str()).unwrap().into(),
    );
    ids
}

/// Every path that names something of a tenant.
fn paths(ids: &Ids) -> Vec<(&'static str, String)> {
    let (session, blob) = (&ids["session"], &ids["blob"]);
    vec![
        ("GET", format!("/v1/sessions/{session}/events")),
        ("GET", format!("/v1/sessions/{session}/events?turnId={}&limit=5", ids["turn"])),
        ("GET", format!("/v1/sessions/{session}/events?after={}", "0".repeat(32))),
        ("GET", format!("/v1/sessions/{session}/stream")),
        ("GET", format!("/v1/sessions/{session}/stream?after={}", "0".repeat(32))),
        ("GET", format!("/v1/blobs/{blob}")),
        ("HEAD", format!("/v1/blobs/{blob}")),
    ]
}

#[test]
fn p8_ids_of_others_are_answered_like_ids_of_nobody_by_every_command_and_every_path() {
    let server = gate::start();
    let mine = everything(&server);
    let nobodys = unknown(&mine);
    for tenant in ["local", "mallory"] {
        server.tenant(tenant);
    }
    let (_, owner) = server.key("local", &["read", "submit", "approve"]);
    let (_, mallory) = server.key("mallory", &["read", "submit", "approve", "run"]);
    let facts = server.tokio.block_on(server.rig.events("sess_mine")).len();
    let show = bearer(&mallory);
    let headers = [("Authorization", show.as_str()), ("Content-Type", "application/json")];
    let covered: BTreeSet<&str> = about(&mine).iter().map(|(name, _)| *name).collect();
    let all: BTreeSet<&str> = registry().commands().map(|command| command.name).collect();
    // These are about nothing that somebody else could have.
    let rest: Vec<_> = all.difference(&covered).copied().collect();
    assert_eq!(rest, ["create_session", "list_sessions", "submit_turn"]);
    for ((name, foreign), (_, missing)) in about(&mine).iter().zip(&about(&nobodys)) {
        let path = format!("/v1/commands/{name}");
        let of_other = nameless(whole(&server, "POST", &path, &headers, &foreign.to_string()), &mine);
        let of_nobody = nameless(whole(&server, "POST", &path, &headers, &missing.to_string()), &nobodys);
        assert_eq!(of_other, of_nobody, "{name}");
        assert!(of_other.starts_with("404"), "{name}: {of_other}");
    }
    for ((method, foreign), (_, missing)) in paths(&mine).iter().zip(&paths(&nobodys)) {
        let of_other = nameless(whole(&server, method, foreign, &headers[..1], ""), &mine);
        let of_nobody = nameless(whole(&server, method, missing, &headers[..1], ""), &nobodys);
        assert_eq!(of_other, of_nobody, "{method} {foreign}");
        assert!(of_other.starts_with("404"), "{method} {foreign}: {of_other}");
        // It is there, for whoever it belongs to.
        let (show, is_stream) = (bearer(&owner), foreign.contains("/stream"));
        let response = server.send(method, foreign, &[("Authorization", &show)], b"");
        assert_eq!(response.status(), 200, "{method} {foreign} {is_stream}");
    }
    // A tenant cannot be named: it is what the credential says, whatever else the request does.
    let naming = [
        ("Authorization", show.as_str()),
        ("X-Tenant", "local"),
        ("X-Cadre-Tenant", "local"),
        ("X-Forwarded-User", "local"),
    ];
    let args = json!({ "sessionId": "sess_mine", "tenant": "local", "tenantId": "local" }).to_string();
    let (status, _) = server.json("POST", "/v1/commands/get_session?tenant=local", &naming, args.as_bytes());
    assert_eq!(status, 404);
    assert_eq!(
        server.tokio.block_on(server.rig.events("sess_mine")).len(),
        facts,
        "nothing was said in mine"
    );
    server.stop();
}

/// What is no credential, and what it is like.
fn bad_credentials(server: &Server) -> Vec<(&'static str, String)> {
    let (revoked_id, revoked) = server.key("local", &["read", "submit", "approve"]);
    let expired = server.key_for_ms("local", 500);
    sleep(Duration::from_millis(600));
    let (_, good) = server.key("local", &["read", "submit", "approve"]);
    assert_eq!(server.call_as(&revoked, "list_sessions", &json!({})).0, 200);
    assert_eq!(server.admin("DELETE", &format!("tenants/local/keys/{revoked_id}"), &Value::Null).0, 200);
    while server.call_as(&revoked, "list_sessions", &json!({})).0 == 200 {
        sleep(Duration::from_millis(50));
    }
    let (id, secret) = good[6..].split_once('_').unwrap();
    let other = |text: &str| text.chars().map(|c| if c == '0' { '1' } else { '0' }).collect::<String>();
    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwidGVuYW50IjoibG9jYWwifQ.";
    vec![
        ("revoked", revoked.clone()),
        ("expired", expired),
        ("forged: another secret", format!("cadre_{id}_{}", other(secret))),
        ("forged: the last character", format!("{}{}", &good[..54], other(&good[54..]))),
        ("of an id that nobody has", format!("cadre_{}_{secret}", other(id))),
        ("truncated", good[..54].to_owned()),
        ("truncated to its id", good[..23].to_owned()),
        ("too long", format!("{good}0")),
        ("upper case", good.to_uppercase()),
        ("another prefix", good.replace("cadre_", "sk_")),
        ("far too long", "x".repeat(9_000)),
        ("nothing", String::new()),
        ("of the administrator, but not quite", ADMIN[1..].to_owned()),
        ("unsigned", unsigned.to_owned()),
    ]
}

#[test]
fn p8_whatever_is_wrong_with_a_credential_the_answer_is_the_same_everywhere() {
    let server = gate::start();
    let mine = everything(&server);
    server.tenant("local");
    let mut places = paths(&mine);
    let commands = registry().commands().map(|command| ("POST", format!("/v1/commands/{}", command.name)));
    places.extend(commands);
    for (method, path) in [
        ("GET", "/v1/commands"),
        ("POST", "/v1/commands/no_such_command"),
        ("GET", "/nothing/here"),
        ("GET", "/v1/channel"),
        ("DELETE", "/v1/commands"),
        ("GET", "/metrics"),
        ("GET", "/v1/admin/tenants"),
        ("POST", "/v1/admin/tenants"),
        ("GET", "/v1/admin/tenants/local"),
        ("GET", "/v1/admin/tenants/none/keys"),
        ("PUT", "/v1/admin/tenants/local/quotas"),
    ] {
        places.push((method, path.to_owned()));
    }
    let bad = bad_credentials(&server);
    let expected = json!({ "error": { "code": "unauthorized", "message": "the credential is not valid",
        "retryable": false, "details": {} } });
    let is_expected = |said: &str| {
        let (_, body) = said.split_once("\n\n").unwrap();
        said.starts_with("401") && serde_json::from_str::<Value>(body).unwrap() == expected
    };
    // Every credential at one path of each kind, and two of them everywhere: hashing takes its time.
    let mut answers = BTreeSet::new();
    for (number, (method, path)) in places.iter().enumerate() {
        let all = number % 20 == 0;
        for (what, token) in bad.iter().filter(|(what, _)| all || ["revoked", "truncated"].contains(what)) {
            let show = bearer(token);
            let said = whole(&server, method, path, &[("Authorization", &show)], "");
            if *method != "HEAD" {
                assert!(is_expected(&said), "{what} at {method} {path}: {said}");
                answers.insert(said);
            }
            assert!(token.len() < 20 || !answers.iter().any(|said| said.contains(token.as_str())), "{what}");
        }
    }
    assert_eq!(answers.len(), 1, "one answer, byte by byte: {answers:#?}");
    assert!(answers.first().unwrap().contains("www-authenticate: Bearer"));
    // The same in a query, where that is allowed.
    for (what, token) in &bad {
        let path = format!("/v1/sessions/{}/stream?access_token={token}", mine["session"]);
        assert!(is_expected(&whole(&server, "GET", &path, &[], "")), "{what}");
    }
    server.stop();
}

/// What is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn p8_secrets_are_in_no_error_log_fact_metric_or_record() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .init();
    let server = gate::start();
    server.tenant("local");
    let (id, token) = server.key("local", &["read", "submit", "approve"]);
    let (_, rotated) =
        server.admin("POST", &format!("tenants/local/keys/{id}/rotate"), &json!({ "graceSeconds": 60 }));
    let rotated = rotated["token"].as_str().unwrap().to_owned();
    for token in [&token, &rotated] {
        let submit = common::turn("sess_a", json!([{ "say": "hello" }, { "fail": { "message": "no" } }]));
        assert_eq!(server.call_as(token, "submit_turn", &submit).0, 200);
        server.call_as(token, "get_task", &json!({ "taskId": "none" }));
        server.call_as(token, "submit_turn", &json!({ "input": 7 }));
        let mut stream = server.stream(&format!("/v1/sessions/sess_a/stream?access_token={token}"), &[]);
        stream.next().unwrap();
        let forged = format!("{}0000", &token[..51]);
        server.call_as(&forged, "list_sessions", &json!({}));
    }
    let (status, metrics) = {
        let mut response = server.send("GET", "/metrics", &[("Authorization", &bearer(ADMIN))], b"");
        (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
    };
    assert_eq!(status, 200);
    assert!(metrics.contains("cadre_credentials_refused_total"), "{metrics}");
    let facts = server.tokio.block_on(server.rig.served("sess_a"));
    assert!(SessionId::parse("sess_a").is_ok() && !facts.is_empty());
    let stored = server.tokio.block_on(async {
        let (mut all, mut from) = (Vec::new(), bytes::Bytes::new());
        loop {
            let range = KeyRange::new(from.clone(), &b"\xff"[..]);
            let page =
                server.rig.store().begin().snapshot_range(&RangeRead::new(range).limit(500)).await.unwrap();
            for pair in &page.pairs {
                all.extend_from_slice(&pair.key);
                all.extend_from_slice(&pair.value);
            }
            match page.pairs.last() {
                Some(last) => from = key_after(&last.key),
                None => return all,
            }
        }
    });
    assert!(find(&stored, b"$argon2id$"), "the scan sees the records of keys");
    let logged = log.0.lock().unwrap().clone();
    assert!(find(&logged, b"cadre"), "the log is written");
    for (what, bytes) in [
        ("log", &logged[..]),
        ("metrics", metrics.as_bytes()),
        ("facts", json!(facts).to_string().as_bytes()),
        ("store", &stored),
    ] {
        for secret in [&token[23..], &rotated[23..], ADMIN] {
            assert!(!find(bytes, secret.as_bytes()), "a secret is in the {what}");
        }
    }
    server.stop();
}

fn find(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
