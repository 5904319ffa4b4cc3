//! Following a feed over HTTP when it is silent, when it was trimmed, and when somebody does not read.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
#[path = "common/process.rs"]
mod process;
#[path = "common/server.rs"]
mod server;

use std::{
    io::{Read, Write},
    net::TcpStream,
    process::Stdio,
    time::Duration,
};

use cadre::{fact::Cursor, http::Settings};
use cadre_cluster::feed::{Feed, trim};
use common::{PATIENCE, count, turn};
use process::{Dev, cadre};
use serde_json::{Value, json};
use server::Server;
use tokio::time::Instant;

const START: &str = "00000000000000000000000000000000";

fn cursor(event: &Value) -> String {
    event["cursor"].as_str().unwrap().to_owned()
}

impl Server {
    /// Removes the first events of a session, up to and including this one.
    fn trim(&self, session: &str, last: &Value) {
        let to: Cursor = cursor(last).parse().unwrap();
        let feed = Feed::new(self.rig.store(), "local", session, to.epoch());
        let trimmed = self.tokio.block_on(trim(&feed, to)).unwrap();
        assert!(trimmed.events > 0);
    }

    fn events(&self, session: &str, query: &str) -> Value {
        let (status, page) = self.get(&format!("/v1/sessions/{session}/events?{query}"));
        assert_eq!(status, 200, "{page}");
        page
    }
}

#[test]
fn who_follows_a_silent_feed_is_told_that_the_server_is_there() {
    assert_eq!(Settings::default().sign_of_life_every, Duration::from_secs(15), "as it is documented");
    let server =
        Server::start_with(Settings { sign_of_life_every: Duration::from_millis(20), ..Settings::default() });
    let before = server.session("sess_q");
    let path = format!("/v1/sessions/sess_q/stream?after={}", cursor(before.last().unwrap()));
    let mut stream = server.stream(&path, &[]);
    for _ in 0..3 {
        assert!(stream.line().starts_with(':'), "a comment, which readers ignore");
        assert_eq!(stream.line(), "");
    }
    // Comments are no events: the position stays, and what happens comes.
    let after = server.session("sess_q");
    assert_eq!(stream.facts(after.len() - before.len()), after[before.len()..]);
    server.stop();
}

#[test]
fn p4_a_reader_from_before_a_trim_is_told_of_the_gap_and_given_a_snapshot_and_the_tail() {
    let server = Server::start();
    let all = server.session("sess_g");
    let (gone, seen) = (&all[all.len() / 2], &all[1]);
    server.trim("sess_g", gone);
    let path = "/v1/sessions/sess_g/stream";
    let stale = cursor(seen);
    let mut streams: Vec<_> = [START, &stale]
        .into_iter()
        .map(|last| {
            let mut stream = server.stream(path, &[("Last-Event-ID", last)]);
            let (event, id, gap) = stream.next().unwrap();
            assert_eq!((event.as_str(), id.as_str()), ("gap", ""), "a gap is no position");
            let expected =
                json!({ "sessionId": "sess_g", "from": last, "to": cursor(gone), "reason": "trimmed" });
            assert_eq!(gap, expected);
            let (event, id, snapshot) = stream.next().unwrap();
            assert_eq!((event.as_str(), &snapshot["sessionId"]), ("snapshot", &json!("sess_g")));
            assert_eq!(snapshot["cursor"], id.as_str());
            // The snapshot stands for everything before it, also for what is still kept.
            assert!(id >= cursor(all.last().unwrap()));
            assert_eq!(snapshot["threads"][0]["turns"][0]["status"], "completed", "{snapshot:#}");
            (stream, id)
        })
        .collect();
    // That it happened is a fact, once for each trim, however many come too late.
    let served = server.tokio.block_on(server.rig.served("sess_g"));
    assert_eq!(count(&served, "snapshot.repaired"), 1, "{served:#?}");
    let repaired = served.iter().find(|event| event["type"] == "snapshot.repaired").unwrap();
    assert_eq!(repaired["payload"]["to"], cursor(gone));
    let more = server.session("sess_g");
    for (stream, snapshot) in &mut streams {
        let rest: Vec<Value> = more.iter().filter(|event| cursor(event) > *snapshot).cloned().collect();
        assert!(!rest.is_empty());
        assert_eq!(stream.facts(rest.len()), rest, "P4: the tail begins right after the snapshot");
    }
    // Whoever has seen the last event that is gone has missed nothing.
    let kept: Vec<_> = more.iter().filter(|event| cursor(event) > cursor(gone)).cloned().collect();
    assert_eq!(server.stream(path, &[("Last-Event-ID", &cursor(gone))]).facts(kept.len()), kept);
    // Pages mark the gap, too, and go on with what is kept.
    let page = server.events("sess_g", &format!("after={stale}"));
    assert_eq!(page["gap"], json!({ "from": stale, "to": cursor(gone) }));
    assert_eq!(page["events"], json!(kept));
    server.stop();
}

#[test]
fn a_filter_holds_behind_a_gap() {
    let server = Server::start();
    let all = server.session("sess_f");
    server.trim("sess_f", all.last().unwrap());
    let path = format!("/v1/sessions/sess_f/stream?after={START}&types=turn.*");
    let mut stream = server.stream(&path, &[]);
    assert_eq!(stream.next().unwrap().0, "gap");
    assert_eq!(stream.next().unwrap().0, "snapshot");
    let more = server.session("sess_f");
    let turns = more.iter().filter(|event| event["type"].as_str().unwrap().starts_with("turn."));
    let turns: Vec<Value> = turns.cloned().collect();
    assert!(turns.len() > 2);
    assert_eq!(stream.facts(turns.len()), turns);
    // A session of which no event is left is still there.
    server.trim("sess_f", more.last().unwrap());
    assert_eq!(server.events("sess_f", "")["events"], json!([]));
    server.stop();
}

#[test]
fn the_command_line_shows_what_is_kept_and_says_what_is_not() {
    let server = Server::start();
    let all = server.session("sess_t");
    let gone = &all[2];
    server.trim("sess_t", gone);
    let tail = cadre(&server.url).args(["--json", "tail", "sess_t", "--until-idle"]).output().unwrap();
    let (said, complained) = (String::from_utf8_lossy(&tail.stdout), String::from_utf8_lossy(&tail.stderr));
    assert_eq!(tail.status.code(), Some(0), "{complained}");
    assert!(complained.contains("is no longer kept") && complained.contains(&cursor(gone)), "{complained}");
    let shown: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<&Value> = shown.iter().filter(|event| event["type"] != "snapshot.repaired").collect();
    assert_eq!(shown, all[3..].iter().collect::<Vec<_>>(), "everything that is kept, once");
    server.stop();
}

#[test]
fn p4_a_cursor_of_another_session_is_a_position() {
    let server = Server::start();
    let (older, all) = (server.session("sess_x"), server.session("sess_y"));
    let (before, after) = (cursor(older.last().unwrap()), cursor(all.last().unwrap()));
    assert_eq!(server.events("sess_y", &format!("after={before}"))["events"], json!(all));
    assert_eq!(server.events("sess_x", &format!("after={after}"))["events"], json!([]));
    let mut stream = server.stream("/v1/sessions/sess_y/stream", &[("Last-Event-ID", &before)]);
    assert_eq!(stream.facts(all.len()), all);
    server.stop();
}

/// What a process has in memory.
#[cfg(target_os = "linux")]
fn resident_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[cfg(target_os = "linux")]
#[test]
fn p9_clients_that_do_not_read_cost_little_and_harm_nobody() {
    const CLIENTS: usize = 24;
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::spawn(&folder.path().join("data"), "127.0.0.1:0", Stdio::null());
    let url = dev.ready();
    let address = url.strip_prefix("http://").unwrap();
    let long = "x".repeat(30_000);
    let script = json!([{ "repeat": 250, "steps": [{ "say": long }] }]).to_string();
    let input = folder.path().join("script.json");
    std::fs::write(&input, script).unwrap();
    for _ in 0..3 {
        let mut submit = cadre(&url);
        submit.args(["submit", "--wait", "--session", "sess_big", "--script"]).arg(&input);
        assert!(submit.stdout(Stdio::null()).status().unwrap().success());
    }
    let path = format!("/v1/sessions/sess_big/stream?after={START}");
    let read = |bytes_max: usize| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let (mut got, mut buffer) = (0, vec![0; 1 << 16]);
        while got < bytes_max {
            got += stream.read(&mut buffer).unwrap();
        }
        stream
    };
    // Once for everything that is there after a first reader, however many follow.
    drop(read(20_000_000));
    let before = resident_bytes(dev.id());
    // They read the beginning, and then nothing.
    let stalled: Vec<TcpStream> = (0..CLIENTS).map(|_| read(1)).collect();
    let begun = Instant::now();
    drop(read(20_000_000));
    let ping =
        cadre(&url).args(["submit", "--wait", "--session", "sess_other", r#"[{"say": "hi"}]"#]).output();
    assert!(ping.unwrap().status.success());
    assert!(begun.elapsed() < PATIENCE, "others are served while nobody takes what is theirs");
    let grown = resident_bytes(dev.id()).saturating_sub(before);
    // Each of them wants over 20 MB. It has a page of half a megabyte in hand, as events, as text, and on its way.
    let bound = CLIENTS as u64 * 5_000_000;
    assert!(grown < bound, "{CLIENTS} clients that do not read cost {grown} bytes");
    drop(stalled);
    dev.kill();
}

#[test]
fn a_turn_that_is_followed_by_two_is_the_same_for_both() {
    let server = Server::start();
    let (status, _) = server.call("create_session", &json!({ "sessionId": "sess_2" }));
    assert_eq!(status, 200);
    let path = format!("/v1/sessions/sess_2/stream?after={START}");
    let mut streams = [server.stream(&path, &[]), server.stream(&path, &[])];
    server.call("submit_turn", &turn("sess_2", json!([{ "say": "hello", "chunks": 8, "delayMs": 5 }])));
    let read = streams.each_mut().map(|stream| {
        let mut seen = Vec::new();
        while count(&seen, "turn.completed") == 0 {
            seen.extend(stream.facts(1));
        }
        seen
    });
    assert_eq!(read[0], read[1]);
    assert_eq!(read[0], server.tokio.block_on(server.rig.served("sess_2"))[..read[0].len()]);
    server.stop();
}
