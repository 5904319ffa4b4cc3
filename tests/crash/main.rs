//! A real process, killed with `kill -9` at random moments while everything that it can do goes on, and looked at from
//! outside: over HTTP, as a client that sends its commands again with the same keys until they are answered.
//!
//! `CADRE_CRASH_SEED` chooses the moments; a seed is printed. The same seed strikes after the same pauses, but what it hits
//! is up to the machine: the process is real.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../common/check.rs"]
mod check;
mod client;
mod outside;
#[path = "../common/process.rs"]
mod process;
mod reader;
mod work;

use std::{
    fs::{File, OpenOptions},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::Stdio,
    thread,
    time::Duration,
};

use rand::{Rng, SeedableRng, TryRngCore, rngs::OsRng, rngs::StdRng, seq::SliceRandom};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use self::{
    client::{Client, START},
    process::Dev,
    reader::Reader,
    work::SESSION,
};

/// How long a run may take on a machine that has other things to do.
const RUN_MAX: Duration = Duration::from_secs(240);
const ANY_PORT: &str = "127.0.0.1:0";

/// A server that is started again and again on the same folder.
struct Server {
    folder: TempDir,
    client: Client,
    dev: Option<Dev>,
    starts: u32,
}

impl Server {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, client: Client::new(RUN_MAX), dev: None, starts: 0 }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// What the server said, over all of its lives.
    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn spawn(&mut self) {
        assert!(self.dev.is_none(), "one process at a time");
        self.starts += 1;
        let log: File = OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        self.dev = Some(Dev::spawn(&self.data(), ANY_PORT, Stdio::from(log)));
    }

    fn start(&mut self) {
        self.spawn();
        self.client.moved(self.dev.as_ref().unwrap().ready());
    }

    fn kill(&mut self) {
        self.dev.take().unwrap().kill();
    }

    fn strike(&mut self, blow: Blow, random: &mut StdRng) {
        let mut pause = |ms: u64| thread::sleep(Duration::from_millis(random.random_range(0..ms)));
        match blow {
            Blow::Kill => self.kill(),
            Blow::KillTwice => {
                self.kill();
                self.start();
                pause(500);
                self.kill();
            }
            Blow::KillBeforeReady => {
                self.kill();
                self.spawn();
                pause(120);
                self.kill();
            }
            Blow::Terminate => {
                let dev = self.dev.take().unwrap();
                dev.signal("TERM");
                assert_eq!(dev.ended().code(), Some(0), "a drain is a clean end");
            }
            Blow::TerminateTwice => {
                let dev = self.dev.take().unwrap();
                dev.signal("TERM");
                pause(60);
                dev.signal("TERM");
                let code = dev.ended().code();
                assert!(matches!(code, Some(0 | 130)), "drained, or stopped at once: {code:?}");
            }
        }
        self.start();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            println!("what the server said last:");
            tail.iter().rev().for_each(|line| println!("  {line}"));
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Blow {
    Kill,
    /// Twice within a second.
    KillTwice,
    /// Also while it recovers.
    KillBeforeReady,
    Terminate,
    TerminateTwice,
}

fn seed() -> u64 {
    let given = std::env::var("CADRE_CRASH_SEED").ok();
    let seed = given.map_or_else(|| OsRng.try_next_u64().unwrap(), |seed| seed.parse().unwrap());
    println!("CADRE_CRASH_SEED={seed}");
    seed
}

#[test]
fn p2_p3_p4_p5_p7_p11_a_run_that_is_killed_again_and_again_ends_as_if_it_had_not_been() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let begun = Instant::now();
    let mut server = Server::new();
    server.start();
    let client = server.client.clone();
    let readers = [("a reader", None), ("a reader that leaves now and then", Some(seed))];
    let readers = readers.map(|(who, leaves)| (who, Reader::start(&client, SESSION, leaves)));
    client.call("crash-session", "create_session", json!({ "sessionId": SESSION, "title": "Crashes" }));
    let work = work::start(&client, seed);
    let mut blows = vec![Blow::Kill; 5];
    blows.extend([Blow::KillTwice, Blow::KillTwice, Blow::KillBeforeReady, Blow::KillBeforeReady]);
    blows.extend([Blow::Terminate, Blow::TerminateTwice]);
    blows.shuffle(&mut random);
    for blow in blows {
        thread::sleep(Duration::from_millis(random.random_range(20..700)));
        let over = work.iter().filter(|work| work.is_finished()).count();
        println!(
            "{:6.2} s: {blow:?}; {over} of {} kinds of work are over",
            begun.elapsed().as_secs_f64(),
            work.len()
        );
        server.strike(blow, &mut random);
    }
    println!("{:6.2} s: no more faults", begun.elapsed().as_secs_f64());
    for work in work {
        let name = work.thread().name().unwrap_or("?").to_owned();
        assert!(work.join().is_ok(), "{name} did not go well");
    }
    println!("{:6.2} s: all is over", begun.elapsed().as_secs_f64());

    let events = client.feed(SESSION, START, "");
    let models = outside::models(&client);
    outside::p7_everything_has_ended(&models, &events);
    outside::p11_the_feed_is_sound(&events);
    let answered = client.answered();
    outside::p2_answers_have_their_facts(&answered, &events);
    outside::p4_answers_are_positions(&client, &answered, &events);
    outside::p3_the_same_key_has_the_same_answer(&client, &answered);
    // And once more, now that nothing goes on: it comes back as it was.
    server.kill();
    server.start();
    assert_eq!(client.feed(SESSION, START, ""), events, "P2: the feed after another crash");
    assert_eq!(outside::models(&client), models, "P5: what is served after another crash");
    // A session that takes no new work has not forgotten what it took.
    client.call("crash-archive", "archive_session", json!({ "sessionId": SESSION }));
    outside::p3_the_same_key_has_the_same_answer(&client, &answered);

    let then = answered.iter().find(|answered| answered.name == "export_replay").unwrap();
    outside::p5_an_export_folds_to_what_was_served(&client, &then.body["result"], server.folder.path());
    let now = client.call("crash-export-now", "export_replay", json!({ "sessionId": SESSION }));
    outside::p5_an_export_folds_to_what_was_served(&client, &now, server.folder.path());
    let events = client.feed(SESSION, START, "");
    for (who, reader) in readers {
        let read = reader.stop();
        println!("{who} had {} connections, {} with a goodbye", read.connections, read.goodbyes);
        outside::p4_a_reader_saw_the_feed(who, &read, &events);
    }
    let tries: u32 = answered.iter().map(|answered| answered.tries).sum();
    println!(
        "{:6.2} s: {} events, {} commands with {tries} tries, {} starts",
        begun.elapsed().as_secs_f64(),
        events.len(),
        answered.len(),
        server.starts
    );
    server.kill();
}

#[test]
fn p2_a_folder_is_usable_whenever_its_first_start_was_killed() {
    let mut random = StdRng::seed_from_u64(seed());
    for _ in 0..4 {
        let mut server = Server::new();
        // Killed while it makes the folder, while it joins, while it claims its shards.
        for _ in 0..random.random_range(1..5) {
            server.spawn();
            thread::sleep(Duration::from_millis(random.random_range(0..150)));
            server.kill();
        }
        server.start();
        let client = server.client.clone();
        let answer = client.call("first-start", "create_session", json!({ "sessionId": "sess_first" }));
        server.kill();
        server.start();
        let again = client.call("first-start", "create_session", json!({ "sessionId": "sess_first" }));
        assert_eq!(again, answer, "P3");
        assert_eq!(client.feed("sess_first", START, "&types=session.created").len(), 1, "P2");
        server.kill();
    }
}

#[test]
fn p7_a_drain_ends_cleanly_in_the_middle_of_work_and_what_ran_goes_on() {
    let mut server = Server::new();
    server.start();
    let client = server.client.clone();
    let spawn = json!({ "spawn": { "count": 50, "script": [{ "sleep": 400 }, { "tool": "sleep", "args": { "ms": 100 } }] } });
    let args = json!({ "sessionId": "sess_drain", "turnId": "turn_drain", "agent": "scripted",
        "input": work::script(&json!([spawn, { "say": "after" }])) });
    client.call("drain-turn", "submit_turn", args);
    let reader = Reader::start(&client, "sess_drain", None);
    client.until("sess_drain", "&types=subagent.spawned", |_| true);
    let begun = Instant::now();
    let dev = server.dev.take().unwrap();
    dev.signal("TERM");
    // It said where it serves, and says nothing more.
    assert_eq!(dev.line(), None);
    assert_eq!(dev.ended().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(20), "a drain took {:?}", begun.elapsed());
    server.start();
    let over = client.until("sess_drain", "&turnId=turn_drain&types=turn.*", |event| {
        event["turnId"] == "turn_drain"
            && matches!(event["type"].as_str(), Some("turn.completed" | "turn.failed"))
    });
    assert_eq!(over["type"], "turn.completed", "{over:#}");
    let events = client.feed("sess_drain", START, "");
    check::check_feed(&events);
    let read = reader.stop();
    assert!(read.goodbyes <= 1, "one goodbye for each connection");
    outside::p4_a_reader_saw_the_feed("a reader", &read, &events);
    server.kill();
}

#[test]
fn a_server_does_not_outlive_its_test() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::spawn(&folder.path().join("data"), ANY_PORT, Stdio::null());
    dev.ready();
    assert_eq!(dev.abandoned().signal(), Some(9));
}
