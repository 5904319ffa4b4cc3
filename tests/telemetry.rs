//! Spans as a collector gets them: real requests, from a real node.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/process.rs"]
mod process;

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::Stdio,
    sync::{Arc, Mutex},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value as Any},
    trace::v1::Span,
};
use process::Dev;
use prost::Message;
use serde_json::{Value, json};

/// A request as it came.
struct Got {
    head: String,
    body: Vec<u8>,
}

/// A collector that keeps what it gets.
fn collector() -> (String, Arc<Mutex<Vec<Got>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let got: Arc<Mutex<Vec<Got>>> = Arc::default();
    let kept = got.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = BufReader::new(stream);
            loop {
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    if stream.read_line(&mut head).unwrap_or(0) == 0 {
                        break;
                    }
                }
                let head = head.to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let Some(length) = length.and_then(|length| length.parse().ok()) else { break };
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                kept.lock().unwrap().push(Got { head, body });
                stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
            }
        }
    });
    (url, got)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The attributes of a span that are texts.
fn texts(span: &Span) -> HashMap<String, String> {
    let of = |pair: &KeyValue| match pair.value.as_ref()?.value.as_ref()? {
        Any::StringValue(text) => Some((pair.key.clone(), text.clone())),
        _ => None,
    };
    span.attributes.iter().filter_map(of).collect()
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into()
}

/// One turn with a tool, from its submit to its end, on a node that is then stopped. All of its events.
fn a_turn(arguments: &[&str], traceparent: Option<&str>) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut all = vec!["node", "--listen", "127.0.0.1:0", "--name", "n1", "--data", data.to_str().unwrap()];
    all.extend(["--set", "node.shards=8"]);
    all.extend(arguments);
    let node = Dev::start(&all, Stdio::inherit());
    let url = node.ready();
    let script = json!([{ "say": "sesame" }, { "tool": "sleep", "args": { "ms": 5 } }, { "tool": "echo", "args": { "word": "sesame" } }]);
    let input = json!([{ "type": "text", "text": script.to_string() }]);
    let turn = json!({ "sessionId": "s", "agent": "scripted", "input": input });
    let mut request = agent().post(format!("{url}/v1/commands/submit_turn"));
    if let Some(traceparent) = traceparent {
        request = request.header("traceparent", traceparent);
    }
    let answer = request.header("authorization", "Bearer sesame").send_json(&turn).unwrap();
    assert_eq!(answer.status(), 200);
    let refused =
        agent().post(format!("{url}/v1/commands/get_session")).send_json(json!({ "sessionId": "none" }));
    assert_eq!(refused.unwrap().status(), 404);
    let events = loop {
        let mut page = agent().get(format!("{url}/v1/sessions/s/events?limit=1000")).call().unwrap();
        let page: Value = page.body_mut().read_json().unwrap();
        let events = page["events"].as_array().unwrap().clone();
        if events.iter().any(|event| event["type"] == "turn.completed") {
            break events;
        }
        thread::sleep(std::time::Duration::from_millis(20));
    };
    node.signal("TERM");
    assert!(node.ended().success());
    events
}

#[test]
fn spans_reach_a_collector_joined_to_each_other_and_to_the_facts() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let (url, got) = collector();
    let endpoint = format!("telemetry.otlp_endpoint={url}/");
    let set = [
        "--set",
        &endpoint,
        "--set",
        "telemetry.otlp_headers=x-key=hush",
        "--set",
        "telemetry.sample_ratio=0",
    ];
    let events = a_turn(&set, Some(&format!("00-{TRACE}-b7ad6b7169203331-01")));
    let got = got.lock().unwrap();
    let mut spans = Vec::new();
    for Got { head, body } in got.iter() {
        assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
        for header in ["content-type: application/x-protobuf", "x-key: hush"] {
            assert!(head.contains(header), "{header}: {head}");
        }
        assert!(!body.windows(6).any(|window| window == b"sesame"), "what users say and send is in no span");
        let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
        for resource in request.resource_spans {
            let about = resource.resource.unwrap().attributes;
            assert!(about.iter().any(|pair| pair.key == "service.instance.id"), "{about:?}");
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    // The caller sends its trace, so we do, whatever part of ours is sent.
    let submit = spans.iter().find(|span| span.name == "submit_turn").expect("a span of the command");
    assert_eq!(
        (hex(&submit.trace_id).as_str(), hex(&submit.parent_span_id).as_str()),
        (TRACE, "b7ad6b7169203331")
    );
    let about = texts(submit);
    assert_eq!((about["session_id"].as_str(), about["tenant"].as_str()), ("s", "local"));
    assert_eq!(Some(about["turn_id"].as_str()), events.iter().find_map(|event| event["turnId"].as_str()));
    let effects: Vec<_> = spans.iter().filter(|span| span.name == "effect").collect();
    assert!(!effects.is_empty(), "{spans:?}");
    for effect in effects {
        assert_eq!(effect.trace_id, submit.trace_id);
        assert_eq!(effect.parent_span_id, submit.span_id, "what an effect was caused by");
        assert_eq!(texts(effect)["stream_id"], "session:s");
    }
    assert!(spans.iter().all(|span| span.trace_id == submit.trace_id), "of the others nothing is sent");
    let of_turn: Vec<_> = events.iter().filter(|event| event["type"] == "turn.submitted").collect();
    assert_eq!(
        (&of_turn[0]["traceId"], &of_turn[0]["spanId"]),
        (&TRACE.into(), &hex(&submit.span_id).into())
    );
}

#[test]
fn a_trace_begins_here_when_nobody_brings_one() {
    let (url, got) = collector();
    let endpoint = format!("telemetry.otlp_endpoint={url}");
    let events = a_turn(&["--set", &endpoint], None);
    let got = got.lock().unwrap();
    let requests = got.iter().map(|got| ExportTraceServiceRequest::decode(&got.body[..]).unwrap());
    let spans: Vec<Span> = requests
        .flat_map(|request| request.resource_spans)
        .flat_map(|resource| resource.scope_spans)
        .flat_map(|scope| scope.spans)
        .collect();
    let submit = spans.iter().find(|span| span.name == "submit_turn").expect("a span of the command");
    assert!(submit.parent_span_id.is_empty());
    let submitted = events.iter().find(|event| event["type"] == "turn.submitted").unwrap();
    assert_eq!(submitted["traceId"], hex(&submit.trace_id), "the facts are of that trace");
    let refused = spans.iter().find(|span| span.name == "get_session").expect("a span of the refused one");
    let status = refused.status.as_ref().unwrap().code;
    assert_eq!((texts(refused)["error"].as_str(), status), ("not_found", 2));
}

#[test]
fn without_a_collector_nothing_is_sent_and_nothing_is_traced() {
    let (_, got) = collector();
    let events = a_turn(&[], None);
    assert!(events.iter().all(|event| event["traceId"].is_null()));
    assert!(got.lock().unwrap().is_empty());
}
