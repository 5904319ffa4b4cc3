//! Readers that follow a feed over everything that happens to its server.

use std::{
    io::{BufRead, BufReader},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::Value;
use ureq::Agent;

use super::client::{Client, START};

/// Shorter than the server's signs of life: a reader that hears nothing looks whether it should end.
const SILENCE_MAX: Duration = Duration::from_secs(2);

/// A reader on a thread of its own.
pub struct Reader {
    thread: JoinHandle<Read>,
    stop: Arc<AtomicBool>,
}

/// What a reader has seen.
#[derive(Debug, Default)]
pub struct Read {
    /// Events, over all connections.
    pub events: Vec<Value>,
    /// Connections that gave it at least one frame.
    pub connections: u32,
    /// Connections that ended with a goodbye.
    pub goodbyes: u32,
}

impl Reader {
    /// Follows a session that need not be there yet, from its beginning. With a seed it also leaves by itself now and
    /// then.
    pub fn start(client: &Client, session: &str, leaves: Option<u64>) -> Self {
        let (client, session) = (client.clone(), session.to_owned());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || follow(&client, &session, leaves, &stopped));
        Self { thread, stop }
    }

    /// What it has seen, once it has seen everything that there is: nothing may happen any more.
    pub fn stop(self) -> Read {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn follow(client: &Client, session: &str, leaves: Option<u64>, stop: &AtomicBool) -> Read {
    let config = Agent::config_builder().http_status_as_error(false).proxy(None);
    let agent: Agent = config.timeout_per_read(Some(SILENCE_MAX)).build().into();
    let mut random = leaves.map(StdRng::seed_from_u64);
    let (mut read, mut last) = (Read::default(), START.to_owned());
    loop {
        // Before it connects: what it misses now it sees on the next connection.
        let is_last = stop.load(Ordering::Relaxed);
        let patience = random.as_mut().map_or(usize::MAX, |random| random.random_range(1..400));
        let before = read.events.len();
        one(
            &agent,
            &format!("{}/v1/sessions/{session}/stream", client.url()),
            patience,
            &mut last,
            &mut read,
        );
        if is_last && read.events.len() == before {
            return read;
        }
        if !is_last {
            client.pause(&format!("the reader of {session} cannot go on after {last}"));
        }
    }
}

/// One connection, until it breaks, is silent, or has given so many events.
fn one(agent: &Agent, url: &str, patience: usize, last: &mut String, read: &mut Read) {
    let Ok(response) = agent.get(url).header("last-event-id", &*last).call() else { return };
    if response.status() != 200 {
        return;
    }
    let (mut event, mut id, mut data) = (String::new(), String::new(), String::new());
    let (mut frames, leave_at) = (0, read.events.len().saturating_add(patience));
    for line in BufReader::new(response.into_body().into_reader()).lines() {
        // A connection that breaks in a line breaks in a frame, and half a frame is none.
        let Ok(line) = line else { break };
        match line.split_once(": ") {
            Some(("event", text)) => event = text.into(),
            Some(("id", text)) => id = text.into(),
            Some(("data", text)) => data = text.into(),
            _ if !line.is_empty() => assert!(line.starts_with(':'), "{line}"),
            _ => {
                frames += 1;
                match event.as_str() {
                    "fact" => {
                        let fact: Value = serde_json::from_str(&data).unwrap();
                        assert_eq!(fact["cursor"], id.as_str(), "P4: an event is where its id says");
                        *last = std::mem::take(&mut id);
                        read.events.push(fact);
                    }
                    "bye" => read.goodbyes += 1,
                    // A comment has an empty line, too.
                    "" => {}
                    // The server could not read its store: then it was ending.
                    "error" => assert!(data.contains("unavailable"), "{data}"),
                    other => panic!("P4: {other} in a stream with a position: {data}"),
                }
                event.clear();
                if read.events.len() >= leave_at {
                    break;
                }
            }
        }
    }
    read.connections += u32::from(frames > 0);
}
