//! What is said over a channel: one frame, one object with `op`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    control::{Error, read},
    fact::{
        Cursor,
        id::{ChannelId, SessionId},
    },
};

/// What a client says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    Hello(Hello),
    Subscribe(Subscribe),
    Unsubscribe(Unsubscribe),
    Ack(Ack),
    Credit(Credit),
    Command(Command),
    Ping(Ping),
}

/// The first frame: who it is, and whether it was here before.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Hello {
    pub channel_id: Option<ChannelId>,
    pub resume_token: Option<String>,
    pub peer_role: Option<String>,
    pub capabilities: Vec<String>,
    pub heartbeat_ms: Option<u64>,
}

/// Follow a session.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subscribe {
    pub session_id: SessionId,
    #[serde(default)]
    pub after: Option<Cursor>,
    #[serde(default)]
    pub snapshot: Option<bool>,
    #[serde(default)]
    pub types: Vec<String>,
}

/// Follow it no more.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Unsubscribe {
    pub session_id: SessionId,
}

/// Everything up to here has arrived.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Ack {
    pub session_id: SessionId,
    pub cursor: Cursor,
}

/// So many more events may be sent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Credit {
    pub events: u64,
}

/// Do this.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Command {
    /// How the answer is recognised.
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub args: Value,
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

/// Are you there?
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Ping {
    pub t: Value,
}

/// A frame that is none, with the id of the command that it would have been.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Misread {
    pub error: Error,
    pub command: Option<String>,
}

impl Said {
    /// The longest id of a command.
    const ID_BYTES_MAX: usize = 128;

    /// Reads a frame.
    pub(super) fn read(value: Value) -> Result<Self, Misread> {
        let misread = |error| Misread { error, command: None };
        let Value::Object(fields) = &value else {
            return Err(misread(Error::invalid("", "a frame is an object with op")));
        };
        let Some(op) = fields.get("op").and_then(Value::as_str) else {
            return Err(misread(Error::invalid("op", "is missing")));
        };
        let said = match op {
            "hello" => read::from_value(value).map(Self::Hello),
            "subscribe" => read::from_value(value).map(Self::Subscribe),
            "unsubscribe" => read::from_value(value).map(Self::Unsubscribe),
            "ack" => read::from_value(value).map(Self::Ack),
            "credit" => read::from_value(value).map(Self::Credit),
            "ping" => read::from_value(value).map(Self::Ping),
            "command" => return Self::command(value),
            other => {
                let other: String = other.chars().take(40).collect();
                Err(Error::invalid("op", format_args!("there is no frame {other:?}")))
            }
        };
        said.map_err(misread)
    }

    fn command(value: Value) -> Result<Self, Misread> {
        let id = value.get("id").and_then(Value::as_str).filter(|id| id.len() <= Self::ID_BYTES_MAX);
        let id = id.map(str::to_owned);
        let read = read::from_value::<Command>(value).and_then(|command| match &id {
            Some(_) => Ok(command),
            None => Err(Error::invalid("id", format_args!("must have at most {} bytes", Self::ID_BYTES_MAX))),
        });
        read.map(Self::Command).map_err(|error| Misread { error, command: id })
    }
}

/// What the server says, all but events, which are shared between those who follow (`super::render`).
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum Told<'a> {
    Welcome {
        channel_id: &'a ChannelId,
        resume_token: &'a str,
        resumed: bool,
        heartbeat_ms: u64,
        subscriptions: Vec<Subscribed>,
    },
    Snapshot {
        session_id: &'a SessionId,
        cursor: Cursor,
        snapshot: &'a Value,
    },
    CaughtUp {
        session_id: &'a SessionId,
        cursor: Cursor,
    },
    Gap {
        session_id: &'a SessionId,
        from: Cursor,
        to: Cursor,
        reason: &'a str,
    },
    Result {
        id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<Cursor>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Value>,
    },
    Permission {
        action_id: &'a str,
        session_id: &'a SessionId,
        request: &'a Value,
    },
    Error {
        error: &'a Value,
    },
    Pong {
        t: &'a Value,
    },
    Bye {
        reason: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reconnect_after_ms: Option<u64>,
    },
}

/// A session that a channel has listened to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Subscribed {
    pub session_id: SessionId,
    pub acked: Option<Cursor>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::{super::encoding::Encoding, *};
    use crate::control::Code;

    #[test]
    fn every_frame_of_a_client_is_read() {
        let session = SessionId::parse("sess_1").unwrap();
        let cursor = Cursor::START;
        let read = |value| Said::read(value).unwrap();
        assert_eq!(read(json!({ "op": "hello" })), Said::Hello(Hello::default()));
        let subscribe =
            json!({ "op": "subscribe", "sessionId": "sess_1", "after": cursor, "types": ["tool.*"] });
        let Said::Subscribe(subscribe) = read(subscribe) else { panic!("another frame") };
        assert_eq!((subscribe.after, subscribe.snapshot, subscribe.types.len()), (Some(cursor), None, 1));
        let ack = json!({ "op": "ack", "sessionId": "sess_1", "cursor": cursor, "unknown": 1 });
        assert_eq!(read(ack), Said::Ack(Ack { session_id: session, cursor }));
        assert_eq!(read(json!({ "op": "credit", "events": 7 })), Said::Credit(Credit { events: 7 }));
        let Said::Command(command) = read(json!({ "op": "command", "id": "1", "name": "get_session" }))
        else {
            panic!("another frame")
        };
        assert_eq!((command.args, command.idempotency_key), (Value::Null, None));
    }

    #[test]
    fn what_is_no_frame_is_refused_with_the_field() {
        let field =
            |value| Said::read(value).unwrap_err().error.field().map(str::to_owned).unwrap_or_default();
        assert_eq!(field(json!([])), "");
        assert_eq!(field(json!({ "op": 1 })), "op");
        assert_eq!(field(json!({ "op": "helo" })), "op");
        assert_eq!(field(json!({ "op": "hello", "heartbeatMs": "soon" })), "heartbeatMs");
        assert_eq!(field(json!({ "op": "subscribe" })), "sessionId");
        assert_eq!(field(json!({ "op": "subscribe", "sessionId": "a b" })), "sessionId");
        assert_eq!(field(json!({ "op": "ack", "sessionId": "s", "cursor": "zz" })), "cursor");
        for events in [json!(-1), json!(1.5), json!("1"), json!(1e300), json!(null)] {
            assert_eq!(field(json!({ "op": "credit", "events": events })), "events", "{events}");
        }
    }

    #[test]
    fn a_command_that_is_misread_is_answered_under_its_id() {
        let misread = Said::read(json!({ "op": "command", "id": "7", "name": 1 })).unwrap_err();
        assert_eq!((misread.command.as_deref(), misread.error.field()), (Some("7"), Some("name")));
        let misread = Said::read(json!({ "op": "command", "id": "x".repeat(129), "name": "a" })).unwrap_err();
        assert_eq!((misread.command, misread.error.field()), (None, Some("id")));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "[a-zA-Z0-9_ .:-]{0,40}".prop_map(Value::from),
            "\\PC{0,20}".prop_map(Value::from),
            Just(json!("0".repeat(32))),
            Just(json!("sess_1")),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-zA-Z]{0,12}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_is_said_is_read_or_refused_in_words(
            op in prop_oneof![
                Just("hello"), Just("subscribe"), Just("unsubscribe"), Just("ack"), Just("credit"), Just("command"),
                Just("ping"), Just("welcome"), Just("")
            ],
            fields in prop::collection::vec((
                prop_oneof![
                    Just("sessionId"), Just("after"), Just("snapshot"), Just("types"), Just("cursor"), Just("events"),
                    Just("id"), Just("name"), Just("args"), Just("idempotencyKey"), Just("channelId"),
                    Just("resumeToken"), Just("heartbeatMs"), Just("capabilities"), Just("t"), Just("op")
                ],
                any_json(),
            ), 0..8),
        ) {
            let mut frame = json!({ "op": op });
            for (name, value) in fields {
                frame[name] = value;
            }
            for encoding in [Encoding::Json, Encoding::MessagePack] {
                let read = encoding.read(&encoding.write(&frame)).unwrap();
                if let Err(misread) = Said::read(read) {
                    prop_assert!(!misread.error.message.is_empty());
                    prop_assert_eq!(misread.error.code, Code::InvalidArgument);
                }
            }
        }
    }

    #[test]
    fn frames_of_the_server_have_the_names_of_the_contract() {
        let session = SessionId::parse("sess_1").unwrap();
        let told = Told::CaughtUp { session_id: &session, cursor: Cursor::START };
        let expected = json!({ "op": "caught_up", "sessionId": "sess_1", "cursor": Cursor::START });
        assert_eq!(serde_json::to_value(&told).unwrap(), expected);
        let told = Told::Bye { reason: "drain", reconnect_after_ms: Some(5) };
        let expected = json!({ "op": "bye", "reason": "drain", "reconnectAfterMs": 5 });
        assert_eq!(serde_json::to_value(&told).unwrap(), expected);
    }
}
