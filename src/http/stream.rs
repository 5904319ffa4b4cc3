//! Following a feed as Server-Sent Events.
//!
//! The body is a stream that is asked for its next frames only when the connection has room for them, so a client that
//! does not read costs one page of events. A client that comes back with the last id it saw goes on right after it.
//!
//! Where that is no longer kept, it is told of the gap, given a snapshot that stands for everything up to it, and then
//! what comes after the snapshot. The gap has no id: whoever loses the connection before the snapshot is told again.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Uri, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::{
    App, command, credential::Reading, events, frame::Frames, query, query::Wanted, refusal::Refusal,
};
use crate::{
    control::Error,
    fact::{Cursor, id::SessionId},
    runtime::{
        Caller, EventFilter, EventPage, Follow,
        reader::{Bell, Follower, Form, Found, SharedEvent},
    },
};

/// How many events are sent together.
const PAGE_EVENTS: usize = 256;
/// When to come back after a goodbye.
const RECONNECT_AFTER_MS: u64 = 1_000;
/// How often a credential is looked at while nothing happens: what is revoked ends within two seconds.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The header with which a client says what it has seen.
const LAST_EVENT_ID: &str = "Last-Event-ID";

/// `GET /v1/sessions/{id}/stream`
pub(super) async fn follow(
    State(app): State<App>,
    Reading(caller): Reading,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let session = events::named(id)?;
    let wanted = Wanted::of(&uri)?;
    let last = headers.get(LAST_EVENT_ID).map(|id| query::cursor(LAST_EVENT_ID, id.to_str().unwrap_or("")));
    let (first, after) = match last.transpose()?.or(wanted.after) {
        Some(after) => {
            events::exists(&app, &caller, &session).await?;
            (None, after)
        }
        None => {
            let (snapshot, cursor) = command::snapshot(&app, &caller, &session).await?;
            (Some(Frames::default().with("snapshot", Some(cursor), &snapshot)), cursor)
        }
    };
    let following = Following {
        first,
        source: Source::new(&app, &caller, &session, after, &wanted.filter).await?,
        filter: wanted.filter,
        caller,
        session,
        stopping: app.stopping.clone(),
        silent_since: Instant::now(),
        is_over: false,
        app,
    };
    let body = futures::stream::unfold(following, |mut following| async {
        let frames = following.next().await?;
        Some((Ok::<Bytes, Infallible>(frames.into_bytes()), following))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Some proxies collect what they pass on unless they are told not to.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Where events come from: what all who follow the whole session share, or an index of its own.
enum Source {
    Shared(Follower, Arc<Bell>),
    Indexed(Box<Follow>),
}

/// What a source has next.
enum Next {
    Shared(Vec<Arc<SharedEvent>>),
    Own(EventPage),
    Gap(Cursor, Cursor),
}

impl Source {
    async fn new(
        app: &App,
        caller: &Caller,
        session: &SessionId,
        after: Cursor,
        filter: &EventFilter,
    ) -> Result<Self, Error> {
        if filter.is_indexed() {
            return Ok(Self::Indexed(Box::new(app.runtime.follow(caller, session, after, filter.clone()))));
        }
        let follower = app.runtime.follower(caller, session, after).await?;
        let bell = Arc::new(Bell::new());
        follower.ring(&bell);
        Ok(Self::Shared(follower, bell))
    }

    /// What comes next. Safe to drop while waiting.
    async fn next(&mut self, filter: &EventFilter) -> Result<Next, Error> {
        match self {
            Self::Indexed(follow) => Ok(match follow.next().await? {
                EventPage { gap: Some((from, to)), .. } => Next::Gap(from, to),
                page => Next::Own(page),
            }),
            Self::Shared(follower, bell) => loop {
                match follower.find(PAGE_EVENTS).await? {
                    Found::Gap(from, to) => return Ok(Next::Gap(from, to)),
                    Found::Events(mut events) => {
                        events.retain(|event| filter.passes(&event.event));
                        if !events.is_empty() {
                            return Ok(Next::Shared(events));
                        }
                    }
                }
                while !follower.is_behind() {
                    bell.notified().await;
                }
            },
        }
    }
}

/// One client that follows.
struct Following {
    /// What comes before everything else.
    first: Option<Frames>,
    source: Source,
    filter: EventFilter,
    app: App,
    caller: Caller,
    session: SessionId,
    stopping: watch::Receiver<bool>,
    silent_since: Instant,
    is_over: bool,
}

impl Following {
    /// What to send next; `None` at the end.
    async fn next(&mut self) -> Option<Frames> {
        if self.is_over {
            return None;
        }
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let pause = self.app.settings.sign_of_life_every.saturating_sub(self.silent_since.elapsed());
            let page = tokio::select! {
                biased;
                // An error means that the server is gone, which is as good as stopping.
                _ = self.stopping.wait_for(|stopping| *stopping) => None,
                page = tokio::time::timeout(pause.min(CHECK_EVERY), self.source.next(&self.filter)) => Some(page),
            };
            // Before anything more is told: the credential may be gone since it was asked for.
            if page.is_some()
                && let Err(error) = self.app.credentials.check(&self.caller).await
            {
                return Some(self.broken(&error.to_json()));
            }
            let frames = match page {
                Some(Err(_)) if self.silent_since.elapsed() < self.app.settings.sign_of_life_every => {
                    continue;
                }
                Some(Err(_)) => Frames::comment(),
                Some(Ok(Ok(Next::Gap(from, to)))) => self.repaired((from, to)).await,
                Some(Ok(Ok(Next::Own(page)))) => self.frames(&page),
                Some(Ok(Ok(Next::Shared(events)))) => self.shared_frames(&events),
                Some(Ok(Err(error))) => self.broken(&error.to_json()),
                None => {
                    self.is_over = true;
                    let bye = json!({ "reason": "draining", "reconnectAfterMs": RECONNECT_AFTER_MS });
                    Frames::default().with("bye", None, &bye)
                }
            };
            self.silent_since = Instant::now();
            return Some(frames);
        }
    }

    fn frames(&self, page: &EventPage) -> Frames {
        let publisher = self.app.runtime.publisher();
        page.events.iter().fold(Frames::default(), |frames, event| {
            frames.with("fact", Some(event.cursor), &publisher.envelope(event))
        })
    }

    fn shared_frames(&self, events: &[Arc<SharedEvent>]) -> Frames {
        let publisher = self.app.runtime.publisher();
        events.iter().fold(Frames::default(), |frames, event| {
            let frame = event.rendered(Form::ServerSent, |event| {
                let frame = Frames::default().with("fact", Some(event.cursor), &publisher.envelope(event));
                frame.into_bytes()
            });
            frames.with_rendered(&frame)
        })
    }

    /// A snapshot in place of what is missing: the tail begins right after it.
    async fn repaired(&mut self, (from, to): (Cursor, Cursor)) -> Frames {
        let (app, caller, session) = (&self.app, &self.caller, &self.session);
        app.runtime.snapshot_repaired(caller, session, from, to).await;
        match command::snapshot(app, caller, session).await {
            Ok((snapshot, cursor)) => {
                self.source = match Source::new(app, caller, session, cursor, &self.filter).await {
                    Ok(source) => source,
                    Err(error) => return self.broken(&error.to_json()),
                };
                let gap = json!({ "sessionId": session, "from": from, "to": to, "reason": "trimmed" });
                Frames::default().with("gap", None, &gap).with("snapshot", Some(cursor), &snapshot)
            }
            Err(error) => self.broken(&error.to_json()),
        }
    }

    /// The client comes back by itself, with the last id that it saw.
    fn broken(&mut self, error: &Value) -> Frames {
        self.is_over = true;
        Frames::default().with("error", None, error)
    }
}
