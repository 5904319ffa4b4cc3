//! Starting a run, or attaching to it again.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use cadre_cluster::{clock::Timestamp, trace};
use serde_json::json;

use super::{events, link};
use crate::{
    agui::{Position, RunInput, names, rules, submission},
    blob::NewBlob,
    control::{Code, Error, Scope},
    fact::{
        Cursor, Time,
        id::{SessionId, TurnId},
    },
    http::{App, body, command, credential::Asking, refusal::Refusal},
    runtime::{Caller, EventFilter},
};

/// The header with which a client says what it has seen.
const LAST_EVENT_ID: &str = "Last-Event-ID";
/// The first fact of a turn is among the first few that name it.
const FIRST_EVENTS: usize = 16;

/// `POST /api/v1/agent/runs`
pub(super) async fn start(
    State(app): State<App>,
    Asking(caller): Asking,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    // Before what it sends is read, let alone kept.
    caller.require(Scope::Submit)?;
    let last = last_seen(&headers)?;
    let refused =
        |actual: usize| rules::size(actual).err().unwrap_or_else(|| Error::too_large(0, actual as u64));
    let body = body::read_up_to(rules::BODY_BYTES_MAX, &headers, body, &app.large, refused).await?.content;
    let input = RunInput::parse(&body)?;
    let images = link::images(&app, &caller, &input).await?;
    let arguments = submission::arguments(&input, &images)?;
    if let Some(kept) = submission::kept(&input, &images) {
        keep(&app, &caller, kept).await?;
    }
    let deadline = app.runtime.deadline();
    let call = command::call(&app, &caller, "submit_turn", arguments, None, deadline);
    let submitted = trace::within(command::traceparent(&headers), call).await;
    submitted.map_err(|error| in_its_words(error, &input))?;
    let turn = names::turn(&input.thread_id, &input.run_id);
    let session =
        names::session(&input.thread_id).ok_or_else(|| Error::invalid("threadId", "must be a valid UUID"))?;
    metrics::counter!("cadre_agent_runs_total", "answer" => if wants_events(&headers) { "events" } else { "accepted" })
        .increment(1);
    if wants_events(&headers) {
        return Ok(events::tell(app, caller, input, (session, turn), last));
    }
    let created = Time(submitted_at(&app, &caller, &session, &turn).await?);
    let accepted =
        json!({ "taskId": turn, "threadId": input.thread_id, "runId": input.run_id, "created": created });
    Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
}

/// Keeps what the user said, unless an earlier request for the run has.
async fn keep(app: &App, caller: &Caller, kept: submission::Kept) -> Result<(), Error> {
    let blobs = app.runtime.blobs();
    if blobs.meta(&caller.tenant, &kept.blob).await.is_ok() {
        return Ok(());
    }
    let media_type = "application/json".into();
    let new = NewBlob { blob: kept.blob, media_type, session: None, content: kept.content.into() };
    let written = blobs.write(&caller.tenant, new).await;
    written.map(drop).map_err(|error| Error::unavailable(format!("the run cannot be kept now: {error}")))
}

/// When the run was first asked for, however often it was since.
async fn submitted_at(
    app: &App,
    caller: &Caller,
    session: &SessionId,
    turn: &TurnId,
) -> Result<Timestamp, Error> {
    let filter = EventFilter { turn: Some(turn.clone()), ..EventFilter::default() };
    let page = app.runtime.events(caller, session, Cursor::START, FIRST_EVENTS, &filter).await?;
    // Of a run whose facts are no longer kept nobody knows it any more.
    Ok(page.events.first().map_or_else(|| app.runtime.now(), |event| event.fact.at))
}

/// Refusals of the command, as whoever starts a run knows the things.
fn in_its_words(error: Error, input: &RunInput) -> Error {
    let is = |word: &str| error.details.get("status").and_then(|status| status.as_str()) == Some(word);
    if error.code == Code::Conflict && is("exists") {
        return Error::conflict("exists", format!("the run {} exists with another body", input.run_id));
    }
    if error.field() == Some("agent") {
        return error.with("field", "forwardedProps.agent");
    }
    error
}

fn last_seen(headers: &HeaderMap) -> Result<Option<Position>, Error> {
    let Some(text) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let text = text.to_str().unwrap_or("").trim();
    // As clients send it that have seen nothing.
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|error| Error::invalid(LAST_EVENT_ID, error))
}

/// Whether the run is to be told here.
fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(','));
    types.any(|one| {
        one.split(';').next().is_some_and(|one| one.trim().eq_ignore_ascii_case("text/event-stream"))
    })
}
