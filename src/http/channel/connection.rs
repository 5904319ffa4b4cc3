//! One connection, from its hello to its goodbye.

use std::{collections::VecDeque, pin::pin, sync::Arc, time::Duration};

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures::{
    SinkExt, StreamExt,
    future::BoxFuture,
    stream::{FuturesUnordered, SplitSink, SplitStream},
};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    credit::Credit,
    encoding::Encoding,
    frame::{Hello, Misread, Said, Subscribed, Told},
    holders::{Ending, Notice},
    permission::Questions,
    subscription::Subscription,
};
use crate::{
    control::{Error, check},
    fact::{Cursor, id::SessionId},
    http::{App, body::SMALL_BODY_BYTES_MAX},
    runtime::{
        Caller,
        channels::{Hold, Peer, Taken, Wanted},
    },
};

/// How long a client may take to say hello.
const HELLO_MAX: Duration = Duration::from_secs(10);
/// How often a client may be asked to give a sign of life.
const HEARTBEAT_MS: std::ops::RangeInclusive<u64> = 1_000..=120_000;
/// What a client may say that it can do.
const CAPABILITIES_MAX: usize = 32;
/// How long goodbye may take.
const GOODBYE_MAX: Duration = Duration::from_secs(2);
/// How long the store may take to hear of it.
const LEAVE_MAX: Duration = Duration::from_secs(5);
/// An acknowledgement waits this long for others before it is written down.
const ACK_AFTER: Duration = Duration::from_millis(200);
/// How many commands of one channel are executed at once.
const COMMANDS_MAX: usize = 32;
/// What waits for a client that does not read: then it is not listened to either.
const OUTBOX_FRAMES_MAX: usize = 64;
/// How often a credential is looked at.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// What the store is being told for one channel: a client that subscribes and leaves in turns waits until it has heard.
const TELLS_MAX: usize = 128;
/// When to come back after a goodbye that is not the client's fault.
const RECONNECT_AFTER_MS: u64 = 1_000;

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The client has gone, with or without a word.
    Gone,
    /// It has not given a sign of life.
    Silent,
    /// It said what must not be said.
    Violation(String),
    /// It was refused, or its credential is no longer good.
    Refused(Error),
    /// Somebody decided so.
    Told(Ending),
}

impl End {
    /// As facts, metrics and goodbyes name it.
    fn reason(&self) -> &'static str {
        match self {
            Self::Gone => "closed",
            Self::Silent => "heartbeat",
            Self::Violation(_) => "protocol",
            Self::Refused(_) => "refused",
            Self::Told(Ending::TakenOver) => "taken_over",
            Self::Told(Ending::Draining) => "drain",
        }
    }

    fn close_code(&self) -> u16 {
        match self {
            Self::Gone => close_code::NORMAL,
            Self::Violation(_) => close_code::PROTOCOL,
            Self::Told(Ending::Draining) => close_code::RESTART,
            Self::Silent | Self::Refused(_) | Self::Told(Ending::TakenOver) => close_code::POLICY,
        }
    }
}

/// What a connection waits for beside its client.
pub(super) enum Done {
    /// Something to send.
    Say(Vec<Message>),
    /// Acknowledgements are written down, or not.
    Acked(Result<(), Error>),
}

pub(super) type Work = FuturesUnordered<BoxFuture<'static, Done>>;

/// A connection whose client has said hello.
pub(super) struct Connection {
    pub app: App,
    pub caller: Caller,
    pub encoding: Encoding,
    pub taken: Arc<Taken>,
    pub peer: Arc<Peer>,
    pub notice: Arc<Notice>,
    pub credit: Credit,
    pub subscriptions: Vec<Subscription>,
    /// Whose turn it is to be sent something.
    pub next: usize,
    pub outbox: VecDeque<Message>,
    pub questions: Questions,
    /// Commands that are being executed. They end with the connection.
    pub commands: Work,
    /// What is being told to the store. It goes on to its end.
    pub tells: Work,
    /// What was acknowledged and is not written down.
    acks: Vec<(SessionId, Cursor)>,
    ack_at: Option<Instant>,
    heard: Instant,
    /// When the credential is looked at again; never without credentials.
    check_at: Option<Instant>,
    /// Nothing is read before then, because the store did not answer.
    pub pause_until: Option<Instant>,
}

impl Connection {
    /// Serves a client for as long as it is there.
    pub(super) async fn serve(app: App, caller: Caller, encoding: Encoding, socket: WebSocket) {
        let (mut sink, mut stream) = socket.split();
        metrics::gauge!("cadre_channels_open").increment(1);
        let end = match welcome(app, caller, encoding, &mut stream).await {
            Ok(mut connection) => {
                let (holders, notice) = (connection.app.holders.clone(), connection.notice.clone());
                let held = holders.hold(&connection.caller.tenant, &connection.taken.hold, &notice);
                let end = connection.run(&mut sink, &mut stream).await;
                drop(held);
                farewell(encoding, &mut sink, &end).await;
                connection.leave(&end).await;
                end
            }
            Err(end) => {
                farewell(encoding, &mut sink, &end).await;
                end
            }
        };
        metrics::gauge!("cadre_channels_open").decrement(1);
        metrics::counter!("cadre_channels_closed_total", "reason" => end.reason()).increment(1);
    }

    pub(super) fn hold(&self) -> &Hold {
        &self.taken.hold
    }

    /// Until something ends it.
    async fn run(
        &mut self,
        sink: &mut SplitSink<WebSocket, Message>,
        stream: &mut SplitStream<WebSocket>,
    ) -> End {
        loop {
            if let Some(ending) = self.notice.ending() {
                return End::Told(ending.clone());
            }
            if let Err(end) = self.check_credential().await {
                return end;
            }
            let batch = self.batch().await;
            let silent_at = self.silent_at();
            if batch.is_empty() {
                let notice = self.notice.clone();
                let wake = self.wake_at().map_or(silent_at, |at| at.min(silent_at));
                let listens = self.listens();
                let heard = tokio::select! {
                    frame = stream.next(), if listens => self.hear(frame).await,
                    () = notice.bell.notified() => Ok(()),
                    Some(done) = self.commands.next(), if !self.commands.is_empty() => self.done(done),
                    Some(done) = self.tells.next(), if !self.tells.is_empty() => self.done(done),
                    () = tokio::time::sleep_until(wake) => self.look(),
                };
                if let Err(end) = heard {
                    return end;
                }
                continue;
            }
            let mut sending = pin!(send(sink, batch));
            loop {
                // One who does not read what it asked for is not asked for more.
                let listens = self.listens();
                let notice = self.notice.clone();
                let wake = self.wake_at().map_or(self.silent_at(), |at| at.min(self.silent_at()));
                let heard = tokio::select! {
                    biased;
                    sent = &mut sending => match sent {
                        Ok(()) => break,
                        Err(_) => Err(End::Gone),
                    },
                    frame = stream.next(), if listens => self.hear(frame).await,
                    Some(done) = self.commands.next(), if !self.commands.is_empty() => self.done(done),
                    Some(done) = self.tells.next(), if !self.tells.is_empty() => self.done(done),
                    () = tokio::time::sleep_until(wake) => self.look(),
                    () = ended(&notice) => Err(End::Told(notice.ending().cloned().unwrap_or(Ending::Draining))),
                };
                if let Err(end) = heard {
                    return end;
                }
            }
        }
    }

    /// Whether what the client has said before leaves room for more (P9).
    fn listens(&self) -> bool {
        self.outbox.len() < OUTBOX_FRAMES_MAX && self.tells.len() < TELLS_MAX
    }

    /// When the client will have been silent for too long.
    fn silent_at(&self) -> Instant {
        self.heard + Duration::from_millis(self.taken.heartbeat_ms.saturating_mul(2))
    }

    /// When there is something to do without anybody asking.
    fn wake_at(&self) -> Option<Instant> {
        [self.ack_at, self.pause_until, self.check_at].into_iter().flatten().min()
    }

    /// Whether the credential is still good. What is revoked ends within seconds.
    async fn check_credential(&mut self) -> Result<(), End> {
        if self.check_at.is_none_or(|at| Instant::now() < at) {
            return Ok(());
        }
        self.check_at = Some(Instant::now() + CHECK_EVERY);
        self.app.credentials.check(&self.caller).await.map_err(End::Refused)
    }

    /// What time has brought.
    fn look(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if now >= self.silent_at() {
            return Err(End::Silent);
        }
        if self.pause_until.is_some_and(|at| at <= now) {
            self.pause_until = None;
        }
        if self.ack_at.is_some_and(|at| at <= now) {
            self.ack_at = None;
            self.write_acks();
        }
        Ok(())
    }

    fn write_acks(&mut self) {
        let acks = std::mem::take(&mut self.acks);
        if acks.is_empty() {
            return;
        }
        let (runtime, caller, hold) = (self.app.runtime.clone(), self.caller.clone(), self.hold().clone());
        self.tells
            .push(Box::pin(async move { Done::Acked(runtime.acknowledge(&caller, &hold, &acks).await) }));
    }

    fn done(&mut self, done: Done) -> Result<(), End> {
        match done {
            Done::Say(frames) => self.outbox.extend(frames),
            Done::Acked(Ok(())) => {}
            Done::Acked(Err(error)) if error.status() == Some("taken_over") => {
                return Err(End::Told(Ending::TakenOver));
            }
            // The client has it all the same: the next one stands for this one.
            Done::Acked(Err(error)) => tracing::debug!(%error, "acknowledgements were not written down"),
        }
        Ok(())
    }

    /// A frame of the client, or the end of them.
    async fn hear(&mut self, frame: Option<Result<Message, axum::Error>>) -> Result<(), End> {
        let message = match frame {
            None | Some(Ok(Message::Close(_))) => return Err(End::Gone),
            Some(Err(error)) => return Err(broken(&error)),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {
                self.heard = Instant::now();
                return Ok(());
            }
            Some(Ok(message)) => message,
        };
        self.heard = Instant::now();
        match Said::read(value(self.encoding, &message)?) {
            Ok(said) => self.said(said).await,
            Err(Misread { error, command: Some(id) }) => {
                self.answer(&id, &Err(error));
                Ok(())
            }
            Err(Misread { error, command: None }) => {
                self.refuse(&error);
                Ok(())
            }
        }
    }

    async fn said(&mut self, said: Said) -> Result<(), End> {
        match said {
            Said::Hello(_) => return Err(End::Violation("hello is said once".into())),
            Said::Subscribe(wanted) => {
                let session = wanted.session_id.clone();
                if let Err(error) = self.subscribe(wanted).await {
                    if error.status() == Some("taken_over") {
                        return Err(End::Told(Ending::TakenOver));
                    }
                    self.refuse(&error.with("sessionId", session.as_str()));
                }
            }
            Said::Unsubscribe(wanted) => self.unsubscribe(&wanted.session_id),
            Said::Ack(ack) => {
                if let Err(error) = self.ack(ack.session_id, ack.cursor) {
                    self.refuse(&error);
                }
            }
            Said::Credit(credit) => {
                if let Err(error) = self.credit.add(credit.events) {
                    self.refuse(&error);
                }
            }
            Said::Command(command) => {
                if self.commands.len() >= COMMANDS_MAX {
                    let message = format!("a channel has at most {COMMANDS_MAX} commands executed at once");
                    self.answer(&command.id, &Err(Error::rate_limited(100, message)));
                } else {
                    self.execute(command);
                }
            }
            Said::Ping(ping) => self.say(&Told::Pong { t: &ping.t }),
        }
        Ok(())
    }

    /// Takes note of what has arrived.
    fn ack(&mut self, session: SessionId, cursor: Cursor) -> Result<(), Error> {
        let known = self.subscriptions.iter().find(|known| known.session == session);
        let known = known.ok_or_else(|| {
            let message = "acknowledge what is followed: subscribe first, or use ack_events";
            Error::conflict("not_subscribed", message).with("sessionId", session.as_str())
        })?;
        if cursor > known.sent() {
            let message = format!("lies beyond what was sent, {}", known.sent());
            return Err(Error::invalid("cursor", message).with("sessionId", session.as_str()));
        }
        match self.acks.iter_mut().find(|(acked, _)| *acked == session) {
            Some((_, acked)) => *acked = cursor.max(*acked),
            None => self.acks.push((session, cursor)),
        }
        self.ack_at.get_or_insert_with(|| Instant::now() + ACK_AFTER);
        Ok(())
    }

    /// Sends a frame with the next batch.
    pub(super) fn say(&mut self, told: &Told<'_>) {
        self.outbox.push_back(self.encoding.write(told));
    }

    /// Says that something cannot be done.
    pub(super) fn refuse(&mut self, error: &Error) {
        self.say(&Told::Error { error: &error.to_json()["error"] });
    }

    /// Writes down what is known, and tells the sessions that the channel has gone.
    async fn leave(&mut self, end: &End) {
        self.commands.clear();
        self.write_acks();
        let leave = async {
            while self.tells.next().await.is_some() {}
            self.app.runtime.leave_channel(&self.caller, &self.taken.hold, end.reason()).await
        };
        match tokio::time::timeout(LEAVE_MAX, leave).await {
            Ok(Ok(())) => {}
            // Somebody else has it, and says goodbye for it.
            Ok(Err(error)) if error.status() == Some("taken_over") => {}
            Ok(Err(error)) => tracing::warn!(%error, "the end of a channel was not written down"),
            Err(_) => tracing::warn!("the end of a channel was not written down in time"),
        }
    }
}

/// Once somebody decides that the connection ends; other rings are kept for later.
async fn ended(notice: &Notice) {
    loop {
        notice.bell.notified().await;
        if notice.ending().is_some() {
            return;
        }
        // What else it rang for is looked at after this batch, which every batch does.
    }
}

/// Why nothing can be read any more.
fn broken(error: &axum::Error) -> End {
    let text = error.to_string();
    // The only ones that the client can do something about; what else there is are kinds of being gone.
    let violation =
        ["too long", "utf-8", "UTF-8", "protocol", "Protocol"].iter().any(|word| text.contains(word));
    let gone = ["reset", "Reset without closing", "closed"].iter().any(|word| text.contains(word));
    if violation && !gone { End::Violation(text) } else { End::Gone }
}

/// What a frame holds, if it is one and not too large.
fn value(encoding: Encoding, message: &Message) -> Result<Value, End> {
    let bytes = match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    if bytes > SMALL_BODY_BYTES_MAX {
        return Err(End::Refused(Error::too_large(SMALL_BODY_BYTES_MAX as u64, bytes as u64)));
    }
    encoding.read(message).map_err(|what| End::Violation(what.into()))
}

async fn send(sink: &mut SplitSink<WebSocket, Message>, batch: Vec<Message>) -> Result<(), axum::Error> {
    for message in batch {
        sink.feed(message).await?;
    }
    sink.flush().await
}

/// Waits for the hello, and takes the channel.
async fn welcome(
    app: App,
    caller: Caller,
    encoding: Encoding,
    stream: &mut SplitStream<WebSocket>,
) -> Result<Connection, End> {
    let mut stopping = app.stopping.clone();
    let hello = tokio::select! {
        hello = tokio::time::timeout(HELLO_MAX, hello(encoding, stream)) => hello.map_err(|_| End::Silent)??,
        _ = stopping.wait_for(|stopping| *stopping) => return Err(End::Told(Ending::Draining)),
    };
    check_hello(&hello).map_err(End::Refused)?;
    let wanted = Wanted {
        channel: hello.channel_id,
        token: hello.resume_token,
        peer_role: hello.peer_role.clone(),
        heartbeat_ms: hello.heartbeat_ms,
    };
    let taken = app.runtime.take_channel(&caller, &wanted).await.map_err(End::Refused)?;
    let subscribed = taken.listened.iter();
    let subscriptions = subscribed
        .map(|(session, acked)| Subscribed { session_id: session.clone(), acked: *acked })
        .collect();
    let told = Told::Welcome {
        channel_id: &taken.hold.channel,
        resume_token: &taken.token,
        resumed: taken.resumed,
        heartbeat_ms: taken.heartbeat_ms,
        subscriptions,
    };
    let check_at = (!app.credentials.is_open()).then(|| Instant::now() + CHECK_EVERY);
    let peer = Peer { role: hello.peer_role, capabilities: hello.capabilities };
    let connection = Connection {
        outbox: VecDeque::from([encoding.write(&told)]),
        questions: Questions::new(peer.capabilities.iter().any(|can| can == "permissions")),
        app,
        caller,
        encoding,
        taken: Arc::new(taken),
        peer: Arc::new(peer),
        notice: Arc::default(),
        credit: Credit::first(),
        subscriptions: Vec::new(),
        next: 0,
        commands: Work::new(),
        tells: Work::new(),
        acks: Vec::new(),
        ack_at: None,
        heard: Instant::now(),
        check_at,
        pause_until: None,
    };
    Ok(connection)
}

async fn hello(encoding: Encoding, stream: &mut SplitStream<WebSocket>) -> Result<Hello, End> {
    loop {
        let message = match stream.next().await {
            None | Some(Ok(Message::Close(_))) => return Err(End::Gone),
            Some(Err(error)) => return Err(broken(&error)),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Ok(message)) => message,
        };
        return match Said::read(value(encoding, &message)?) {
            Ok(Said::Hello(hello)) => Ok(hello),
            Ok(_) => Err(End::Violation("the first frame is hello".into())),
            Err(misread) => Err(End::Refused(misread.error)),
        };
    }
}

fn check_hello(hello: &Hello) -> Result<(), Error> {
    check::range("heartbeatMs", hello.heartbeat_ms, HEARTBEAT_MS)?;
    check::name("peerRole", hello.peer_role.as_deref())?;
    check::token("resumeToken", hello.resume_token.as_deref())?;
    check::count("capabilities", hello.capabilities.len(), 0..=CAPABILITIES_MAX)?;
    hello.capabilities.iter().try_for_each(|can| check::name("capabilities", Some(can)))
}

/// Says why, and closes. A client that does not read it is not waited for.
async fn farewell(encoding: Encoding, sink: &mut SplitSink<WebSocket, Message>, end: &End) {
    let mut frames = Vec::new();
    let reason = match end {
        End::Violation(what) => format!("protocol: {what}"),
        End::Refused(error) => {
            frames.push(encoding.write(&Told::Error { error: &error.to_json()["error"] }));
            error.message.clone()
        }
        other => other.reason().to_owned(),
    };
    let again = matches!(end, End::Told(Ending::Draining) | End::Silent).then_some(RECONNECT_AFTER_MS);
    frames.push(encoding.write(&Told::Bye { reason: &reason, reconnect_after_ms: again }));
    // What fits into a close frame.
    let reason: String = reason
        .chars()
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= 120).then_some(c)
        })
        .collect();
    frames.push(Message::Close(Some(CloseFrame { code: end.close_code(), reason: reason.into() })));
    // An error says that the client has gone, which is no news.
    let _ = tokio::time::timeout(GOODBYE_MAX, send(sink, frames)).await;
}
