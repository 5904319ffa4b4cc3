//! Following a feed over connections that break.

use std::{
    io::BufReader,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use serde_json::Value;

use super::{
    client::Client,
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
    /// The session as it stands, before the first event.
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
    path: String,
    last: Option<String>,
    frames: Receiver<Result<Frame, String>>,
}

impl<'a> Follow<'a> {
    /// Follows `session`. Without `after` a snapshot comes first, then what is new.
    pub fn open(
        client: &'a Client,
        session: &str,
        filter: &[(&str, &str)],
        after: Option<&str>,
    ) -> Result<Self, Failure> {
        let query: Vec<_> = filter.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let path = format!("/v1/sessions/{session}/stream?{}", query.join("&"));
        let frames = connect(client, &path, after)?;
        Ok(Self { client, path, last: after.map(str::to_owned), frames })
    }

    /// What comes next, or that nothing has come for so long.
    pub fn next(&mut self, patience: Duration) -> Result<Next, Failure> {
        loop {
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
                "snapshot" => return Ok(Next::Snapshot),
                "fact" => return Ok(Next::Event(data)),
                "gap" => return Ok(Next::Gap(data)),
                "bye" => self.again("the server is stopping")?,
                "error" => self.again(data["error"]["message"].as_str().unwrap_or("the server gave up"))?,
                _ => {}
            }
        }
    }

    /// Connects again, until it works or the server says no.
    fn again(&mut self, reason: &str) -> Result<(), Failure> {
        eprintln!("cadre: {reason}; going on after {}", self.last.as_deref().unwrap_or("a new snapshot"));
        let mut pause = PAUSE_FIRST;
        loop {
            thread::sleep(pause);
            match connect(self.client, &self.path, self.last.as_deref()) {
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
