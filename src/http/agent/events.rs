//! A run as Server-Sent Events that AG-UI's clients understand.
//!
//! Those clients take every frame for an event, whatever its name: so signs of life and goodbyes are comments. The events
//! follow from the run's facts, which are folded from the first one for everybody who attaches; what a client has seen
//! is left out. So the same run is told with the same events and ids at every gateway (P4).

use std::{convert::Infallible, fmt::Write as _};

use axum::{
    body::Body,
    http::header,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use serde_json::json;
use tokio::sync::watch;

use crate::{
    agui::{About, Event, Fold, Position, RunInput},
    fact::{
        Cursor, Failure,
        id::{SessionId, TurnId},
        payload::Payload,
    },
    http::{App, command},
    runtime::{Caller, EventFilter, EventPage, Follow},
};

const SIGN_OF_LIFE: &str = ": still here\n\n";
/// Clients that come back by themselves do so after a second.
const GOODBYE: &str = ": bye, the server is stopping: come back with the last id\nretry: 1000\n\n";

/// The answer that tells a run from its beginning, or from after what was seen of it.
pub(super) fn tell(
    app: App,
    caller: Caller,
    input: RunInput,
    (session, turn): (SessionId, TurnId),
    seen: Option<Position>,
) -> Response {
    let about = About {
        state: input.state().cloned(),
        thread: input.thread_id,
        run: input.run_id,
        parent: input.parent_run_id,
    };
    let filter = EventFilter { turn: Some(turn.clone()), ..EventFilter::default() };
    metrics::gauge!("cadre_agent_streams").increment(1.0);
    let telling = Telling {
        follow: app.runtime.follow(&caller, &session, Cursor::START, filter),
        stopping: app.stopping.clone(),
        fold: Fold::new(about, turn.clone()),
        is_over: false,
        is_trimmed: false,
        seen,
        session,
        turn,
        caller,
        app,
    };
    let body = futures::stream::unfold(telling, |mut telling| async {
        let frames = telling.next().await?;
        Some((Ok::<Bytes, Infallible>(frames.into()), telling))
    });
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Some proxies collect what they pass on unless they are told not to.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(body)).into_response()
}

/// One client that is told a run.
struct Telling {
    app: App,
    caller: Caller,
    session: SessionId,
    turn: TurnId,
    follow: Follow,
    stopping: watch::Receiver<bool>,
    fold: Fold,
    /// What the client has seen.
    seen: Option<Position>,
    is_over: bool,
    /// Whether some of the run is no longer kept.
    is_trimmed: bool,
}

impl Drop for Telling {
    fn drop(&mut self) {
        metrics::gauge!("cadre_agent_streams").decrement(1.0);
    }
}

impl Telling {
    /// What to send next; `None` at the end.
    async fn next(&mut self) -> Option<String> {
        while !self.is_over {
            let page = tokio::select! {
                biased;
                // An error means that the server is gone, which is as good as stopping.
                _ = self.stopping.wait_for(|stopping| *stopping) => None,
                page = tokio::time::timeout(self.app.settings.sign_of_life_every, self.follow.next()) => Some(page),
            };
            match page {
                Some(Err(_)) => return Some(SIGN_OF_LIFE.into()),
                Some(Ok(Ok(page))) => {
                    let frames = self.frames(page).await;
                    if !frames.is_empty() {
                        return Some(frames);
                    }
                }
                // The run goes on: the client comes back and is told the rest.
                Some(Ok(Err(error))) => {
                    self.is_over = true;
                    tracing::warn!(%error, turn = %self.turn, "a run cannot be told further");
                    return Some(format!(": {}\nretry: 1000\n\n", error.code.as_str()));
                }
                None => {
                    self.is_over = true;
                    return Some(GOODBYE.into());
                }
            }
        }
        None
    }

    async fn frames(&mut self, page: EventPage) -> String {
        let mut frames = String::new();
        let now = self.app.runtime.now().0;
        let begins = |event: &crate::fact::Event| matches!(event.fact.payload, Payload::TurnSubmitted(_));
        // What was trimmed before the run began is nothing of it.
        if let Some((from, to)) = page.gap.filter(|_| !page.events.first().is_some_and(begins)) {
            self.is_trimmed = true;
            let gap = self.fold.gap(now, json!({ "from": from, "to": to, "reason": "trimmed" }));
            write(&mut frames, gap.iter().map(|event| (None, event)));
        }
        for event in &page.events {
            let events = self.fold.take(&event.fact);
            let position = |index| Position::of(event.cursor, index, events.len());
            let told = events.iter().enumerate().map(|(index, event)| (position(index), event));
            let new = told.filter(|(position, _)| self.seen.is_none_or(|seen| *position > seen));
            write(&mut frames, new.map(|(position, event)| (Some(position), event)));
        }
        let may_be_over = self.is_trimmed && !page.more && !self.fold.is_over();
        if may_be_over && !is_open(&self.app, &self.caller, &self.session, &self.turn).await {
            let error = Failure::new("trimmed", "how the run ended is no longer kept");
            let end = self.fold.break_off(now, &error);
            write(&mut frames, end.iter().map(|event| (None, event)));
        }
        self.is_over = self.fold.is_over();
        frames
    }
}

/// Whether more is to be told of a run. As long as nobody knows, it may.
async fn is_open(app: &App, caller: &Caller, session: &SessionId, turn: &TurnId) -> bool {
    let arguments = json!({ "sessionId": session, "limit": 1 });
    let read = command::call(app, caller, "get_session", arguments, None, app.runtime.deadline());
    let Ok(answer) = read.await else { return true };
    let threads = answer.result["threads"].as_array().into_iter().flatten();
    let mut turns = threads.flat_map(|thread| thread["turns"].as_array().into_iter().flatten());
    turns.any(|known| known["turnId"] == turn.as_str() && known["completedAt"].is_null())
}

fn write<'a>(frames: &mut String, events: impl Iterator<Item = (Option<Position>, &'a Event)>) {
    for (position, event) in events {
        let data = serde_json::to_string(event).expect("events serialize into memory without fail");
        if let Some(position) = position {
            let _ = writeln!(frames, "id: {position}");
        }
        let _ = write!(frames, "data: {data}\n\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_event_is_a_comment_because_clients_take_every_data_for_one() {
        for frame in [SIGN_OF_LIFE, GOODBYE] {
            assert!(frame.ends_with("\n\n"));
            assert!(
                frame.trim_end().lines().all(|line| line.starts_with(':') || line.starts_with("retry: "))
            );
        }
    }
}
