//! Runs as AG-UI clients ask for them: the body, its events, the history, and attachments, over real connections.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
#[path = "common/server.rs"]
mod server;

use std::{
    io::{BufRead, BufReader},
    time::Duration,
};

use cadre::{
    agui::{
        names,
        ticket::{PURPOSE, Ticket},
    },
    fact::id::BlobRef,
    http::Settings,
};
use cadre_cluster::clock::Timestamp;
use serde_json::{Value, json};
use server::{Server, assert_refused};

const RUNS: &str = "/api/v1/agent/runs";
const HISTORY: &str = "/api/v1/agent/history";
const ATTACHMENTS: &str = "/api/v1/agent/attachments";
const THREAD: &str = "550e8400-e29b-41d4-a716-446655440000";
const EVENTS: (&str, &str) = ("Accept", "text/event-stream");
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR and what follows";

fn run(id: &str, content: Value) -> Value {
    json!({ "threadId": THREAD, "runId": id, "messages": [{ "id": format!("msg-{id}"), "role": "user", "content": content }] })
}

fn script(id: &str, script: Value) -> Value {
    run(id, json!(script.to_string()))
}

/// An id and an event, as they were sent.
type Sent = (String, Value);

/// The next frame that is an event; `None` at the end. Comments go to `aside`.
fn next(lines: &mut impl Iterator<Item = std::io::Result<String>>, aside: &mut Vec<String>) -> Option<Sent> {
    let mut id = String::new();
    loop {
        let line = lines.next()?.unwrap();
        match line.split_once(": ") {
            Some(("id", text)) => id = text.into(),
            Some(("data", text)) => return Some((id, serde_json::from_str(text).unwrap())),
            _ if line.is_empty() => {}
            _ => aside.push(line),
        }
    }
}

impl Server {
    fn start_run(&self, body: &Value) -> (u16, Value) {
        self.json("POST", RUNS, &[], body.to_string().as_bytes())
    }

    fn lines(
        &self,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> impl Iterator<Item = std::io::Result<String>> + use<> {
        let response =
            self.send("POST", RUNS, &[&[EVENTS][..], headers].concat(), body.to_string().as_bytes());
        assert_eq!(response.status(), 200, "{:?}", response.into_body().read_to_string());
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        BufReader::new(response.into_body().into_reader()).lines()
    }

    /// A run to its end, after what was seen of it.
    fn told(&self, body: &Value, seen: Option<&str>) -> Vec<Sent> {
        let headers: Vec<_> = seen.map(|seen| ("Last-Event-ID", seen)).into_iter().collect();
        let mut lines = self.lines(body, &headers);
        std::iter::from_fn(|| next(&mut lines, &mut Vec::new())).collect()
    }

    fn upload(&self, name: &str, filename: &str, content: &[u8]) -> (u16, Value) {
        let head = format!(
            "--edge\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{filename}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        let body = [head.as_bytes(), content, b"\r\n--edge--\r\n"].concat();
        self.json("POST", ATTACHMENTS, &[("Content-Type", "multipart/form-data; boundary=edge")], &body)
    }

    /// A URL of this server without its origin.
    fn path(&self, url: &str) -> String {
        url.strip_prefix(&self.url).unwrap_or_else(|| panic!("{url} is not of {}", self.url)).to_owned()
    }
}

fn types(told: &[Sent]) -> Vec<&str> {
    told.iter().map(|(_, event)| event["type"].as_str().unwrap()).collect()
}

#[test]
fn p3_the_same_run_is_accepted_once_and_another_body_is_a_conflict() {
    let server = Server::start();
    let body = script("run-001", json!([{ "say": "hi" }]));
    let (status, first) = server.start_run(&body);
    assert_eq!(status, 202, "{first}");
    assert_eq!((&first["threadId"], &first["runId"]), (&json!(THREAD), &json!("run-001")));
    assert!(first["created"].as_str().unwrap().ends_with('Z'));
    assert_eq!(server.start_run(&body), (202, first.clone()));
    let mut other = body.clone();
    other["state"] = json!({ "a": 1 });
    let (status, refused) = server.start_run(&other);
    assert_refused((status, refused.clone()), 409, "conflict", None);
    assert!(refused["error"]["message"].as_str().unwrap().contains("run-001"), "{refused}");
    // The task is the turn that the run is.
    let path = format!("/v1/sessions/sess_{THREAD}/events?turnId={}", first["taskId"].as_str().unwrap());
    assert_eq!(server.get(&path).1["events"][0]["type"], "turn.submitted");
    // Another thread may use the id again, and another run of this one is another turn.
    let mut elsewhere = body.clone();
    elsewhere["threadId"] = json!("650e8400-e29b-41d4-a716-446655440000");
    assert_ne!(server.start_run(&elsewhere).1["taskId"], first["taskId"]);
    assert_ne!(server.start_run(&script("run-002", json!([]))).1["taskId"], first["taskId"]);
    server.stop();
}

#[test]
fn p4_a_run_is_told_from_wherever_its_reader_was_cut_each_event_once() {
    let server = Server::start();
    let steps = json!([
        { "say": "one two three", "chunks": 3 },
        { "tool": "echo", "args": { "a": 1 } },
        { "tool": "fail", "args": {} },
        { "say": "done" },
    ]);
    let mut body = script("run-1", steps);
    body["state"] = json!({ "mood": "good" });
    let all = server.told(&body, None);
    let told = types(&all);
    assert_eq!((told[0], told[1], *told.last().unwrap()), ("RUN_STARTED", "STATE_SNAPSHOT", "RUN_FINISHED"));
    for wanted in
        ["STEP_STARTED", "TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "TOOL_CALL_RESULT", "STEP_FINISHED"]
    {
        assert!(told.contains(&wanted), "{wanted} is not in {told:?}");
    }
    let ids: std::collections::BTreeSet<_> = all.iter().map(|(id, _)| id).collect();
    assert_eq!(ids.len(), all.len(), "every event has an id of its own");
    for (cut, (seen, _)) in all.iter().enumerate() {
        assert_eq!(server.told(&body, Some(seen)), all[cut + 1..], "after {seen}");
    }
    let refused = server.json("POST", RUNS, &[EVENTS, ("Last-Event-ID", "x")], body.to_string().as_bytes());
    assert_refused(refused, 400, "invalid_argument", Some("Last-Event-ID"));
    server.stop();
}

#[test]
fn a_run_that_waits_says_so_and_goes_on_when_somebody_decides() {
    let settings = Settings { sign_of_life_every: Duration::from_millis(20), ..Settings::default() };
    let server = Server::start_with(settings);
    let steps =
        json!([{ "approve": { "prompt": "Go on?", "decisions": ["allow", "deny"] } }, { "say": "gone on" }]);
    let body = script("run-1", steps);
    let mut lines = server.lines(&body, &[]);
    let mut aside = Vec::new();
    let action = loop {
        let (_, event) = next(&mut lines, &mut aside).unwrap();
        if event["name"] == "action.required" {
            assert_eq!(event["value"]["prompt"], "Go on?");
            break event["value"]["actionId"].clone();
        }
    };
    let (status, answer) = server.call("respond_action", &json!({ "actionId": action, "decision": "allow" }));
    assert_eq!(status, 200, "{answer}");
    let rest: Vec<_> = std::iter::from_fn(|| next(&mut lines, &mut aside)).collect();
    assert_eq!(types(&rest).last(), Some(&"RUN_FINISHED"));
    assert!(aside.iter().all(|line| line.starts_with(':')), "signs of life are comments: {aside:?}");
    // Denied, it is cancelled; failed, it is an error.
    let failed = server.told(
        &script("run-2", json!([{ "fail": { "message": "boom", "retryable": false, "times": 9 } }])),
        None,
    );
    assert_eq!(types(&failed).last(), Some(&"RUN_ERROR"));
    assert_eq!(failed.last().unwrap().1["message"], "boom");
    server.stop();
}

#[test]
fn a_server_that_stops_takes_leave_with_a_comment() {
    let server = Server::start();
    let body = script("run-1", json!([{ "approve": { "prompt": "?", "decisions": ["allow"] } }]));
    let mut lines = server.lines(&body, &[]);
    let mut aside = Vec::new();
    while next(&mut lines, &mut aside).unwrap().1["name"] != "action.required" {}
    let rest = std::thread::spawn(move || {
        let events = std::iter::from_fn(|| next(&mut lines, &mut aside)).count();
        (events, aside)
    });
    server.stop();
    let (events, aside) = rest.join().unwrap();
    assert_eq!(events, 0);
    assert!(aside.iter().any(|line| line.starts_with(": bye")), "{aside:?}");
}

#[test]
fn what_breaks_a_rule_is_refused_in_the_envelope_and_starts_nothing() {
    let server = Server::start();
    let body = run("run-1", json!("x".repeat(10_001)));
    let refused = server.start_run(&body);
    assert_eq!(refused.1["error"]["message"], "RunAgentInput user message text exceeds limit");
    assert_refused(refused, 400, "invalid_argument", Some("messages[0].content"));
    let large = vec![b' '; 262_145];
    let (status, refused) = server.json("POST", RUNS, &[EVENTS], &large);
    assert_eq!(refused["error"]["message"], "RunAgentInput payload exceeds size limit");
    assert_refused((status, refused), 413, "payload_too_large", None);
    let mut unknown = run("run-1", json!("hi"));
    unknown["forwardedProps"] = json!({ "agent": "nobody" });
    assert_refused(server.start_run(&unknown), 404, "not_found", Some("forwardedProps.agent"));
    for text in [&b""[..], b"{", b"[]", b"\xff"] {
        assert_refused(server.json("POST", RUNS, &[], text), 400, "invalid_argument", None);
    }
    assert_refused(server.get(RUNS), 405, "invalid_argument", Some("method"));
    let (_, sessions) = server.call("list_sessions", &json!({}));
    assert_eq!(sessions["result"]["sessions"], json!([]));
    server.stop();
}

#[test]
fn an_image_is_kept_served_by_its_url_and_given_to_the_run() {
    let server = Server::start();
    let (status, kept) = server.upload("file", "图.png", PNG);
    assert_eq!(status, 200, "{kept}");
    assert_eq!(
        (&kept["mimeType"], &kept["filename"], &kept["sizeBytes"]),
        (&json!("image/png"), &json!("图.png"), &json!(PNG.len()))
    );
    let url = kept["url"].as_str().unwrap();
    let mut served = server.send("GET", &server.path(url), &[], b"");
    assert_eq!(served.status(), 200);
    for (name, value) in [
        ("content-type", "image/png"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "default-src 'none'; sandbox"),
    ] {
        assert_eq!(served.headers()[name], value);
    }
    assert_eq!(served.body_mut().read_to_vec().unwrap(), PNG);
    let image = json!({ "type": "binary", "mimeType": "image/png", "url": url });
    let text = json!([{ "say": "seen" }]).to_string();
    let body = run("run-1", json!([{ "type": "text", "text": text }, image]));
    assert_eq!(types(&server.told(&body, None)).last(), Some(&"RUN_FINISHED"));
    let path = format!("/v1/sessions/sess_{THREAD}/events?types=turn.submitted");
    assert_eq!(
        server.get(&path).1["events"][0]["payload"]["input"][1],
        json!({ "type": "blob", "ref": kept["id"], "mediaType": "image/png" })
    );
    // The history has a URL of its own for it.
    let (_, day) = server.get(&format!("{HISTORY}?threadId={THREAD}"));
    let again = day["messages"][0]["url"].as_str().unwrap();
    assert_eq!(server.send("GET", &server.path(again), &[], b"").body_mut().read_to_vec().unwrap(), PNG);
    server.stop();
}

#[test]
fn p8_urls_that_are_forged_expired_or_of_others_open_nothing() {
    let server = Server::start();
    let (_, kept) = server.upload("file", "a.png", PNG);
    let (_, other) = server.upload("file", "b.png", PNG);
    let blob = BlobRef::parse(kept["id"].as_str().unwrap()).unwrap();
    let sign = |purpose: &str, ticket: &Ticket| {
        let payload = ticket.encode();
        let signed = server.rig.runtime.signer().sign(purpose, &payload);
        ticket.url(&server.url, &server.tokio.block_on(signed).unwrap())
    };
    let far = Timestamp(u64::MAX / 2);
    let ticket = |tenant: &str, expires| Ticket { tenant: tenant.into(), blob: blob.clone(), expires };
    let url = kept["url"].as_str().unwrap();
    let token = url.split_once("token=").unwrap().1;
    let bad = [
        format!("{url}x"),
        url.replace(token, ""),
        url.replace(blob.as_str(), other["id"].as_str().unwrap()),
        sign(PURPOSE, &ticket("local", Timestamp(1))),
        sign("channel", &ticket("local", far)),
    ];
    let foreign = sign(PURPOSE, &ticket("other", far));
    for url in bad.iter().chain([&foreign]) {
        let (status, body) = server.get(&server.path(url));
        // With a ticket of another tenant there is nothing: the image is not theirs.
        let (expected, code) = if *url == foreign { (404, "not_found") } else { (403, "forbidden") };
        assert_refused((status, body), expected, code, None);
        let image = json!([{ "type": "binary", "mimeType": "image/png", "url": url }]);
        let (status, body) = server.start_run(&run("run-1", image));
        assert_eq!(
            body["error"]["message"],
            "messages[0].content[0].url: must be the URL of an attachment that is still good"
        );
        assert_refused((status, body), 400, "invalid_argument", Some("messages[0].content[0].url"));
    }
    server.stop();
}

#[test]
fn what_is_no_image_or_too_large_or_no_upload_is_refused() {
    let server = Server::start();
    for (name, content) in [("file", &b"<svg onload=alert(1)>"[..]), ("file", b""), ("other", PNG)] {
        assert_refused(server.upload(name, "a.png", content), 400, "invalid_argument", Some("file"));
    }
    let large = [PNG, &vec![0; 10 * 1024 * 1024]].concat();
    assert_refused(server.upload("file", "a.png", &large), 413, "payload_too_large", Some("file"));
    assert_refused(server.json("POST", ATTACHMENTS, &[], PNG), 400, "invalid_argument", None);
    let multipart = [("Content-Type", "multipart/form-data; boundary=edge")];
    for body in [&b""[..], b"--edge\r\n", b"--edge\r\n\r\n\r\n--other--", b"\xff\xfe"] {
        assert_refused(server.json("POST", ATTACHMENTS, &multipart, body), 400, "invalid_argument", None);
    }
    server.stop();
}

#[test]
fn the_history_of_a_day_is_what_was_said_in_it() {
    let server = Server::start();
    let empty =
        json!({ "scope": "history_day", "threadId": null, "day": null, "hasMore": false, "messages": [] });
    assert_eq!(server.get(HISTORY), (200, empty));
    // Larger than a fact shows.
    let question =
        json!([{ "say": "hello" }, { "tool": "echo", "args": { "a": "x".repeat(6_000) } }, { "say": "bye" }]);
    let mut body = script("run-1", question.clone());
    body["context"] = json!([{ "description": "place", "value": "Berlin" }]);
    server.told(&body, None);
    server.told(&script("run-2", json!([{ "say": "two" }])), None);
    let (status, day) = server.get(&format!("{HISTORY}?threadId={THREAD}"));
    assert_eq!(
        (status, &day["scope"], &day["hasMore"]),
        (200, &json!("history_day"), &json!(false)),
        "{day}"
    );
    let messages = day["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user", "assistant"]);
    let seqs: Vec<_> = messages.iter().map(|message| message["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
    assert_eq!(
        (&messages[0]["id"], &messages[0]["content"]),
        (&json!("msg-run-1"), &json!(question.to_string())),
        "and no prompts"
    );
    assert_eq!((&messages[0]["url"], messages[0].get("uiSchema")), (&Value::Null, None));
    assert_eq!((&messages[1]["content"], messages[1].get("uiSchema")), (&json!("hello"), Some(&Value::Null)));
    let today = day["day"].as_str().unwrap();
    assert!(messages[0]["timestamp"].as_str().unwrap().starts_with(today));
    // The latest thread, and what came before a day.
    assert_eq!(server.get(HISTORY).1, day);
    let before = server.get(&format!("{HISTORY}?threadId={THREAD}&before={today}")).1;
    assert_eq!(
        (&before["day"], &before["messages"], &before["threadId"]),
        (&Value::Null, &json!([]), &json!(THREAD))
    );
    assert_eq!(server.get(&format!("{HISTORY}?threadId={THREAD}&before=9999-12-31")).1, day);
    for (query, field) in
        [("before=yesterday", "before"), ("before=2026-02-30", "before"), ("threadId=1", "threadId")]
    {
        assert_refused(server.get(&format!("{HISTORY}?{query}")), 400, "invalid_argument", Some(field));
    }
    let unknown = format!("{HISTORY}?threadId=650e8400-e29b-41d4-a716-446655440000");
    assert_refused(server.get(&unknown), 404, "not_found", None);
    server.stop();
}

#[test]
fn a_run_is_found_by_the_ids_that_follow_from_its_own() {
    let server = Server::start();
    let (_, accepted) = server.start_run(&script("语 / 1", json!([{ "sleep": 600_000 }])));
    assert_eq!(accepted["taskId"], names::turn(THREAD, "语 / 1").as_str());
    let stop = json!({ "sessionId": format!("sess_{THREAD}"), "turnId": accepted["taskId"] });
    let (status, stopped) = server.call("interrupt_turn", &stop);
    assert_eq!((status, &stopped["result"]["status"]), (200, &json!("cancelled")), "{stopped}");
    let told = server.told(&script("语 / 1", json!([{ "sleep": 600_000 }])), None);
    assert_eq!(told.last().unwrap().1["outcome"], json!({ "type": "cancelled" }));
    server.stop();
}
