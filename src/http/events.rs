//! Part of a feed, in one answer.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::Uri,
};
use serde_json::{Value, json};

use super::{App, credential::Reading, query, query::Wanted, refusal::Refusal};
use crate::{
    control::{Error, args::Limit},
    fact::{Cursor, Event, id::SessionId},
    runtime::{Caller, EventFilter},
};

/// So many pages of the feed are looked through for events that pass. What is left is for the next request.
const PAGES_MAX: usize = 8;

/// `GET /v1/sessions/{id}/events`
pub(super) async fn page(
    State(app): State<App>,
    Reading(caller): Reading,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Json<Value>, Refusal> {
    let session = named(id)?;
    let wanted = Wanted::of(&uri)?;
    let limit = wanted.limit.get();
    // With a filter on classes most of what is read may not pass.
    let at_once = if wanted.filter.types.is_empty() { limit } else { Limit::MAX.get() };
    let (mut events, mut gap) = (Vec::<Event>::new(), None);
    let (mut cursor, mut more) = (wanted.after.unwrap_or(Cursor::START), true);
    for _ in 0..PAGES_MAX {
        let page = app.runtime.events(&caller, &session, cursor, at_once, &wanted.filter).await?;
        gap = gap.or(page.gap);
        events.extend(page.events);
        (cursor, more) = (page.cursor, page.more);
        if !more || events.len() >= limit {
            break;
        }
    }
    if events.len() > limit {
        events.truncate(limit);
        more = true;
        cursor = events.last().map_or(cursor, |event| event.cursor);
    }
    if events.is_empty() && gap.is_none() {
        exists(&app, &caller, &session).await?;
    }
    let publisher = app.runtime.publisher();
    let envelopes: Vec<_> = events.iter().map(|event| publisher.envelope(event)).collect();
    let mut answer = json!({ "events": envelopes, "cursor": cursor, "hasMore": more });
    if let Some((from, to)) = gap {
        answer["gap"] = json!({ "from": from, "to": to });
    }
    Ok(Json(answer))
}

/// The session that a path names.
pub(super) fn named(id: Result<Path<String>, PathRejection>) -> Result<SessionId, Error> {
    let Path(id) = id.map_err(|_| Error::invalid("sessionId", "is not readable"))?;
    query::session(&id)
}

/// Whether there is such a session: every one begins with a fact, and one whose facts are gone has a gap.
pub(super) async fn exists(app: &App, caller: &Caller, session: &SessionId) -> Result<(), Error> {
    let everything = EventFilter::default();
    let page = app.runtime.events(caller, session, Cursor::START, 1, &everything).await?;
    if page.events.is_empty() && page.gap.is_none() {
        return Err(Error::not_found("session", session));
    }
    Ok(())
}
