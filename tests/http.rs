//! The gateway, over real connections to a real runtime.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::{
    io::{BufRead, BufReader, Read},
    time::Duration,
};

use cadre::{
    blob::NewBlob,
    fact::id::BlobRef,
    http::{self, BODY_BYTES_MAX},
};
use common::{PATIENCE, Rig, turn};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use ureq::{
    Agent, Body,
    http::{Request, Response},
};

/// A server with the tokio runtime that it lives in.
struct Server {
    tokio: tokio::runtime::Runtime,
    rig: Rig,
    url: String,
    agent: Agent,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Server {
    fn start() -> Self {
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let rig = tokio.block_on(Rig::start());
        let listener = tokio.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let server = http::serve(rig.runtime.clone(), listener, async { drop(stopped.await) });
        let served = tokio.spawn(server);
        let config = Agent::config_builder().http_status_as_error(false).proxy(None);
        let agent = config.timeout_per_read(Some(PATIENCE)).build().into();
        Self { tokio, rig, url, agent, stop, served }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_vec()).unwrap();
        if body.is_empty() && method != "POST" {
            return self.agent.run(request.map(drop)).unwrap();
        }
        self.agent.run(request).unwrap()
    }

    fn json(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, Value) {
        let mut response = self.send(method, path, headers, body);
        let text = response.body_mut().read_to_string().unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method} {path}: {text}"));
        (response.status().as_u16(), value)
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.json("GET", path, &[], b"")
    }

    fn call(&self, name: &str, arguments: &Value) -> (u16, Value) {
        self.json("POST", &format!("/v1/commands/{name}"), &[], arguments.to_string().as_bytes())
    }

    /// A session with one finished turn. All of its events.
    fn session(&self, id: &str) -> Vec<Value> {
        let (status, answer) = self.call("submit_turn", &turn(id, json!([{ "say": "hello", "chunks": 5 }])));
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["cursor"].as_str().unwrap().len(), 32);
        let turn = answer["result"]["turnId"].as_str().unwrap();
        self.tokio.block_on(self.rig.turn_over(id, turn));
        self.tokio.block_on(self.rig.served(id))
    }

    fn stream(&self, path: &str, headers: &[(&str, &str)]) -> Stream {
        let response = self.send("GET", path, headers, b"");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Stream(BufReader::new(Box::new(response.into_body().into_reader())))
    }

    fn stop(self) {
        let _ = self.stop.send(());
        self.tokio.block_on(async {
            tokio::time::timeout(PATIENCE, self.served).await.unwrap().unwrap().unwrap();
            self.rig.stop().await;
        });
    }
}

struct Stream(BufReader<Box<dyn Read + Send>>);

impl Stream {
    /// Event, id and data of the next frame; `None` at the end.
    fn next(&mut self) -> Option<(String, String, Value)> {
        let (mut event, mut id, mut data) = (String::new(), String::new(), Value::Null);
        for line in self.0.by_ref().lines() {
            let line = line.unwrap();
            match line.split_once(": ") {
                Some(("event", text)) => event = text.into(),
                Some(("id", text)) => id = text.into(),
                Some(("data", text)) => data = serde_json::from_str(text).unwrap(),
                _ if line.is_empty() && !event.is_empty() => return Some((event, id, data)),
                _ => assert!(line.is_empty() || line.starts_with(':'), "{line}"),
            }
        }
        None
    }

    fn facts(&mut self, count: usize) -> Vec<Value> {
        let fact = |_| {
            let (event, id, data) = self.next().unwrap();
            assert_eq!(event, "fact");
            assert_eq!(data["cursor"], id.as_str());
            data
        };
        (0..count).map(fact).collect()
    }
}

fn assert_refused((status, body): (u16, Value), expected: u16, code: &str, field: Option<&str>) {
    assert_eq!(status, expected, "{body}");
    let error = body["error"].as_object().unwrap_or_else(|| panic!("no envelope: {body}"));
    assert_eq!(error["code"], code, "{body}");
    assert!(error["message"].is_string() && error["retryable"].is_boolean() && error["details"].is_object());
    if let Some(field) = field {
        assert_eq!(error["details"]["field"], field, "{body}");
    }
}

#[test]
fn whatever_goes_wrong_is_said_in_the_envelope() {
    let server = Server::start();
    assert_refused(server.get("/nothing/here"), 404, "not_found", None);
    assert_refused(server.get("/v1/commands/"), 404, "not_found", None);
    assert_refused(server.call("no_such_command", &json!({})), 404, "not_found", None);
    assert_refused(server.get("/v1/commands/get_task"), 405, "invalid_argument", Some("method"));
    assert_refused(server.json("DELETE", "/v1/commands", &[], b""), 405, "invalid_argument", Some("method"));
    assert_refused(server.json("POST", "/healthz", &[], b""), 405, "invalid_argument", Some("method"));
    assert_eq!(server.send("PUT", "/v1/commands", &[], b"x").headers()["allow"], "GET,HEAD");

    let submit = "/v1/commands/submit_turn";
    for body in [&b"{"[..], b"[]", b"null", b"\"text\"", b"\xff\xfe", b"{} {}"] {
        assert_refused(server.json("POST", submit, &[], body), 400, "invalid_argument", None);
    }
    assert_refused(server.json("POST", submit, &[], b""), 400, "invalid_argument", Some("input"));
    assert_refused(
        server.call("submit_turn", &json!({ "input": 7 })),
        400,
        "invalid_argument",
        Some("input"),
    );
    for key in ["short", &"k".repeat(129)] {
        let refused = server.json("POST", submit, &[("Idempotency-Key", key)], b"{}");
        assert_refused(refused, 400, "invalid_argument", Some("Idempotency-Key"));
    }
    for deadline in ["0", "soon", "-5"] {
        let refused = server.json("POST", submit, &[("X-Deadline-Ms", deadline)], b"{}");
        assert_refused(refused, 400, "invalid_argument", Some("X-Deadline-Ms"));
    }
    let (status, body) = server.json("POST", "/v1/commands/list_sessions", &[], b"");
    assert_eq!((status, &body["result"]["sessions"], body.get("cursor")), (200, &json!([]), None));
    let stranger = [("Origin", "https://evil.example")];
    assert_refused(server.json("POST", submit, &stranger, b"{}"), 403, "forbidden", None);
    server.stop();
}

#[test]
fn a_body_over_the_limit_is_refused_with_the_limit() {
    let server = Server::start();
    let path = "/v1/commands/submit_turn";
    for size in [BODY_BYTES_MAX + 1, 3 * BODY_BYTES_MAX] {
        let (status, body) = server.json("POST", path, &[], &vec![b' '; size]);
        assert_eq!(body["error"]["details"]["limit"], BODY_BYTES_MAX, "{body}");
        assert_refused((status, body), 413, "payload_too_large", None);
    }
    // Without saying how long it is.
    let body = vec![b' '; BODY_BYTES_MAX + 1];
    let chunked = ureq::SendBody::from_owned_reader(std::io::Cursor::new(body));
    let mut response = server.agent.post(format!("{}{path}", server.url)).send(chunked).unwrap();
    assert_eq!(response.status(), 413, "{:?}", response.body_mut().read_to_string());
    // At the limit it is read, and found to say nothing.
    let answer = server.json("POST", path, &[], &vec![b' '; BODY_BYTES_MAX]);
    assert_refused(answer, 400, "invalid_argument", Some("input"));
    server.stop();
}

#[test]
fn the_same_key_is_answered_once() {
    let server = Server::start();
    let key = [("Idempotency-Key", "key-of-this-test")];
    let create =
        |body: Value| server.json("POST", "/v1/commands/create_session", &key, body.to_string().as_bytes());
    let first = create(json!({ "title": "one" }));
    assert_eq!(first.0, 200, "{}", first.1);
    let again = create(json!({ "title": "one" }));
    assert_eq!(again.1["result"], first.1["result"]);
    assert_refused(create(json!({ "title": "two" })), 409, "conflict", None);
    server.stop();
}

#[test]
fn the_commands_are_listed_with_their_schemas() {
    let server = Server::start();
    let (status, body) = server.get("/v1/commands");
    assert_eq!(status, 200);
    let commands = body["commands"].as_array().unwrap();
    let submit = commands.iter().find(|command| command["name"] == "submit_turn").unwrap();
    assert!(submit["arguments"].is_object() && submit["result"].is_object(), "{submit}");
    server.stop();
}

#[test]
fn pages_of_a_feed_make_up_the_whole_of_it() {
    let server = Server::start();
    let all = server.session("sess_pages");
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let (status, page) = server.get(&format!("/v1/sessions/sess_pages/events?limit=3{after}"));
        assert_eq!(status, 200, "{page}");
        let events = page["events"].as_array().unwrap();
        assert!(events.len() <= 3);
        paged.extend(events.iter().cloned());
        after = format!("&after={}", page["cursor"].as_str().unwrap());
        if page["hasMore"] == false {
            break;
        }
    }
    assert_eq!(paged, all);
    let events = |query: &str| {
        let (status, page) = server.get(&format!("/v1/sessions/sess_pages/events?{query}"));
        assert_eq!(status, 200, "{page}");
        page["events"].as_array().unwrap().clone()
    };
    assert_eq!(events("limit=99999999999"), all);
    let deltas: Vec<_> = all.iter().filter(|event| event["type"] == "model.delta").cloned().collect();
    assert_eq!(events("types=model.delta"), deltas);
    assert_eq!(events("types=model.delta&limit=2"), deltas[..2]);
    let turn = all.iter().find_map(|event| event["turnId"].as_str()).unwrap();
    let of_turn: Vec<_> = all.iter().filter(|event| event["turnId"] == turn).cloned().collect();
    assert_eq!(events(&format!("turnId={turn}")), of_turn);
    let end = all.last().unwrap()["cursor"].as_str().unwrap();
    assert!(events(&format!("after={end}")).is_empty());
    server.stop();
}

#[test]
fn a_feed_that_is_asked_for_wrongly_names_the_field() {
    let server = Server::start();
    server.session("sess_a");
    for kind in ["events", "stream"] {
        let get = |query: &str| server.get(&format!("/v1/sessions/sess_a/{kind}?{query}"));
        for (query, field) in [("after=xyz", "after"), ("after=", "after"), ("types=%20", "types")] {
            assert_refused(get(query), 400, "invalid_argument", Some(field));
        }
        for limit in ["0", "-1", "ten", ""] {
            assert_refused(get(&format!("limit={limit}")), 400, "invalid_argument", Some("limit"));
        }
        assert_refused(get("taskId=a%20b"), 400, "invalid_argument", Some("taskId"));
        assert_refused(server.get(&format!("/v1/sessions/sess_none/{kind}")), 404, "not_found", None);
        let unknown = format!("/v1/sessions/sess_none/{kind}?after={}", "0".repeat(32));
        assert_refused(server.get(&unknown), 404, "not_found", None);
        let bad = server.get(&format!("/v1/sessions/b%20d/{kind}"));
        assert_refused(bad, 400, "invalid_argument", Some("sessionId"));
    }
    let last = [("Last-Event-ID", "xyz")];
    let refused = server.json("GET", "/v1/sessions/sess_a/stream", &last, b"");
    assert_refused(refused, 400, "invalid_argument", Some("Last-Event-ID"));
    server.stop();
}

#[test]
fn a_stream_that_is_resumed_has_no_hole_and_nothing_twice() {
    let server = Server::start();
    let all = server.session("sess_s");
    let (path, start) = ("/v1/sessions/sess_s/stream", "0".repeat(32));
    let from_start = format!("{path}?after={start}");
    let mut seen = server.stream(&from_start, &[]).facts(4);
    // The header wins: a client sends it with the address that it was first given.
    while seen.len() < all.len() {
        let last = seen.last().unwrap()["cursor"].as_str().unwrap().to_owned();
        let some = 3.min(all.len() - seen.len());
        seen.extend(server.stream(&from_start, &[("Last-Event-ID", &last)]).facts(some));
    }
    assert_eq!(seen, all);
    // What happens while nobody is connected, and while somebody is.
    let last = seen.last().unwrap()["cursor"].as_str().unwrap().to_owned();
    let more = server.session("sess_s");
    let mut live = server.stream(path, &[("Last-Event-ID", &last)]);
    assert_eq!(live.facts(more.len() - all.len()), more[all.len()..]);
    let even_more = server.session("sess_s");
    assert_eq!(live.facts(even_more.len() - more.len()), even_more[more.len()..]);
    server.stop();
}

#[test]
fn a_stream_without_a_position_begins_with_a_snapshot_and_ends_with_a_goodbye() {
    let server = Server::start();
    let before = server.session("sess_n");
    let mut stream = server.stream("/v1/sessions/sess_n/stream?types=turn.*", &[]);
    let (event, id, snapshot) = stream.next().unwrap();
    assert_eq!((event.as_str(), &snapshot["sessionId"]), ("snapshot", &json!("sess_n")));
    assert!(id.as_str() >= before.last().unwrap()["cursor"].as_str().unwrap());
    let after = server.session("sess_n");
    let turns: Vec<_> = after[before.len()..]
        .iter()
        .filter(|event| event["type"].as_str().unwrap().starts_with("turn."))
        .collect();
    assert_eq!(stream.facts(turns.len()).iter().collect::<Vec<_>>(), turns);
    let goodbye = std::thread::spawn(move || {
        // Only the stream goes to the other thread: it must end by itself.
        (stream.next().map(|(event, _, data)| (event, data)), stream.next().is_none())
    });
    server.stop();
    let (bye, ended) = goodbye.join().unwrap();
    let (event, data) = bye.unwrap();
    assert_eq!(event, "bye");
    assert!(data["reason"].is_string() && data["reconnectAfterMs"].is_number() && ended);
}

#[test]
fn blobs_are_served_whole_and_in_parts() {
    let server = Server::start();
    // Longer than what is read from the store at a time, and not a multiple of it.
    let content: Vec<u8> = (0..1_300_001u32).map(|at| (at % 251) as u8).collect();
    let new = NewBlob {
        blob: BlobRef::parse("blob_test").unwrap(),
        media_type: "text/html".into(),
        session: None,
        content: content.clone().into(),
    };
    let meta = server.tokio.block_on(server.rig.runtime.blobs().write("local", new)).unwrap();
    let tag = format!("\"{}\"", meta.hash);
    let get = |headers: &[(&str, &str)]| {
        let mut response = server.send("GET", "/v1/blobs/blob_test", headers, b"");
        let body = response.body_mut().with_config().limit(1 << 24).read_to_vec().unwrap();
        (response, body)
    };
    let (whole, body) = get(&[]);
    assert_eq!((whole.status().as_u16(), body == content), (200, true));
    assert_eq!(whole.headers()["etag"], tag);
    assert_eq!(whole.headers()["accept-ranges"], "bytes");
    assert_eq!(whole.headers()["content-type"], "text/html");
    assert_eq!(whole.headers()["x-content-type-options"], "nosniff");
    let head = server.send("HEAD", "/v1/blobs/blob_test", &[], b"");
    assert_eq!(head.headers()["content-length"], content.len().to_string());
    assert_eq!(head.headers()["etag"], tag);
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=524287-524288", 524_287, 524_289),
        ("bytes=1300000-", 1_300_000, 1_300_001),
        ("bytes=-5", 1_299_996, 1_300_001),
        ("bytes=10-99999999", 10, 1_300_001),
    ] {
        let (part, body) = get(&[("Range", range)]);
        assert_eq!(part.status(), 206, "{range}");
        assert!(body == content[from..to], "{range}");
        let said = format!("bytes {from}-{}/{}", to - 1, content.len());
        assert_eq!(part.headers()["content-range"], said, "{range}");
    }
    assert_eq!(get(&[("Range", "bytes=0-1,5-6")]).0.status(), 200);
    assert_eq!(get(&[("Range", "bytes=0-1"), ("If-Range", "\"other\"")]).0.status(), 200);
    assert_eq!(get(&[("If-None-Match", &tag)]).0.status(), 304);
    let (outside, body) = get(&[("Range", "bytes=1300001-")]);
    assert_eq!(outside.headers()["content-range"], "bytes */1300001");
    let body = serde_json::from_slice(&body).unwrap();
    assert_refused((outside.status().as_u16(), body), 416, "invalid_argument", Some("Range"));
    assert_refused(server.get("/v1/blobs/blob_none"), 404, "not_found", None);
    assert_refused(server.get("/v1/blobs/b%20d"), 400, "invalid_argument", Some("ref"));
    server.stop();
}

#[test]
fn those_who_watch_over_it_are_answered() {
    let server = Server::start();
    assert_eq!(server.get("/healthz").0, 200);
    // A node that has just started is not ready yet; nothing else makes it so but time.
    for _ in 0..400 {
        if server.get("/readyz").0 == 200 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(server.get("/readyz"), (200, json!({ "status": "ready" })));
    let mut metrics = server.send("GET", "/metrics", &[], b"");
    assert!(metrics.headers()["content-type"].to_str().unwrap().starts_with("text/plain; version=0.0.4"));
    let text = metrics.body_mut().read_to_string().unwrap();
    assert!(text.contains("cadre_http_requests_total{method=\"GET\",route=\"/healthz\""), "{text}");
    assert!(text.contains("cadre_http_request_seconds_bucket"), "{text}");
    server.stop();
}
