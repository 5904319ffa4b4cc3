//! A client from outside: it knows an address, sends commands over HTTP, and sends them again with the same key until
//! they are answered.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::time::Instant;
use ureq::Agent;

/// The position before all events.
pub const START: &str = "00000000000000000000000000000000";
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(25);
/// A command that was answered late is the server's fault; this one only bounds the test.
const CALL_MAX: Duration = Duration::from_secs(40);

/// A command that was answered with 200.
#[derive(Debug, Clone)]
pub struct Answered {
    pub name: String,
    pub args: Value,
    pub key: String,
    /// `result` and `cursor`, as they came.
    pub body: Value,
    /// How often it was sent.
    pub tries: u32,
}

/// Cheap to clone: all clones share the address and what was answered.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    agent: Agent,
}

struct Shared {
    url: Mutex<String>,
    answered: Mutex<Vec<Answered>>,
    /// Until when everything must have happened.
    until: Instant,
    /// Whether somebody found that it has not: then the others need not wait.
    given_up: AtomicBool,
}

impl Client {
    pub fn new(patience: Duration) -> Self {
        let config = Agent::config_builder().http_status_as_error(false).proxy(None);
        let agent = config.timeout_global(Some(CALL_MAX)).build().into();
        let shared = Shared {
            url: Mutex::new(String::new()),
            answered: Mutex::default(),
            until: Instant::now() + patience,
            given_up: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared), agent }
    }

    /// Where the server is now.
    pub fn moved(&self, url: String) {
        *self.shared.url.lock().unwrap() = url;
    }

    pub fn url(&self) -> String {
        self.shared.url.lock().unwrap().clone()
    }

    /// Everything that was answered so far.
    pub fn answered(&self) -> Vec<Answered> {
        self.shared.answered.lock().unwrap().clone()
    }

    /// Sends one request, once: the status and the body of whatever comes back.
    fn send(&self, name: &str, args: &Value, key: Option<&str>) -> Result<(u16, Value), String> {
        let url = format!("{}/v1/commands/{name}", self.url());
        let mut request = self.agent.post(&url);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let mut response = request.send_json(args).map_err(|error| error.to_string())?;
        let text = response.body_mut().with_config().limit(1 << 26).read_to_string();
        let text = text.map_err(|error| error.to_string())?;
        // Half a body is no answer.
        let body = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        Ok((response.status().as_u16(), body))
    }

    /// Tries until there is an answer that stays one: 200, or a refusal that does not become better.
    fn tried(&self, name: &str, args: &Value, key: Option<&str>) -> (u16, Value, u32) {
        let mut tries = 0;
        loop {
            tries += 1;
            let said = match self.send(name, args, key) {
                Ok((status, body)) if status == 200 || body["error"]["retryable"] == false => {
                    return (status, body, tries);
                }
                Ok((status, body)) => format!("{status} {body}"),
                Err(error) => error,
            };
            self.pause(&format!("{name} {args} under {key:?} is not answered: {said}"));
        }
    }

    /// Has a command executed, under a key. It must be taken.
    pub fn call(&self, key: &str, name: &str, args: Value) -> Value {
        match self.ask(key, name, args.clone()) {
            Ok(result) => result,
            Err(error) => self.fail(&format!("{name} {args} under {key} was refused: {error}")),
        }
    }

    /// Has a command executed, under a key: its result, or why it was refused for good.
    pub fn ask(&self, key: &str, name: &str, args: Value) -> Result<Value, Value> {
        let (status, mut body, tries) = self.tried(name, &args, Some(key));
        if status != 200 {
            return Err(body["error"].take());
        }
        let result = body["result"].clone();
        let answered = Answered { name: name.into(), args, key: key.into(), body, tries };
        self.shared.answered.lock().unwrap().push(answered);
        Ok(result)
    }

    /// Sends what was answered again: it must be answered again.
    pub fn again(&self, answered: &Answered) -> Value {
        let (status, body, _) = self.tried(&answered.name, &answered.args, Some(&answered.key));
        if status != 200 {
            self.fail(&format!("P3: {answered:#?} is answered with {status} {body} when it is sent again"));
        }
        body
    }

    /// Reads something by command.
    pub fn read(&self, name: &str, args: Value) -> Value {
        let (status, mut body, _) = self.tried(name, &args, None);
        if status != 200 {
            self.fail(&format!("{name} {args} was refused: {body}"));
        }
        body["result"].take()
    }

    /// All entries of a list.
    pub fn list(&self, name: &str, mut args: Value) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            args["limit"] = json!(1_000);
            let page = self.read(name, args.clone());
            all.extend(page[name.trim_start_matches("list_")].as_array().unwrap().iter().cloned());
            if page["hasMore"] != true {
                return all;
            }
            args["after"] = page["cursor"].clone();
        }
    }

    /// Reads bytes.
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        loop {
            let got = self.agent.get(format!("{}{path}", self.url())).call();
            let got = got.map_err(|error| error.to_string()).and_then(|mut response| {
                let read = response.body_mut().with_config().limit(1 << 28).read_to_vec();
                read.map(|read| (response.status().as_u16(), read)).map_err(|error| error.to_string())
            });
            let said = match got {
                Ok((200, bytes)) => return bytes,
                Ok((status, bytes)) => format!("{status} {}", String::from_utf8_lossy(&bytes)),
                Err(error) => error,
            };
            self.pause(&format!("{path} cannot be read: {said}"));
        }
    }

    /// A session's feed after a position, to its end.
    pub fn feed(&self, session: &str, after: &str, filter: &str) -> Vec<Value> {
        self.more_of(session, after, filter).0
    }

    /// A session's feed after a position, and where it ends.
    fn more_of(&self, session: &str, after: &str, filter: &str) -> (Vec<Value>, String) {
        let (mut all, mut after) = (Vec::new(), after.to_owned());
        loop {
            let path = format!("/v1/sessions/{session}/events?after={after}&limit=1000{filter}");
            let page: Value = serde_json::from_slice(&self.bytes(&path)).unwrap();
            all.extend(page["events"].as_array().unwrap().iter().cloned());
            after = page["cursor"].as_str().unwrap().to_owned();
            if page["hasMore"] != true {
                return (all, after);
            }
        }
    }

    /// Waits for an event.
    pub fn until(&self, session: &str, filter: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut after = START.to_owned();
        loop {
            let (events, end) = self.more_of(session, &after, filter);
            if let Some(found) = events.into_iter().find(|event| wanted(event)) {
                return found;
            }
            after = end;
            self.pause(&format!("P7: no event in {session} with {filter} is as wanted"));
        }
    }

    /// Waits a little; fails with `why` once there is no time left.
    pub fn pause(&self, why: &str) {
        if Instant::now() > self.shared.until || self.shared.given_up.load(Ordering::Relaxed) {
            self.fail(why);
        }
        thread::sleep(PAUSE);
    }

    fn fail(&self, why: &str) -> ! {
        self.shared.given_up.store(true, Ordering::Relaxed);
        // What others have seen is worth more than what became of them.
        let answered = self.shared.answered.lock().unwrap_or_else(PoisonError::into_inner).len();
        panic!("{why} ({answered} commands were answered before)")
    }
}
