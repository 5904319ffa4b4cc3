//! A client of a channel, as somebody else would write one.
#![allow(dead_code, reason = "each test file uses some of it")]

use std::{collections::VecDeque, time::Duration};

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest,
        http::{Response, StatusCode},
    },
};

use crate::common::PATIENCE;

/// One connection.
pub struct Channel {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    binary: bool,
    /// What came while an answer was waited for.
    kept: VecDeque<Value>,
}

pub const JSON: &str = "cadre.v1.json";
pub const MSGPACK: &str = "cadre.v1.msgpack";

impl Channel {
    /// Connects to `http://…` and says nothing.
    pub async fn connect(url: &str, subprotocol: &str) -> Self {
        Self::try_connect(url, Some(subprotocol)).await.unwrap_or_else(|error| panic!("{error}"))
    }

    pub async fn try_connect(url: &str, subprotocol: Option<&str>) -> Result<Self, Error> {
        let url = format!("{}/v1/channel", url.replacen("http", "ws", 1));
        let mut request = url.into_client_request().unwrap();
        if let Some(subprotocol) = subprotocol {
            request.headers_mut().insert("sec-websocket-protocol", subprotocol.parse().unwrap());
        }
        let (socket, response): (_, Response<_>) = connect_async(request).await?;
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        let agreed = response.headers().get("sec-websocket-protocol").map(|agreed| agreed.to_str().unwrap());
        assert_eq!(agreed, subprotocol);
        Ok(Self { socket, binary: subprotocol == Some(MSGPACK), kept: VecDeque::new() })
    }

    /// Connects and says hello. What the server says to that.
    pub async fn open(url: &str, subprotocol: &str, hello: Value) -> (Self, Value) {
        let mut channel = Self::connect(url, subprotocol).await;
        let welcome = channel.hello(hello).await;
        assert_eq!(welcome["op"], "welcome", "{welcome}");
        (channel, welcome)
    }

    pub async fn hello(&mut self, mut hello: Value) -> Value {
        hello["op"] = json!("hello");
        self.say(&hello).await;
        self.hear().await
    }

    pub async fn say(&mut self, frame: &Value) {
        self.try_say(frame).await.unwrap();
    }

    pub async fn try_say(&mut self, frame: &Value) -> Result<(), Error> {
        let message = match self.binary {
            true => Message::Binary(rmp_serde::to_vec_named(frame).unwrap().into()),
            false => Message::Text(frame.to_string().into()),
        };
        self.send(message).await
    }

    pub async fn send(&mut self, message: Message) -> Result<(), Error> {
        self.socket.send(message).await
    }

    /// The next frame; `None` once the server has closed.
    pub async fn try_hear(&mut self) -> Option<Value> {
        match self.kept.pop_front() {
            Some(kept) => Some(kept),
            None => self.receive().await,
        }
    }

    async fn receive(&mut self) -> Option<Value> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            return match next.expect("the server says nothing")? {
                Ok(Message::Text(text)) => Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Binary(bytes)) => Some(rmp_serde::from_slice(&bytes).unwrap()),
                Ok(Message::Ping(_) | Message::Pong(_)) => continue,
                Ok(Message::Close(_) | Message::Frame(_)) | Err(_) => None,
            };
        }
    }

    pub async fn hear(&mut self) -> Value {
        self.try_hear().await.expect("the server has closed")
    }

    /// Whether the server says nothing within this time.
    pub async fn is_silent(&mut self, time: Duration) -> bool {
        assert!(self.kept.is_empty(), "{:?}", self.kept);
        tokio::time::timeout(time, self.socket.next()).await.is_err()
    }

    /// The next frame with that `op`; what comes before it is not looked at.
    pub async fn until(&mut self, op: &str) -> Value {
        loop {
            let frame = self.hear().await;
            if frame["op"] == op {
                return frame;
            }
        }
    }

    /// The next frame, which has to have that `op`.
    pub async fn expect(&mut self, op: &str) -> Value {
        let frame = self.hear().await;
        assert_eq!(frame["op"], op, "{frame}");
        frame
    }

    /// All events up to the one that is wanted, in order.
    pub async fn events_until(&mut self, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let mut frame = self.until("event").await;
            let event = frame["event"].take();
            assert_eq!(frame["cursor"], event["cursor"]);
            let is_last = wanted(&event);
            events.push(event);
            if is_last {
                return events;
            }
        }
    }

    pub async fn subscribe(&mut self, session: &str) {
        self.say(&json!({ "op": "subscribe", "sessionId": session })).await;
    }

    pub async fn command(&mut self, id: &str, name: &str, args: Value) -> Value {
        self.say(&json!({ "op": "command", "id": id, "name": name, "args": args })).await;
        let mut kept = VecDeque::new();
        loop {
            let frame = self.hear().await;
            if frame["op"] == "result" && frame["id"] == id {
                kept.append(&mut self.kept);
                self.kept = kept;
                return frame;
            }
            kept.push_back(frame);
        }
    }

    /// Waits for the goodbye and the end. The reason.
    pub async fn bye(&mut self) -> String {
        let bye = self.until("bye").await;
        assert_eq!(self.try_hear().await, None, "nothing follows a goodbye");
        bye["reason"].as_str().unwrap().to_owned()
    }

    /// Ends as if the network had gone, in the middle of whatever is on its way.
    pub async fn cut(self) {
        if let MaybeTlsStream::Plain(stream) = self.socket.get_ref() {
            // Not the polite end: what is not sent is thrown away.
            let _ = stream.set_zero_linger();
        }
    }
}
