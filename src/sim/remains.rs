//! What a simulation leaves behind: every session with its feed and with everything that is served of it.

use std::time::Duration;

use cadre_cluster::{keys, sim::Env};
use serde_json::{Value, json};

use super::{door::Door, log::Notes, reader::Seen};
use crate::{
    control::Error,
    fact::{
        Cursor, Event, Publisher,
        id::{BlobRef, SessionId},
    },
    replay::{ReplayCase, Report, fold},
    runtime::{Caller, EventFilter},
};

/// A session in the end.
pub(super) struct Session {
    pub tenant: String,
    pub id: String,
    /// Its feed.
    pub events: Vec<Event>,
    /// The same as it is served.
    pub served: Vec<Value>,
    /// Where what is served is not what the feed folds to (P5).
    pub differences: Vec<String>,
    pub snapshot: Value,
    pub tasks: Vec<Value>,
    pub subagents: Vec<Value>,
    /// Each with its items.
    pub jobs: Vec<(Value, Vec<Value>)>,
}

/// Everything.
pub(super) struct Remains {
    pub sessions: Vec<Session>,
    pub readers: Vec<Seen>,
    pub notes: Notes,
    /// What is left to do and should not be.
    pub leftovers: Vec<String>,
    /// Inputs that no entity could apply.
    pub dead_letters: Vec<String>,
    /// Commits of nodes that did not own what they wrote.
    pub intruders: Vec<String>,
    /// Readers and clients that did not come to an end.
    pub stuck: Vec<String>,
}

impl Remains {
    /// The sessions of those who belong here.
    pub fn own(&self) -> impl Iterator<Item = &Session> {
        self.sessions.iter().filter(|session| session.tenant == super::run::TENANT)
    }
}

/// All sessions of a tenant.
pub(super) async fn sessions(door: &Door, caller: &Caller) -> Vec<Session> {
    let mut sessions = Vec::new();
    for listed in list(door, caller, "list_sessions", json!({}), "sessions").await {
        let id = listed["sessionId"].as_str().unwrap_or_default().to_owned();
        sessions.push(session(door, caller, &id).await);
    }
    sessions
}

async fn session(door: &Door, caller: &Caller, id: &str) -> Session {
    let report = replayed(door, caller, id).await;
    let about = json!({ "sessionId": id });
    let mut jobs = Vec::new();
    for job in list(door, caller, "list_jobs", about.clone(), "jobs").await {
        let args = json!({ "jobId": job["jobId"], "limit": 1_000 });
        let read = door.read(caller, "get_job", &args).await.unwrap_or_default();
        jobs.push((job, read["items"].as_array().cloned().unwrap_or_default()));
    }
    let events = events(door, caller, id).await;
    let publisher = Publisher::new("cadre_sim");
    let served = events
        .iter()
        .map(|event| serde_json::to_value(publisher.envelope(event)).expect("events are JSON"))
        .collect();
    Session {
        tenant: caller.tenant.clone(),
        id: id.to_owned(),
        events,
        served,
        differences: report.as_ref().map(differences).unwrap_or_default(),
        snapshot: door.read(caller, "get_session", &about).await.unwrap_or_default(),
        tasks: list(door, caller, "list_tasks", about.clone(), "tasks").await,
        subagents: list(door, caller, "list_subagents", about, "subagents").await,
        jobs,
    }
}

/// All pages of a list, in small ones.
pub(super) async fn list(
    door: &Door,
    caller: &Caller,
    name: &str,
    mut args: Value,
    plural: &str,
) -> Vec<Value> {
    let mut all = Vec::new();
    args["limit"] = 7.into();
    loop {
        let Ok(page) = door.read(caller, name, &args).await else { return all };
        all.extend(page[plural].as_array().cloned().unwrap_or_default());
        if page["hasMore"] != true {
            return all;
        }
        args["after"] = page["cursor"].clone();
    }
}

/// A whole feed.
pub(super) async fn events(door: &Door, caller: &Caller, session: &str) -> Vec<Event> {
    let session = SessionId::parse(session).expect("sessions have valid ids");
    let (mut all, mut after) = (Vec::new(), Cursor::START);
    loop {
        let (runtime, lifeline) = door.enter().await;
        let filter = EventFilter::default();
        let read = runtime.events(caller, &session, after, 500, &filter);
        let page = tokio::select! {
            biased;
            () = lifeline.cut_happened() => continue,
            page = read => page,
        };
        let Ok(page) = page else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        after = page.cursor;
        all.extend(page.events);
        if !page.more {
            return all;
        }
    }
}

/// Exports a replay of a session and folds it, when the session is there.
pub(super) async fn replayed(door: &Door, caller: &Caller, session: &str) -> Option<Report> {
    let exported = door.read(caller, "export_replay", &json!({ "sessionId": session })).await.ok()?;
    let blob = BlobRef::parse(exported["ref"].as_str()?).ok()?;
    loop {
        let (runtime, lifeline) = door.enter().await;
        let read = tokio::select! {
            biased;
            () = lifeline.cut_happened() => continue,
            read = runtime.blobs().read_all(&caller.tenant, &blob) => read,
        };
        if let Ok((content, _)) = read {
            let case = ReplayCase::parse(&content).expect("an export is a case");
            return Some(fold(&case));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What is wrong with a replay, in words.
pub(super) fn differences(report: &Report) -> Vec<String> {
    let differs = report.differences.listed.iter().map(|difference| {
        let shown = |value: &Option<Value>| value.as_ref().map_or("nothing".into(), Value::to_string);
        let (expected, got) = (shown(&difference.expected), shown(&difference.got));
        format!("{} is served as {expected} and folds to {got}", difference.path)
    });
    let out_of_order =
        (report.out_of_order > 0).then(|| format!("{} events out of order", report.out_of_order));
    let unknown = (report.unknown > 0).then(|| format!("{} events of unknown streams", report.unknown));
    differs.take(5).chain(out_of_order).chain(unknown).collect()
}

/// Inputs that were put aside because no entity could apply them.
pub(super) fn dead_letters(env: &Env, tenants: &[&str]) -> Vec<String> {
    let letters = tenants.iter().flat_map(|tenant| env.store.scan(&keys::dead_letters(tenant)));
    letters.map(|pair| format!("{}: {}", pair.key.escape_ascii(), pair.value.escape_ascii())).collect()
}

/// What a refusal says, for people.
pub(super) fn shown(answer: &Result<crate::control::result::Answer, Error>) -> String {
    match answer {
        Ok(answer) => format!("{} at {:?}", answer.result, answer.cursor.map(|cursor| cursor.to_string())),
        Err(error) => format!("{}: {}", error.code.as_str(), error.message),
    }
}
