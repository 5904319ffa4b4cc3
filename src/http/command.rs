//! Commands: which there are, and having one executed.

use std::time::Duration;

use axum::{
    Json,
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::HeaderMap,
};
use serde_json::{Value, json};

use super::{
    App,
    body::{self, BODY_BYTES_MAX, LARGE_BODY_BYTES_MAX},
    credential::{self, Asking},
    limits::Rate,
    refusal::{self, Refusal},
};
use crate::{
    control::{self, Error, check, result::Answer},
    fact::{Cursor, Trace, id::SessionId},
    runtime::Caller,
};
use cadre_cluster::{bus::TRACEPARENT, trace};

/// The name of the header with the key.
const KEY: &str = "Idempotency-Key";
/// The name of the header with the deadline.
const DEADLINE: &str = "X-Deadline-Ms";
/// Twice as long as the present version.
const TRACEPARENT_BYTES_MAX: usize = 110;
/// Commands that are executed at once. One that waits takes some kilobytes, so this many take a few dozen megabytes.
pub(super) const AT_ONCE_MAX: usize = 8_192;
/// Commands that may wait for days, of those: the rest stays for whoever wants something done.
pub(super) const WAITING_MAX: usize = 4_096;
/// Large bodies that are in memory at once, from when they are read to when their commands are answered.
pub(super) const LARGE_MAX: usize = 8;
/// The one command that does nothing but wait.
const WAIT: &str = "wait_subagents";

/// `GET /v1/commands`
pub(super) async fn list() -> Json<Value> {
    Json(control::registry().to_json())
}

/// `POST /v1/commands/{name}`
pub(super) async fn execute(
    State(app): State<App>,
    Asking(caller): Asking,
    name: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, Refusal> {
    let Path(name) = name.map_err(|_| Error::not_found("command", "of that name"))?;
    // What somebody may not have done is not read.
    caller.require(control::registry().find(&name)?.scope)?;
    let key = key(&headers)?;
    let deadline = deadline(&headers)?;
    let max = if name == "create_job" { LARGE_BODY_BYTES_MAX } else { BODY_BYTES_MAX };
    // What a large body becomes is in memory until the command is answered, and so is its place taken.
    let body::Whole { content, place: _place } = body::read(&headers, body, max, &app.large).await?;
    let arguments = body::arguments(&content)?;
    drop(content);
    let deadline = deadline.unwrap_or_else(|| patience(&app, &name, &arguments));
    let command = call(&app, &caller, &name, arguments, key, deadline);
    let answer = trace::within(traceparent(&headers), command).await?;
    Ok(Json(match answer.cursor {
        Some(cursor) => json!({ "result": answer.result, "cursor": cursor }),
        None => json!({ "result": answer.result }),
    }))
}

/// How long a caller waits who does not say so: as long as it asks for, if waiting is all that it wants.
pub(super) fn patience(app: &App, name: &str, arguments: &Value) -> Duration {
    let wanted = arguments.get("timeoutMs").and_then(Value::as_u64).filter(|_| name == WAIT);
    app.runtime.deadline() + Duration::from_millis(wanted.unwrap_or(0).min(*check::WAIT_MS.end()))
}

/// Executes a command, unless too many are being executed. When this is dropped, so is the command.
pub(super) async fn call(
    app: &App,
    caller: &Caller,
    name: &str,
    arguments: Value,
    key: Option<&str>,
    deadline: Duration,
) -> Result<Answer, Error> {
    credential::within(app, Rate::Commands, caller).await?;
    let many = |_| Error::rate_limited(1_000, "too many commands at once");
    let _permit = app.commands.try_acquire().map_err(many)?;
    let called = app.runtime.call(caller, name, arguments, key, deadline);
    if name != WAIT {
        return called.await;
    }
    let _permit = app.waiting.try_acquire().map_err(many)?;
    let mut stopping = app.stopping.clone();
    tokio::select! {
        answer = called => answer,
        _ = stopping.wait_for(|stopping| *stopping) => {
            Err(Error::unavailable("the server is stopping: wait again at another"))
        }
    }
}

/// The session as it stands, and where in the feed that is.
pub(super) async fn snapshot(
    app: &App,
    caller: &Caller,
    session: &SessionId,
) -> Result<(Value, Cursor), Error> {
    let arguments = json!({ "sessionId": session });
    let answer = call(app, caller, "get_session", arguments, None, app.runtime.deadline()).await?;
    let said = || answer.result.get("cursor")?.as_str()?.parse().ok();
    match answer.cursor.or_else(said) {
        Some(cursor) => Ok((answer.result, cursor)),
        None => Err(refusal::bug("a snapshot of a session without a cursor")),
    }
}

/// The one value of a header, as text.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Error> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Error::invalid(name, "is there twice"));
    }
    let text = value.to_str().map_err(|_| Error::invalid(name, "must be visible ASCII characters"))?;
    Ok(Some(text.trim()))
}

fn key(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let key = one(headers, KEY)?;
    key_fits(key)?;
    Ok(key)
}

/// Whether something may be a key.
pub(super) fn key_fits(key: Option<&str>) -> Result<(), Error> {
    match key.map(str::len) {
        Some(len) if !(8..=128).contains(&len) => {
            Err(Error::invalid(KEY, format_args!("must have 8 to 128 characters, not {len}")))
        }
        _ => Ok(()),
    }
}

/// The trace that the caller works in. One that is none is not the caller's fault: whoever is in between may have added it.
pub(super) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = one(headers, TRACEPARENT).ok()??;
    // Later versions of the format may be longer, and every fact that follows carries it for a while.
    Trace::of_traceparent(text).filter(|_| text.len() <= TRACEPARENT_BYTES_MAX)?;
    Some(text.to_owned())
}

fn deadline(headers: &HeaderMap) -> Result<Option<Duration>, Error> {
    let Some(text) = one(headers, DEADLINE)? else { return Ok(None) };
    let ms: u64 =
        text.parse().map_err(|_| Error::invalid(DEADLINE, "must be a whole number of milliseconds"))?;
    check::range(DEADLINE, Some(ms), check::WAIT_MS)?;
    Ok(Some(Duration::from_millis(ms)))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn with(name: &'static str, value: &str) -> HeaderMap {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        HeaderMap::from_iter([(name.to_lowercase().parse().unwrap(), value)])
    }

    #[test]
    fn a_key_has_8_to_128_visible_characters() {
        let key_of = |text: &str| key(&with(KEY, text)).map(|key| key.map(str::to_owned));
        assert_eq!(key(&HeaderMap::new()), Ok(None));
        assert_eq!(key_of("12345678"), Ok(Some("12345678".into())));
        assert!(key_of(&"k".repeat(128)).is_ok());
        for bad in ["", "1234567", &"k".repeat(129), "schlüssel-1"] {
            assert_eq!(key_of(bad).unwrap_err().field(), Some(KEY), "{bad}");
        }
        let mut twice = with(KEY, "12345678");
        twice.append("idempotency-key", HeaderValue::from_static("87654321"));
        assert_eq!(key(&twice).unwrap_err().field(), Some(KEY));
    }

    #[test]
    fn what_is_no_trace_is_ignored() {
        let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(traceparent(&with(TRACEPARENT, header)).as_deref(), Some(header));
        assert_eq!(traceparent(&HeaderMap::new()), None);
        let long = format!("01{}-{}", &header[2..], "x".repeat(100));
        for bad in ["", "x", &long, &header[..54], &header.to_uppercase().replace("0AF", "0AG")] {
            assert_eq!(traceparent(&with(TRACEPARENT, bad)), None, "{bad}");
        }
        let mut twice = with(TRACEPARENT, header);
        twice.append(TRACEPARENT, HeaderValue::from_static("x"));
        assert_eq!(traceparent(&twice), None);
    }

    #[test]
    fn a_deadline_is_a_number_of_milliseconds_within_thirty_days() {
        assert_eq!(deadline(&with(DEADLINE, "250")), Ok(Some(Duration::from_millis(250))));
        for bad in ["", "0", "-1", "1.5", "soon", "2592000001", "99999999999999999999999"] {
            assert_eq!(deadline(&with(DEADLINE, bad)).unwrap_err().field(), Some(DEADLINE), "{bad}");
        }
    }
}
