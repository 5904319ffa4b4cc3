//! A runtime in this process, on a store of its own.
#![allow(dead_code, unused_imports, reason = "each test file uses some of it")]

mod check;
mod conform;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

pub use self::{
    check::check_feed,
    conform::{conform_events, conform_snapshot},
};

use cadre::{
    control::{Error, result::Answer},
    exec::Engine,
    fact::{Cursor, Event, Publisher, id::SessionId},
    runtime::{Caller, EventFilter, Runtime, Settings},
};
use cadre_cluster::{
    bus::LocalBus,
    clock::SystemClock,
    host::HostConfig,
    placement::Takeover,
    store::{
        Store,
        embedded::{Embedded, EmbeddedConfig},
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Rig {
    pub runtime: Runtime,
    embedded: Embedded,
    folder: Option<TempDir>,
}

pub const PATIENCE: Duration = Duration::from_secs(60);

/// How many were started in this process: no two draw the same ids.
static STARTED: AtomicU64 = AtomicU64::new(0);

impl Rig {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// With more for runs to reach.
    pub async fn start_with(extend: impl FnOnce(&mut Engine)) -> Self {
        Self::on(tempfile::tempdir().unwrap(), extend).await
    }

    async fn on(folder: TempDir, extend: impl FnOnce(&mut Engine)) -> Self {
        let embedded = Embedded::open(EmbeddedConfig::new(folder.path())).unwrap();
        let host = HostConfig { takeover: Takeover::AtOnce, shards: 16, ..HostConfig::new("test", "one") };
        let publisher = Publisher::new("cadre_test");
        let settings = Settings { host, publisher, deadline: PATIENCE, retention: Default::default() };
        let bus = Arc::new(LocalBus::new());
        let seed = (u64::from(std::process::id()) << 32) | STARTED.fetch_add(1, Ordering::Relaxed);
        let clock = Arc::new(SystemClock);
        let runtime =
            Runtime::start_with(settings, extend, embedded.store(), bus, clock, seed).await.unwrap();
        Self { runtime, embedded, folder: Some(folder) }
    }

    /// Everything stops as if the power went, and starts again on what was durable.
    pub async fn crash(mut self) -> Self {
        let folder = self.folder.take().unwrap();
        self.runtime.kill().await;
        drop(self.runtime);
        self.embedded.close().await;
        Self::on(folder, |_| {}).await
    }

    /// What everything is stored in.
    pub fn store(&self) -> Store {
        self.embedded.store()
    }

    pub async fn stop(self) {
        self.runtime.stop().await;
        self.embedded.close().await;
    }

    pub async fn try_call(&self, name: &str, args: Value) -> Result<Answer, Error> {
        self.runtime.call(&Caller::local(), name, args, None, PATIENCE).await
    }

    pub async fn call(&self, name: &str, args: Value) -> Value {
        self.answer(name, args).await.result
    }

    /// The whole answer, with its cursor.
    pub async fn answer(&self, name: &str, args: Value) -> Answer {
        let shown = args.to_string();
        match self.try_call(name, args).await {
            Ok(answer) => answer,
            Err(error) => panic!("{name} {shown}: {}", error.to_json()),
        }
    }

    /// Under an idempotency key.
    pub async fn keyed(&self, key: &str, name: &str, args: Value) -> Result<Answer, Error> {
        self.runtime.call(&Caller::local(), name, args, Some(key), PATIENCE).await
    }

    /// Waits until a look at something finds what is wanted.
    pub async fn eventually<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        found.await.unwrap_or_else(|_| panic!("it did not happen: {what}"))
    }

    /// Waits until a task stands like that.
    pub async fn task_is(&self, task: &str, status: &str) -> Value {
        let look = async || {
            let answer = self.try_call("get_task", json!({ "taskId": task })).await.ok()?;
            let task = answer.result["task"].clone();
            (task["status"] == status).then_some(task)
        };
        self.eventually(&format!("{task} is {status}"), look).await
    }

    /// All subagents of a session that a listing tells of, page by page.
    pub async fn subagents(&self, mut args: Value) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let page = self.call("list_subagents", args.clone()).await;
            all.extend(page["subagents"].as_array().unwrap().clone());
            if page["hasMore"] != true {
                return all;
            }
            args["after"] = page["cursor"].clone();
        }
    }

    /// Holds the whole feed of a session against what is promised of all feeds, and it and the session's snapshot against
    /// the published schemas. Returns the feed.
    pub async fn checked(&self, session: &str) -> Vec<Value> {
        let events = self.served(session).await;
        check_feed(&events);
        conform_events(&events);
        conform_snapshot(&self.call("get_session", json!({ "sessionId": session })).await);
        events
    }

    pub async fn refused(&self, name: &str, args: Value) -> Value {
        let shown = args.to_string();
        match self.try_call(name, args).await {
            Ok(answer) => panic!("{name} {shown} was answered {}", answer.result),
            Err(error) => error.to_json()["error"].clone(),
        }
    }

    /// As somebody of another tenant.
    pub async fn as_other(&self, name: &str, args: Value) -> Result<Answer, Error> {
        let caller = Caller::within("other", "other");
        self.runtime.call(&caller, name, args, None, PATIENCE).await
    }

    /// Waits until a subagent stands like that.
    pub async fn subagent_is(&self, session: &str, subagent: &str, status: &str) -> Value {
        let look = async || {
            let listed = self.subagents(json!({ "sessionId": session, "limit": 1000 })).await;
            listed.into_iter().find(|one| one["subagentId"] == subagent && one["status"] == status)
        };
        self.eventually(&format!("{subagent} is {status}"), look).await
    }

    /// Waits until so many subagents have said that they began.
    pub async fn began(&self, session: &str, wanted: usize) {
        let seen = std::cell::Cell::new(0);
        self.until(session, |event| {
            seen.set(seen.get() + usize::from(event["type"] == "subagent.spawned"));
            seen.get() >= wanted
        })
        .await;
    }

    /// Runs a script as a turn of a session, to its end.
    pub async fn run(&self, session: &str, script: Value) -> Value {
        let submitted = self.submit(session, script).await;
        self.turn_over(session, submitted["turnId"].as_str().unwrap()).await
    }

    /// Submits a script to a session.
    pub async fn submit(&self, session: &str, script: Value) -> Value {
        self.call("submit_turn", turn(session, script)).await
    }

    /// Everything in a session's feed.
    pub async fn events(&self, session: &str) -> Vec<Event> {
        let (mut all, mut after) = (Vec::new(), Cursor::START);
        let session = SessionId::parse(session).unwrap();
        loop {
            let filter = EventFilter::default();
            let page = self.runtime.events(&Caller::local(), &session, after, 1_000, &filter).await.unwrap();
            after = page.cursor;
            all.extend(page.events);
            if !page.more {
                return all;
            }
        }
    }

    /// The types of all events of a session, in order.
    pub async fn types(&self, session: &str) -> Vec<String> {
        self.events(session).await.iter().map(|event| event.fact.event_type().to_string()).collect()
    }

    /// All events of a session as they are served.
    pub async fn served(&self, session: &str) -> Vec<Value> {
        let events = self.events(session).await;
        let publisher = self.runtime.publisher();
        events.iter().map(|event| serde_json::to_value(publisher.envelope(event)).unwrap()).collect()
    }

    /// Waits until some event of a session is as wanted, from its beginning.
    pub async fn until(&self, session: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let id = SessionId::parse(session).unwrap();
        let caller = Caller::local();
        let mut feed = self.runtime.follow(&caller, &id, Cursor::START, EventFilter::default());
        let publisher = self.runtime.publisher();
        let found = tokio::time::timeout(PATIENCE, async {
            loop {
                for event in feed.next().await.unwrap().events {
                    let served = serde_json::to_value(publisher.envelope(&event)).unwrap();
                    if wanted(&served) {
                        return served;
                    }
                }
            }
        });
        match found.await {
            Ok(found) => found,
            Err(_) => panic!("it did not happen; what did: {:#?}", self.types(session).await),
        }
    }

    /// Waits until a turn is over.
    pub async fn turn_over(&self, session: &str, turn: &str) -> Value {
        let over = |event: &Value| {
            event["turnId"] == turn && (event["type"] == "turn.completed" || event["type"] == "turn.failed")
        };
        self.until(session, over).await
    }
}

pub fn turn(session: &str, script: Value) -> Value {
    json!({ "sessionId": session, "agent": "scripted", "input": [{ "type": "text", "text": script.to_string() }] })
}

/// The text of an input.
pub fn input(script: &Value) -> Value {
    json!([{ "type": "text", "text": script.to_string() }])
}

/// How many events are of a class.
pub fn count(events: &[Value], class: &str) -> usize {
    events.iter().filter(|event| event["type"] == class).count()
}
