//! A gateway in this process, and a client of it.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::io::{BufRead, BufReader, Read};

use cadre::http;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};
use ureq::{
    Agent, Body,
    http::{Request, Response},
};

use crate::common::{PATIENCE, Rig, turn};

/// A server with the tokio runtime that it lives in.
pub struct Server {
    pub tokio: tokio::runtime::Runtime,
    pub rig: Rig,
    pub url: String,
    pub agent: Agent,
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Server {
    pub fn start() -> Self {
        Self::start_with(http::Settings::default())
    }

    pub fn start_with(settings: http::Settings) -> Self {
        let tokio =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let rig = tokio.block_on(Rig::start());
        let listener = tokio.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel();
        let server = http::serve_with(settings, rig.runtime.clone(), listener, async { drop(stopped.await) });
        let served = tokio.spawn(server);
        let config = Agent::config_builder().http_status_as_error(false).proxy(None);
        let agent = config.timeout_per_read(Some(PATIENCE)).build().into();
        Self { tokio, rig, url, agent, stop, served }
    }

    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.to_vec()).unwrap();
        if body.is_empty() && method != "POST" {
            return self.agent.run(request.map(drop)).unwrap();
        }
        self.agent.run(request).unwrap()
    }

    pub fn json(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, Value) {
        let mut response = self.send(method, path, headers, body);
        let text = response.body_mut().read_to_string().unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method} {path}: {text}"));
        (response.status().as_u16(), value)
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        self.json("GET", path, &[], b"")
    }

    pub fn get_text(&self, path: &str) -> (u16, String) {
        let mut response = self.send("GET", path, &[], b"");
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), text)
    }

    pub fn call(&self, name: &str, arguments: &Value) -> (u16, Value) {
        self.json("POST", &format!("/v1/commands/{name}"), &[], arguments.to_string().as_bytes())
    }

    /// A session with one finished turn. All of its events.
    pub fn session(&self, id: &str) -> Vec<Value> {
        let (status, answer) = self.call("submit_turn", &turn(id, json!([{ "say": "hello", "chunks": 5 }])));
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["cursor"].as_str().unwrap().len(), 32);
        let turn = answer["result"]["turnId"].as_str().unwrap();
        self.tokio.block_on(self.rig.turn_over(id, turn));
        self.tokio.block_on(self.rig.served(id))
    }

    pub fn stream(&self, path: &str, headers: &[(&str, &str)]) -> Stream {
        let response = self.send("GET", path, headers, b"");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Stream(BufReader::new(Box::new(response.into_body().into_reader())))
    }

    pub fn stop(self) {
        let _ = self.stop.send(());
        self.tokio.block_on(async {
            tokio::time::timeout(PATIENCE, self.served).await.unwrap().unwrap().unwrap();
            self.rig.stop().await;
        });
    }
}

pub struct Stream(BufReader<Box<dyn Read + Send>>);

impl Stream {
    /// The next line, whatever it is.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
        line.trim_end_matches('\n').to_owned()
    }

    /// Event, id and data of the next frame; `None` at the end.
    pub fn next(&mut self) -> Option<(String, String, Value)> {
        let (mut event, mut id, mut data) = (String::new(), String::new(), Value::Null);
        for line in self.0.by_ref().lines() {
            let line = line.unwrap();
            match line.split_once(": ") {
                Some(("event", text)) => event = text.into(),
                Some(("id", text)) => id = text.into(),
                Some(("data", text)) => data = serde_json::from_str(text).unwrap(),
                _ if line.is_empty() && !event.is_empty() => return Some((event, id, data)),
                _ => assert!(line.is_empty() || line.starts_with(':'), "{line}"),
            }
        }
        None
    }

    pub fn facts(&mut self, count: usize) -> Vec<Value> {
        let fact = |_| {
            let (event, id, data) = self.next().unwrap();
            assert_eq!(event, "fact");
            assert_eq!(data["cursor"], id.as_str());
            data
        };
        (0..count).map(fact).collect()
    }
}

pub fn assert_refused((status, body): (u16, Value), expected: u16, code: &str, field: Option<&str>) {
    assert_eq!(status, expected, "{body}");
    let error = body["error"].as_object().unwrap_or_else(|| panic!("no envelope: {body}"));
    assert_eq!(error["code"], code, "{body}");
    assert!(error["message"].is_string() && error["retryable"].is_boolean() && error["details"].is_object());
    if let Some(field) = field {
        assert_eq!(error["details"]["field"], field, "{body}");
    }
}
