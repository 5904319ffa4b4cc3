//! What browsers ask of the gateway: answers that are short on the way, and whether pages of others may use it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/server.rs"]
mod server;

use std::io::Read;

use cadre::{blob::NewBlob, fact::id::BlobRef, http};
use serde_json::{Value, json};
use server::{Server, assert_refused};

const GZIP: (&str, &str) = ("Accept-Encoding", "gzip, deflate, br");

#[test]
fn pages_are_compressed_for_whoever_asks_and_streams_and_blobs_are_not() {
    let server = Server::start();
    let events = server.session("s");
    let plain = server.get_text("/v1/sessions/s/events").1;
    let page = server.send("GET", "/v1/sessions/s/events", &[GZIP], b"");
    assert_eq!(page.headers()["content-encoding"], "gzip");
    assert!(page.headers()["vary"].to_str().unwrap().to_ascii_lowercase().contains("accept-encoding"));
    let mut packed = Vec::new();
    page.into_body().into_reader().read_to_end(&mut packed).unwrap();
    assert!(packed.len() * 2 < plain.len(), "{} of {} bytes", packed.len(), plain.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, plain);
    for path in ["/v1/sessions/s/events", "/openapi.json"] {
        let asked = server.send("GET", path, &[], b"");
        assert!(asked.headers().get("content-encoding").is_none(), "{path}: nobody asked for it");
    }
    let small = server.send("GET", "/healthz", &[GZIP], b"");
    assert!(small.headers().get("content-encoding").is_none(), "too small");
    // Each event leaves at once, as it is.
    let after = events[0]["cursor"].as_str().unwrap();
    let mut stream = server.stream(&format!("/v1/sessions/s/stream?after={after}"), &[GZIP]);
    assert_eq!(stream.facts(events.len() - 1), events[1..]);
    let new = NewBlob {
        blob: BlobRef::parse("blob_test").unwrap(),
        media_type: "application/json".into(),
        session: None,
        content: json!(vec!["the same again"; 1_000]).to_string().into(),
    };
    server.tokio.block_on(server.rig.runtime.blobs().write("local", new)).unwrap();
    let blob = server.send("GET", "/v1/blobs/blob_test", &[GZIP], b"");
    assert!(blob.headers().get("content-encoding").is_none() && blob.headers().contains_key("accept-ranges"));
    server.stop();
}

#[test]
fn compression_can_be_switched_off() {
    let server = Server::start_with(http::Settings { compression: false, ..http::Settings::default() });
    let asked = server.send("GET", "/openapi.json", &[GZIP], b"");
    assert!(asked.headers().get("content-encoding").is_none());
    server.stop();
}

#[test]
fn p8_on_loopback_without_credentials_no_page_of_others_is_served_whatever_is_configured() {
    let all = http::Settings { cors_origins: vec!["*".into()], ..http::Settings::default() };
    let server = Server::start_with(all);
    let origin = [("Origin", "https://evil.example")];
    assert_refused(server.json("GET", "/v1/commands", &origin, b""), 403, "forbidden", None);
    let asked = [("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")];
    let preflight = server.send("OPTIONS", "/v1/commands/submit_turn", &asked, b"");
    assert_eq!(preflight.status(), 403);
    assert!(preflight.headers().get("access-control-allow-origin").is_none());
    let (status, commands): (u16, Value) = server.get("/v1/commands");
    assert!(status == 200 && !commands.is_null(), "{commands}");
    server.stop();
}
