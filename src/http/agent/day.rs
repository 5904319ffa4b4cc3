//! The history of a thread, day by day.
//!
//! Read models say which turns a day has, the feed what was said in them. Both are read in pages, with an end: a day shows
//! its latest messages, up to a number and a size.

use std::collections::BTreeSet;

use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    http::{HeaderMap, Uri},
};
use chrono::NaiveDate;
use serde::Deserialize;
use serde_json::{Value, json};

use super::link;
use crate::{
    agui::{
        history::{self, By, Message, Snapshot, Told},
        names,
        submission::Remembered,
    },
    control::{Code, Error, read},
    fact::{
        Cursor, Part, Time,
        id::{BlobRef, SessionId, TurnId},
        payload::{Payload, TurnSubmitted},
    },
    http::{App, command, credential::Reading, refusal::Refusal},
    runtime::{Caller, EventFilter},
};

/// Turns in a page.
const PAGE_TURNS: usize = 200;
/// Pages that are looked through for a day.
const PAGES_MAX: usize = 100;
/// Sessions that are looked at for the latest thread: others have more sessions that no run has made.
const SESSION_PAGES_MAX: usize = 10;
/// The most messages of a day.
const MESSAGES_MAX: usize = 1_000;
/// The most text of a day.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The most facts of one turn, in pages of a thousand.
const FACT_PAGES_MAX: usize = 50;

/// What is wanted.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wanted {
    thread_id: Option<String>,
    before: Option<String>,
}

/// `GET /api/v1/agent/history`
pub(super) async fn read(
    State(app): State<App>,
    Reading(caller): Reading,
    headers: HeaderMap,
    uri: Uri,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Snapshot>, Refusal> {
    let Query(wanted) = wanted.map_err(|_| Error::invalid("", "the query is not readable"))?;
    let before = wanted.before.as_deref().map(history::parse_day).transpose()?;
    let session = match &wanted.thread_id {
        Some(thread) => Some(names::session(thread).ok_or_else(|| {
            Error::new(Code::InvalidArgument, "threadId must be a valid UUID").with("field", "threadId")
        })?),
        None => latest(&app, &caller).await?,
    };
    let Some(session) = session else { return Ok(Json(Snapshot::of(None, None, false, Vec::new()))) };
    let reader =
        Reader { app: &app, caller: &caller, session: &session, origin: link::origin(&headers, &uri) };
    Ok(Json(reader.day(wanted.thread_id.or_else(|| names::thread(&session)), before).await?))
}

/// The newest session that a run has made.
async fn latest(app: &App, caller: &Caller) -> Result<Option<SessionId>, Error> {
    let mut after = Value::Null;
    for _ in 0..SESSION_PAGES_MAX {
        let arguments = json!({ "limit": 100, "after": after });
        let deadline = app.runtime.deadline();
        let page = command::call(app, caller, "list_sessions", arguments, None, deadline).await?.result;
        let ids = page["sessions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|session| session["sessionId"].as_str());
        let mut sessions = ids.filter_map(|id| SessionId::parse(id).ok());
        if let Some(found) = sessions.find(|session| names::thread(session).is_some()) {
            return Ok(Some(found));
        }
        if page["hasMore"] != true {
            break;
        }
        after = page["cursor"].clone();
    }
    Ok(None)
}

/// A turn as read models tell it, as far as it matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Turn {
    turn_id: TurnId,
    #[serde(default)]
    submitted_at: Option<Time>,
}

struct Reader<'a> {
    app: &'a App,
    caller: &'a Caller,
    session: &'a SessionId,
    /// How the client reaches this server.
    origin: String,
}

impl Reader<'_> {
    async fn day(&self, thread: Option<String>, before: Option<NaiveDate>) -> Result<Snapshot, Error> {
        let (day, turns, has_more) = self.turns(before).await?;
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for turn in turns {
            let said = self.said(&turn, &mut bytes).await?;
            messages.extend(said.into_iter().rev());
            if messages.len() >= MESSAGES_MAX || bytes >= TEXT_BYTES_MAX {
                break;
            }
        }
        messages.truncate(MESSAGES_MAX);
        messages.reverse();
        Ok(Snapshot::of(thread, day, has_more, messages))
    }

    /// The turns of the latest day that has any, the newest first, and whether there are earlier days.
    async fn turns(
        &self,
        before: Option<NaiveDate>,
    ) -> Result<(Option<NaiveDate>, Vec<TurnId>, bool), Error> {
        let end = before.map(history::begins);
        let (mut day, mut turns, mut seen, mut place) = (None, Vec::new(), BTreeSet::new(), Value::Null);
        for _ in 0..PAGES_MAX {
            let arguments = json!({ "sessionId": self.session, "limit": PAGE_TURNS, "before": place });
            let deadline = self.app.runtime.deadline();
            let read = command::call(self.app, self.caller, "get_session", arguments, None, deadline).await;
            let mut read = read?.result;
            let page: Vec<Turn> = read::from_value(taken(&mut read, "/threads/0/turns")).unwrap_or_default();
            for turn in page.into_iter().rev() {
                let Some(Time(at)) = turn.submitted_at else { continue };
                // Turns that have not ended come with every page.
                if end.is_some_and(|end| at >= end) || !seen.insert(turn.turn_id.clone()) {
                    continue;
                }
                match day {
                    Some(day) if history::day(at) < day => return Ok((Some(day), turns, true)),
                    _ => {
                        day.get_or_insert(history::day(at));
                        turns.push(turn.turn_id);
                    }
                }
            }
            if read["threads"][0]["history"]["hasMore"] != true {
                return Ok((day, turns, false));
            }
            place = taken(&mut read, "/history/before");
        }
        let looked_at = PAGE_TURNS * PAGES_MAX;
        Err(Error::invalid("before", format_args!("more than {looked_at} turns would have to be looked at")))
    }

    /// What was said in a turn.
    async fn said(&self, turn: &TurnId, bytes: &mut usize) -> Result<Vec<Message>, Error> {
        let filter = EventFilter { turn: Some(turn.clone()), ..EventFilter::default() };
        let (mut asked, mut told, mut after) = (None, Told::new(turn.clone()), Cursor::START);
        for _ in 0..FACT_PAGES_MAX {
            let page = self.app.runtime.events(self.caller, self.session, after, 1_000, &filter).await?;
            for event in &page.events {
                if let Payload::TurnSubmitted(submitted) = &event.fact.payload {
                    asked = Some(self.asked(turn, submitted, Time(event.fact.at)).await?);
                }
                *bytes += told.take(&event.fact);
            }
            after = page.cursor;
            if !page.more || *bytes >= TEXT_BYTES_MAX || told.len() >= MESSAGES_MAX {
                break;
            }
        }
        *bytes += asked.as_ref().map_or(0, |asked| asked.content.len());
        Ok(asked.into_iter().chain(told.messages()).collect())
    }

    /// What the user said.
    async fn asked(&self, turn: &TurnId, submitted: &TurnSubmitted, at: Time) -> Result<Message, Error> {
        let remembered = Remembered::of(&submitted.metadata);
        let kept = submitted.input_ref.as_ref().and_then(|kept| BlobRef::parse(kept.as_str()).ok());
        let kept = remembered.kept.or(kept);
        let mut parts = match kept {
            Some(blob) if submitted.input.is_empty() => self.kept(&blob).await,
            _ => submitted.input.clone(),
        };
        parts.truncate(remembered.parts.unwrap_or(usize::MAX));
        let texts = parts.iter().filter_map(|part| match part {
            Part::Text { text } => Some(text.as_str()),
            Part::Blob { .. } => None,
        });
        let content = texts.collect::<Vec<_>>().join("\n");
        let image = parts.iter().find_map(|part| match part {
            Part::Blob { blob, media_type } if media_type.starts_with("image/") => Some(blob.clone()),
            _ => None,
        });
        let url = match image {
            Some(blob) => Some(link::sign(self.app, self.caller, &self.origin, blob).await?.0),
            None => None,
        };
        let id = remembered.message.unwrap_or_else(|| format!("{turn}.user"));
        Ok(Message { id, seq: 0, by: By::User { url }, content, timestamp: at })
    }

    /// A large input. One that has expired says nothing any more.
    async fn kept(&self, blob: &BlobRef) -> Vec<Part> {
        let read = self.app.runtime.blobs().read_all(&self.caller.tenant, blob).await;
        let parts = read.ok().and_then(|(content, _)| serde_json::from_slice(&content).ok());
        parts.unwrap_or_default()
    }
}

/// Part of an answer; nothing when it is not there.
fn taken(answer: &mut Value, place: &str) -> Value {
    answer.pointer_mut(place).map(Value::take).unwrap_or_default()
}
