//! Tenants and keys, over real connections: who is let in, for what, and for how long.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
#[path = "common/gate.rs"]
mod gate;
#[path = "common/process.rs"]
mod process;
#[path = "common/server.rs"]
mod server;

use std::{process::Output, thread::sleep, time::Duration};

use gate::{ADMIN, bearer};
use process::cadre;
use serde_json::{Value, json};
use server::{Server, assert_refused};

/// A decision counts everywhere within a second; this is for machines that others use too.
const SOON: Duration = Duration::from_secs(20);

/// Asks until it is answered like that.
fn eventually(server: &Server, token: &str, status: u16) -> Value {
    let until = tokio::time::Instant::now() + SOON;
    loop {
        let (answered, body) = server.call_as(token, "list_sessions", &json!({}));
        if answered == status {
            return body;
        }
        assert!(tokio::time::Instant::now() < until, "still {answered} {body}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn p8_a_key_lets_in_for_its_scopes_and_nothing_else() {
    let server = gate::start();
    server.tenant("acme");
    let none = server.json("POST", "/v1/commands/list_sessions", &[], b"{}");
    assert_refused(none, 401, "unauthorized", None);
    let calls = [
        ("read", "list_sessions", json!({})),
        ("submit", "create_session", json!({ "sessionId": "sess_a" })),
        ("approve", "respond_action", json!({ "actionId": "actn_none", "decision": "allow" })),
    ];
    for scope in ["read", "submit", "approve", "run"] {
        let (_, token) = server.key("acme", &[scope]);
        for (needed, name, args) in &calls {
            let (status, answer) = server.call_as(&token, name, args);
            if *needed == scope {
                assert_ne!(status, 403, "{scope} {name}: {answer}");
            } else {
                assert_eq!(
                    (status, &answer["error"]["details"]["scope"]),
                    (403, &json!(needed)),
                    "{scope} {name}"
                );
            }
        }
        for path in ["/v1/sessions/sess_a/events", "/v1/sessions/sess_none/events", "/v1/blobs/blob_none"] {
            let (status, _) = server.as_token(&token, "GET", path, &Value::Null);
            assert_eq!(status == 403, scope != "read", "{scope} {path}: {status}");
        }
        for path in ["/v1/admin/tenants", "/v1/admin/tenants/acme", "/v1/admin/tenants/none/keys", "/metrics"]
        {
            assert_refused(server.as_token(&token, "GET", path, &Value::Null), 403, "forbidden", None);
        }
    }
    // What is wrong with arguments is not said to whoever may not send them.
    let (_, reader) = server.key("acme", &["read"]);
    assert_refused(
        server.call_as(&reader, "create_task", &json!({ "priority": [] })),
        403,
        "forbidden",
        None,
    );
    server.stop();
}

#[test]
fn only_operators_manage_tenants() {
    let server = gate::start();
    server.tenant("acme");
    let admin = json!({ "name": "root", "scopes": ["admin"] });
    let refused = server.admin("POST", "tenants/acme/keys", &admin);
    assert_refused(refused, 400, "invalid_argument", Some("scopes"));
    assert_refused(server.admin("POST", "tenants/operator/keys", &admin), 404, "not_found", None);
    server.tenant("operator");
    let (id, operator) = server.key("operator", &["admin"]);
    let (status, listed) = server.as_token(&operator, "GET", "/v1/admin/tenants", &Value::Null);
    let names: Vec<_> = listed["tenants"].as_array().unwrap().iter().map(|one| &one["tenantId"]).collect();
    assert_eq!((status, names), (200, vec![&json!("acme"), &json!("operator")]));
    // It manages, and sees nothing of what tenants do.
    assert_refused(server.call_as(&operator, "list_sessions", &json!({})), 403, "forbidden", None);
    assert_refused(server.call_as(ADMIN, "list_sessions", &json!({})), 403, "forbidden", None);
    let (status, _) = server.admin("DELETE", &format!("tenants/operator/keys/{id}"), &Value::Null);
    assert_eq!(status, 200);
    eventually(&server, &operator, 401);
    server.stop();
}

#[test]
fn what_is_wrong_with_a_request_to_manage_is_said() {
    let server = gate::start();
    server.tenant("acme");
    for (method, path, body, status, field) in [
        ("POST", "tenants", json!({}), 400, Some("tenantId")),
        ("POST", "tenants", json!({ "tenantId": "Acme" }), 400, Some("tenantId")),
        ("POST", "tenants", json!({ "tenantId": "acme", "title": "other" }), 409, None),
        ("PATCH", "tenants/acme", json!({ "status": "gone" }), 400, Some("status")),
        ("PATCH", "tenants/none", json!({}), 404, None),
        ("GET", "tenants/none", Value::Null, 404, None),
        ("GET", "tenants?limit=0", Value::Null, 400, Some("limit")),
        ("GET", "tenants/acme/keys?after=x", Value::Null, 400, Some("after")),
        ("POST", "tenants/none/keys", json!({ "name": "n" }), 404, None),
        ("POST", "tenants/acme/keys", json!({}), 400, Some("name")),
        ("POST", "tenants/acme/keys", json!({ "name": "a\nb" }), 400, Some("name")),
        ("POST", "tenants/acme/keys", json!({ "name": "n", "scopes": [] }), 400, Some("scopes")),
        ("POST", "tenants/acme/keys", json!({ "name": "n", "scopes": ["all"] }), 400, Some("scopes")),
        ("POST", "tenants/acme/keys", json!({ "name": "n", "expiresAt": "soon" }), 400, Some("expiresAt")),
        (
            "POST",
            "tenants/acme/keys",
            json!({ "name": "n", "expiresAt": "2001-01-01T00:00:00Z" }),
            400,
            Some("expiresAt"),
        ),
        ("GET", "tenants/acme/keys/0000000000000000", Value::Null, 404, None),
        ("DELETE", "tenants/acme/keys/x", Value::Null, 404, None),
        ("POST", "tenants/acme/keys/0000000000000000/rotate", json!({}), 404, None),
        ("PUT", "tenants/acme/quotas", json!({ "everything": 1 }), 400, Some("everything")),
        ("PUT", "tenants/acme/quotas", json!({ "commandsPerSecond": -1 }), 400, Some("commandsPerSecond")),
        ("PUT", "tenants/none/quotas", json!({}), 404, None),
    ] {
        let (answered, answer) = server.admin(method, path, &body);
        assert_eq!(answered, status, "{method} {path} {body}: {answer}");
        assert_eq!(answer["error"]["details"]["field"].as_str(), field, "{method} {path} {body}: {answer}");
    }
    // The same tenant again is the same answer.
    server.tenant("acme");
    // A key of another tenant is not there.
    server.tenant("other");
    let (id, _) = server.key("other", &["read"]);
    let (status, _) = server.admin("GET", &format!("tenants/acme/keys/{id}"), &Value::Null);
    assert_eq!(status, 404);
    server.stop();
}

#[test]
fn p8_a_key_that_is_revoked_or_expires_ends_what_it_has_open() {
    let server = gate::start();
    server.tenant("acme");
    let (_, kept) = server.key("acme", &["read", "submit"]);
    let (id, revoked) = server.key("acme", &["read"]);
    assert_eq!(server.call_as(&kept, "create_session", &json!({ "sessionId": "sess_a" })).0, 200);
    let path = "/v1/sessions/sess_a/stream";
    let open = |token: &str| {
        let mut stream = server.stream(path, &[("Authorization", &bearer(token))]);
        assert_eq!(stream.next().unwrap().0, "snapshot");
        stream
    };
    let (mut of_kept, mut of_revoked) = (open(&kept), open(&revoked));
    let expiring = server.key_for_ms("acme", 3_000);
    let mut of_expiring = open(&expiring);

    assert_eq!(server.admin("DELETE", &format!("tenants/acme/keys/{id}"), &Value::Null).0, 200);
    for (stream, reason) in [(&mut of_revoked, "revoked"), (&mut of_expiring, "expired")] {
        let (event, _, data) = stream.next().unwrap();
        assert_eq!((event.as_str(), &data["error"]["code"]), ("error", &json!("unauthorized")), "{data}");
        assert_eq!(data["error"]["details"]["reason"], reason);
        assert_eq!(stream.next(), None, "the stream has ended");
    }
    eventually(&server, &revoked, 401);
    eventually(&server, &expiring, 401);
    // Whoever has another key of the tenant notices nothing.
    assert_eq!(
        server.call_as(&kept, "update_session", &json!({ "sessionId": "sess_a", "title": "t" })).0,
        200
    );
    assert_eq!(of_kept.next().unwrap().0, "fact");
    drop(of_kept);
    server.stop();
}

#[test]
fn a_rotated_key_is_good_for_as_long_as_it_was_given() {
    let server = gate::start();
    server.tenant("acme");
    let (id, first) = server.key("acme", &["read"]);
    let rotate = |id: &str, grace: u64| {
        let path = format!("tenants/acme/keys/{id}/rotate");
        let (status, answer) = server.admin("POST", &path, &json!({ "graceSeconds": grace }));
        assert_eq!(status, 200, "{answer}");
        (answer["key"].clone(), answer["token"].as_str().unwrap().to_owned())
    };
    let (key, second) = rotate(&id, 3_600);
    assert_eq!((&key["name"], &key["scopes"]), (&json!("acme's"), &json!(["read"])));
    for token in [&first, &second] {
        assert_eq!(server.call_as(token, "list_sessions", &json!({})).0, 200);
    }
    let (_, old) = server.admin("GET", &format!("tenants/acme/keys/{id}"), &Value::Null);
    assert!(old["key"]["expiresAt"].is_string(), "{old}");
    let (_, third) = rotate(key["keyId"].as_str().unwrap(), 0);
    eventually(&server, &second, 401);
    assert_eq!(server.call_as(&third, "list_sessions", &json!({})).0, 200);
    let path = format!("tenants/acme/keys/{}/rotate", key["keyId"].as_str().unwrap());
    assert_refused(server.admin("POST", &path, &json!({})), 409, "conflict", None);
    server.stop();
}

#[test]
fn a_suspended_tenant_is_refused_until_it_is_let_in_again() {
    let server = gate::start();
    server.tenant("acme");
    server.tenant("other");
    let (_, key) = server.key("acme", &["read", "submit"]);
    let (_, other) = server.key("other", &["read"]);
    assert_eq!(server.call_as(&key, "create_session", &json!({ "sessionId": "sess_a" })).0, 200);
    let mut stream = server.stream("/v1/sessions/sess_a/stream", &[("Authorization", &bearer(&key))]);
    assert_eq!(stream.next().unwrap().0, "snapshot");
    assert_eq!(server.admin("PATCH", "tenants/acme", &json!({ "status": "suspended" })).0, 200);
    let refused = eventually(&server, &key, 403);
    assert_eq!(refused["error"]["details"]["status"], "suspended");
    assert_eq!(stream.next().unwrap().0, "error");
    assert_eq!(server.call_as(&other, "list_sessions", &json!({})).0, 200);
    assert_eq!(server.admin("PATCH", "tenants/acme", &json!({ "status": "active" })).0, 200);
    eventually(&server, &key, 200);
    server.stop();
}

#[test]
fn browsers_may_show_a_key_in_the_query_of_a_stream_and_nowhere_else() {
    let server = gate::start();
    server.tenant("acme");
    let (_, key) = server.key("acme", &["read", "submit"]);
    assert_eq!(server.call_as(&key, "create_session", &json!({ "sessionId": "sess_a" })).0, 200);
    let mut stream = server.stream(&format!("/v1/sessions/sess_a/stream?access_token={key}"), &[]);
    assert_eq!(stream.next().unwrap().0, "snapshot");
    drop(stream);
    for path in ["/v1/sessions/sess_a/events", "/v1/commands"] {
        let refused = server.get(&format!("{path}?access_token={key}"));
        assert_refused(refused, 401, "unauthorized", None);
    }
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        assert_eq!(server.get(path).0, 200, "{path}");
    }
    server.stop();
}

#[test]
fn tenants_and_keys_are_managed_from_the_command_line() {
    let server = gate::start();
    let run = |token: &str, args: &[&str]| -> Output {
        cadre(&server.url).env("CADRE_TOKEN", token).args(args).output().unwrap()
    };
    let out = |output: &Output| String::from_utf8(output.stdout.clone()).unwrap();
    let done = |args: &[&str]| {
        let output = run(ADMIN, args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        out(&output)
    };
    assert_eq!(done(&["admin", "tenants", "create", "acme", "--title", "Acme Ltd."]), "tenant acme active\n");
    let key = done(&["admin", "keys", "create", "acme", "--name", "ci", "--expires-in", "90d"]);
    let key = key.trim_end();
    assert!(key.starts_with("cadre_") && key.len() == 55, "only the key is on standard output: {key}");
    assert_eq!(run(key, &["sessions"]).status.code(), Some(0));
    let listed = done(&["--json", "admin", "keys", "list", "acme"]);
    let listed: Value = serde_json::from_str(listed.trim_end()).unwrap();
    assert_eq!((&listed["name"], &listed["status"]), (&json!("ci"), &json!("active")));
    assert!(listed["expiresAt"].is_string() && !listed.to_string().contains(&key[23..]));
    let id = listed["keyId"].as_str().unwrap();
    let rotated = done(&["--json", "admin", "keys", "rotate", "acme", id]);
    let rotated: Value = serde_json::from_str(rotated.trim_end()).unwrap();
    let new = rotated["token"].as_str().unwrap();
    assert_eq!(run(new, &["sessions"]).status.code(), Some(0));
    assert!(
        done(&["admin", "keys", "revoke", "acme", rotated["key"]["keyId"].as_str().unwrap()])
            .contains("revoked")
    );
    eventually(&server, new, 401);
    let refused = run(new, &["sessions"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("--token") && !said.contains(new), "{said}");
    assert!(done(&["admin", "quotas", "set", "acme", "commandsPerSecond=50"]).contains("50"));
    let quotas: Value =
        serde_json::from_str(&done(&["--json", "admin", "quotas", "set", "acme", "requestsPerSecond=9"]))
            .unwrap();
    assert_eq!((&quotas["commandsPerSecond"], &quotas["requestsPerSecond"]), (&json!(50), &json!(9)));
    assert_eq!(done(&["admin", "tenants", "suspend", "acme"]), "tenant acme suspended\n");
    assert!(done(&["admin", "tenants"]).contains("Acme Ltd."));
    server.stop();
}
