//! Following a feed over connections that break.

use std::{
    collections::VecDeque,
    io::BufReader,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{
    client::{Client, segment},
    failure::Failure,
    sse::{self, Frame},
};

/// What is read ahead of who prints it.
const AHEAD_FRAMES: usize = 64;
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What a feed has next.
#[derive(Debug)]
pub enum Next {
    /// The session as it stands, in place of what comes before it.
    Snapshot,
    /// An event.
    Event(Value),
    /// History that is no longer kept.
    Gap(Value),
    /// Nothing for now.
    Quiet,
}

/// Follows a feed, and goes on after the last event when the connection breaks.
pub struct Follow<'a> {
    client: &'a Client,
    session: String,
    query: String,
    last: Option<String>,
    frames: Receiver<Result<Frame, String>>,
    /// Up to where the feed was trimmed, while the snapshot that stands for it is on its way.
    gap: Option<String>,
    /// What lies between such a gap and the snapshot is still kept: after where, and up to where.
    kept: Option<(String, String)>,
    /// Of that, what was read and not yet given.
    ready: VecDeque<Value>,
}

impl<'a> Follow<'a> {
    /// Follows `session`. Without `after` a snapshot comes first, then what is new.
    pub fn open(
        client: &'a Client,
        session: &str,
        filter: &[(&str, &str)],
        after: Option<&str>,
    ) -> Result<Self, Failure> {
        let query: Vec<_> = filter.iter().map(|(name, value)| format!("{name}={}", segment(value))).collect();
        let (session, query, last) = (segment(session), query.join("&"), after.map(str::to_owned));
        let frames = connect(client, &path(&session, &query), after)?;
        Ok(Self { client, session, query, last, frames, gap: None, kept: None, ready: VecDeque::new() })
    }

    /// What comes next, or that nothing has come for so long.
    pub fn next(&mut self, patience: Duration) -> Result<Next, Failure> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Next::Event(event));
            }
            if let Some((after, upto)) = self.kept.take() {
                match self.read_kept(&after, upto.clone()) {
                    Err(Failure::Unreachable { reason, .. }) => {
                        self.kept = Some((after, upto));
                        self.again(&reason)?;
                    }
                    read => read?,
                }
                continue;
            }
            let frame = match self.frames.recv_timeout(patience) {
                Ok(Ok(frame)) => frame,
                Ok(Err(reason)) => {
                    self.again(&reason)?;
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => return Ok(Next::Quiet),
                Err(RecvTimeoutError::Disconnected) => {
                    self.again("the connection was closed")?;
                    continue;
                }
            };
            let data: Value = serde_json::from_str(&frame.data).map_err(|error| {
                Failure::new(format!("unreadable {} in the stream: {error}", frame.event))
            })?;
            if frame.id.is_some() {
                self.last = frame.id;
            }
            match frame.event.as_str() {
                "snapshot" => {
                    self.kept = self.gap.take().zip(self.last.clone());
                    return Ok(Next::Snapshot);
                }
                "fact" => return Ok(Next::Event(data)),
                "gap" => {
                    self.gap = data["to"].as_str().map(str::to_owned);
                    return Ok(Next::Gap(data));
                }
                "bye" => self.again("the server is stopping")?,
                "error" => self.again(data["error"]["message"].as_str().unwrap_or("the server gave up"))?,
                _ => {}
            }
        }
    }

    /// Reads a page of what the snapshot after a gap stands for and is still kept: who wants every event wants those.
    fn read_kept(&mut self, after: &str, upto: String) -> Result<(), Failure> {
        let Self { session, query, .. } = self;
        let page =
            self.client.get(&format!("/v1/sessions/{session}/events?after={after}&limit=1000&{query}"))?;
        let cursor = page["cursor"].as_str().unwrap_or(&upto).to_owned();
        let is_kept = |event: &&Value| event["cursor"].as_str().is_some_and(|cursor| cursor <= upto.as_str());
        let events = page["events"].as_array().into_iter().flatten();
        self.ready.extend(events.filter(is_kept).cloned());
        if page["hasMore"] == true && cursor < upto {
            self.kept = Some((cursor, upto));
        }
        Ok(())
    }

    /// Connects again, until it works or the server says no.
    fn again(&mut self, reason: &str) -> Result<(), Failure> {
        eprintln!("cadre: {reason}; going on after {}", self.last.as_deref().unwrap_or("a new snapshot"));
        let mut pause = PAUSE_FIRST;
        loop {
            thread::sleep(pause);
            match connect(self.client, &path(&self.session, &self.query), self.last.as_deref()) {
                Ok(frames) => {
                    eprintln!("cadre: connected again");
                    self.frames = frames;
                    return Ok(());
                }
                Err(Failure::Refused(error)) if error["retryable"] != true => {
                    return Err(Failure::Refused(error));
                }
                Err(failure @ (Failure::Closed | Failure::Other(_))) => return Err(failure),
                Err(Failure::Refused(_) | Failure::Unreachable { .. }) => pause = (pause * 2).min(PAUSE_MAX),
            }
        }
    }
}

fn path(session: &str, query: &str) -> String {
    format!("/v1/sessions/{session}/stream?{query}")
}

/// Reads on a thread of its own, which ends with the connection or when nobody listens any more.
fn connect(
    client: &Client,
    path: &str,
    last: Option<&str>,
) -> Result<Receiver<Result<Frame, String>>, Failure> {
    let mut lines = BufReader::new(client.stream(path, last)?);
    let (sender, frames) = sync_channel(AHEAD_FRAMES);
    thread::Builder::new().name("cadre-follow".into()).spawn(move || {
        loop {
            let frame = match sse::read(&mut lines) {
                Ok(Some(frame)) => Ok(frame),
                Ok(None) => return,
                Err(error) => Err(error.to_string()),
            };
            let is_over = frame.is_err();
            if sender.send(frame).is_err() || is_over {
                return;
            }
        }
    })?;
    Ok(frames)
}
