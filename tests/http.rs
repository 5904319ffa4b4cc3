//! The gateway, over real connections to a real runtime.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
#[path = "common/server.rs"]
mod server;

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use cadre::{
    blob::NewBlob,
    fact::id::BlobRef,
    http::{BODY_BYTES_MAX, LARGE_BODY_BYTES_MAX, SMALL_BODY_BYTES_MAX},
};
use common::turn;
use serde_json::{Value, json};
use server::{Server, assert_refused};

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
    // A job brings the inputs of all of its items.
    let job = "/v1/commands/create_job";
    let (status, body) = server.json("POST", job, &[], &vec![b' '; LARGE_BODY_BYTES_MAX + 1]);
    assert_eq!(body["error"]["details"]["limit"], LARGE_BODY_BYTES_MAX, "{body}");
    assert_refused((status, body), 413, "payload_too_large", None);
    let create = "/v1/commands/create_session";
    assert_eq!(server.json("POST", create, &[], br#"{"sessionId":"sess_large"}"#).0, 200);
    let items = vec![json!({ "input": [{ "type": "text", "text": "x".repeat(9) }] }); 60_000];
    let args =
        json!({ "jobId": "job_large", "sessionId": "sess_large", "agent": "scripted", "instruction": "o", "items": items, "concurrency": 1 }).to_string();
    assert!(args.len() > SMALL_BODY_BYTES_MAX);
    let (status, body) = server.json("POST", job, &[("X-Deadline-Ms", "120000")], args.as_bytes());
    assert_eq!((status, &body["result"]["total"]), (200, &json!(60_000)), "{body}");
    // Without saying how long it is.
    let body = vec![b' '; BODY_BYTES_MAX + 1];
    let chunked = ureq::SendBody::from_owned_reader(std::io::Cursor::new(body));
    let mut response = server.agent.post(format!("{}{path}", server.url)).send(chunked).unwrap();
    assert_eq!(response.status(), 413, "{:?}", response.body_mut().read_to_string());
    // An input has its limit, however many bytes JSON needs to say it.
    let submit = |bytes: usize| {
        let text = "\u{1}".repeat(bytes);
        let args = json!({ "sessionId": "sess_large", "input": [{ "type": "text", "text": text }] });
        server.json("POST", path, &[], args.to_string().as_bytes())
    };
    let (status, body) = submit(1024 * 1024);
    assert_eq!(status, 200, "{body}");
    let (status, body) = submit(1024 * 1024 + 1);
    assert_eq!(body["error"]["details"]["limit"], 1024 * 1024, "{body}");
    assert_refused((status, body), 413, "payload_too_large", Some("input"));
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
fn a_key_of_8_to_128_characters_is_taken() {
    let server = Server::start();
    for key in ["k".repeat(8), "k".repeat(128), "a b!c~d/e".into()] {
        let key = [("Idempotency-Key", key.as_str())];
        let made = || server.json("POST", "/v1/commands/create_session", &key, b"{}");
        let (status, first) = made();
        assert_eq!(status, 200, "{first}");
        assert_eq!(made(), (200, first), "P3: {key:?}");
    }
    server.stop();
}

#[test]
fn the_commands_are_listed_with_schemas_that_their_examples_keep() {
    let server = Server::start();
    let (status, body) = server.get("/v1/commands");
    assert_eq!(status, 200);
    let commands = body["commands"].as_array().unwrap();
    let names: Vec<_> = commands.iter().map(|command| command["name"].as_str().unwrap()).collect();
    let known: Vec<_> = cadre::control::registry().commands().map(|command| command.name).collect();
    assert_eq!(names, known);
    assert!(jsonschema::validator_for(&body["error"]).is_ok());
    for command in commands {
        for text in ["summary", "description", "group", "kind", "scope"] {
            assert!(command[text].as_str().is_some_and(|text| !text.is_empty()), "{command}");
        }
        let arguments = jsonschema::validator_for(&command["arguments"]).unwrap();
        assert!(arguments.is_valid(&command["example"]), "{command}");
        assert!(jsonschema::validator_for(&command["result"]).is_ok(), "{command}");
        // A list of everything is no place to go on from: each of them is a path.
        let path = format!("/v1/commands/{}", command["name"].as_str().unwrap());
        assert_refused(server.get(&path), 405, "invalid_argument", Some("method"));
    }
    server.stop();
}

#[test]
fn the_whole_surface_is_one_document() {
    let server = Server::start();
    let (status, document) = server.get("/openapi.json");
    assert_eq!((status, &document["openapi"]), (200, &json!("3.1.0")));
    let paths = document["paths"].as_object().unwrap();
    for command in cadre::control::registry().commands() {
        let operation = &paths[&format!("/v1/commands/{}", command.name)]["post"];
        assert_eq!(operation["operationId"], command.name);
        // Its schemas say something in the document's own words.
        let body = operation["requestBody"]["content"]["application/json"].clone();
        let mut schema = body["schema"].clone();
        schema["components"] = document["components"].clone();
        assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&body["example"]), "{}", command.name);
        assert!(!jsonschema::validator_for(&schema).unwrap().is_valid(&json!(7)), "{}", command.name);
    }
    // What it names is there: nothing of it is an unknown path.
    for path in paths.keys() {
        let (_, body) = server.get_text(&path.replace("{sessionId}", "none").replace("{ref}", "none"));
        assert!(!body.contains("there is nothing at"), "{path}: {body}");
    }
    server.stop();
}

#[test]
fn a_feed_is_filtered_by_what_its_events_are_about() {
    let server = Server::start();
    let script = json!([
        { "tool": "echo", "args": { "a": 1 } },
        { "spawn": { "count": 2, "script": [{ "tool": "echo" }], "join": "all" } },
        { "task": { "objective": "o", "taskId": "task_f", "script": [{ "say": "1" }], "join": true } },
    ]);
    let (_, answer) = server.call("submit_turn", &turn("sess_f", script));
    let turn = answer["result"]["turnId"].as_str().unwrap();
    server.tokio.block_on(server.rig.turn_over("sess_f", turn));
    let all = server.tokio.block_on(server.rig.served("sess_f"));
    let of_class = |class: &str| all.iter().find(|event| event["type"] == class).unwrap();
    let subagent = of_class("subagent.spawned")["subagentId"].as_str().unwrap();
    let task = of_class("task.created")["taskId"].as_str().unwrap();
    for (field, id) in [("turnId", turn), ("subagentId", subagent), ("taskId", task)] {
        let wanted: Vec<_> = all.iter().filter(|event| event[field] == id).collect();
        assert!(wanted.len() > 3 && wanted.len() < all.len(), "{field}");
        let (_, page) = server.get(&format!("/v1/sessions/sess_f/events?{field}={id}"));
        assert_eq!(page["events"].as_array().unwrap().iter().collect::<Vec<_>>(), wanted, "{field}");
        let start = "0".repeat(32);
        let path = format!("/v1/sessions/sess_f/stream?after={start}&{field}={id}");
        assert_eq!(
            server.stream(&path, &[]).facts(wanted.len()).iter().collect::<Vec<_>>(),
            wanted,
            "{field}"
        );
        // Filters narrow each other.
        let (_, page) = server.get(&format!("/v1/sessions/sess_f/events?{field}={id}&types=tool.*,task.*"));
        let is_meant = |event: &&Value| {
            let class = event["type"].as_str().unwrap();
            class.starts_with("tool.") || class.starts_with("task.")
        };
        let narrowed: Vec<_> = wanted.into_iter().filter(is_meant).collect();
        assert_eq!(page["events"].as_array().unwrap().iter().collect::<Vec<_>>(), narrowed, "{field}");
    }
    let (status, page) = server.get("/v1/sessions/sess_f/events?taskId=task_none");
    assert_eq!((status, &page["events"], &page["hasMore"]), (200, &json!([]), &json!(false)));
    server.stop();
}

#[test]
fn a_command_that_takes_too_long_may_be_sent_again_with_its_key() {
    let server = Server::start();
    let key = |number: usize| format!("impatient-{number}");
    let submit = |number: usize, patient: bool| {
        let key = key(number);
        let mut headers = vec![("Idempotency-Key", key.as_str())];
        if !patient {
            headers.push(("X-Deadline-Ms", "1"));
        }
        let body = turn(&format!("sess_{number}"), json!([])).to_string();
        server.json("POST", "/v1/commands/submit_turn", &headers, body.as_bytes())
    };
    for number in 0..20 {
        let hasty = submit(number, false);
        match hasty.0 {
            200 => {}
            _ => assert_refused(hasty.clone(), 504, "deadline_exceeded", None),
        }
        // Whether it was too late or not: it happens, and happens once.
        let (status, answer) = submit(number, true);
        assert_eq!(status, 200, "{answer}");
        if hasty.0 == 200 {
            assert_eq!(hasty.1, answer);
        } else {
            assert_eq!(hasty.1["error"]["retryable"], true);
        }
        let turn = answer["result"]["turnId"].as_str().unwrap();
        let session = format!("sess_{number}");
        server.tokio.block_on(server.rig.turn_over(&session, turn));
        let events = server.tokio.block_on(server.rig.served(&session));
        assert_eq!(common::count(&events, "turn.submitted"), 1, "P3");
    }
    server.stop();
}

#[test]
fn a_name_that_is_not_this_machine_is_not_served() {
    let server = Server::start();
    let address = server.url.strip_prefix("http://").unwrap();
    let ask = |host: &str, more: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        let request = "POST /v1/commands/create_session HTTP/1.1";
        write!(
            stream,
            "{request}\r\nHost: {host}\r\n{more}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
    };
    for host in ["evil.example", "evil.example:7600", "localhost.evil.example", "192.168.0.1"] {
        assert_refused(ask(host, ""), 403, "forbidden", None);
    }
    assert_refused(ask(address, "Origin: https://evil.example\r\n"), 403, "forbidden", None);
    assert_refused(ask(address, "Origin: null\r\n"), 403, "forbidden", None);
    assert_eq!(server.get("/healthz").0, 200);
    let (_, sessions) = server.call("list_sessions", &json!({}));
    assert_eq!(sessions["result"]["sessions"], json!([]), "nothing of that was done");
    for (host, more) in [("localhost:1", ""), (address, "Origin: http://localhost:3000\r\n")] {
        assert_eq!(ask(host, more).0, 200);
    }
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
fn facts_carry_the_trace_that_a_command_came_with_and_none_that_is_no_trace() {
    let server = Server::start();
    let traces = |session: &str, header: &str| {
        let body = json!({ "sessionId": session }).to_string();
        let headers = [("traceparent", header)];
        let (status, answer) = server.json("POST", "/v1/commands/create_session", &headers, body.as_bytes());
        assert_eq!(status, 200, "{answer}");
        let events = server.tokio.block_on(server.rig.served(session));
        events.into_iter().map(|event| event["traceId"].clone()).collect::<Vec<_>>()
    };
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let carried = traces("sess_1", &format!("00-{trace}-b7ad6b7169203331-01"));
    assert!(!carried.is_empty() && carried.iter().all(|carried| carried == trace), "{carried:?}");
    assert!(traces("sess_2", "00-nonsense-01").iter().all(Value::is_null));
    server.stop();
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
    for bad in ["bytes=1300001-1400000", "bytes=-0", "bytes=99999999999999999999999-"] {
        let (outside, _) = get(&[("Range", bad)]);
        assert_eq!(outside.status(), 416, "{bad}");
        assert_eq!(outside.headers()["content-range"], "bytes */1300001", "{bad}");
    }
    // What is no range is none.
    for odd in ["bytes=5-2", "bytes=a-b", "lines=0-1", "bytes"] {
        assert_eq!(get(&[("Range", odd)]).0.status(), 200, "{odd}");
    }
    let part = server.send("HEAD", "/v1/blobs/blob_test", &[("Range", "bytes=0-9")], b"");
    assert_eq!((part.status().as_u16(), &part.headers()["content-length"]), (206, &"10".parse().unwrap()));
    assert_eq!(server.send("HEAD", "/v1/blobs/blob_none", &[], b"").status(), 404);
    assert_refused(
        server.json("POST", "/v1/blobs/blob_test", &[], b""),
        405,
        "invalid_argument",
        Some("method"),
    );
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
