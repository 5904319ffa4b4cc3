//! Sending: sizes checked, and never longer than it may take.

use std::time::Duration;

use async_nats::{
    Client, HeaderMap, HeaderName, HeaderValue, client::traits::Publisher, connection::State,
    message::OutboundMessage,
};
use bytes::Bytes;
use tokio::time::timeout;

use crate::bus::{Delivery, Headers, PublishError, Reply, Subject};

/// What of the server's limit is kept free for headers, so that a payload of the stated maximum passes with a
/// trace context. A trace context takes about a hundred bytes, with the longest state about 600.
const HEADER_ROOM: usize = 1024;

/// The client takes a message within microseconds, or a full socket is in its way, or the connection went away
/// since it was looked at. Then waiting for the reconnect would only make the caller's news old.
const HANDOVER_PATIENCE: Duration = Duration::from_secs(1);

/// The sending side of a connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Link(pub(super) Client);

impl Link {
    /// The largest payload, with room left for headers.
    pub(super) fn max_payload(&self) -> usize {
        let limit = self.0.max_payload();
        limit - HEADER_ROOM.min(limit / 2)
    }

    /// Hands a message to the client. An error says that it was not handed over, and is not sent later either.
    pub(super) async fn send(
        &self,
        subject: &str,
        reply: Option<&str>,
        headers: &Headers,
        payload: Bytes,
    ) -> Result<(), PublishError> {
        self.check_size(headers, &payload)?;
        if self.0.connection_state() != State::Connected {
            return Err(unavailable("not connected"));
        }
        let message = OutboundMessage {
            subject: subject.into(),
            reply: reply.map(Into::into),
            payload,
            headers: (!headers.is_empty()).then(|| to_wire(headers)),
        };
        match timeout(HANDOVER_PATIENCE, self.0.publish_message(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(unavailable(error)),
            // Given up while it waited for room in the client's queue, of which the message never became part.
            Err(_) => Err(unavailable("the connection takes no messages")),
        }
    }

    /// A message as it arrived, with the way back.
    pub(super) fn delivery(&self, message: async_nats::Message) -> Delivery {
        let reply = message.reply.map(|to| {
            let link = self.clone();
            Reply::new(move |payload| {
                Box::pin(async move { link.send(&to, None, &Headers::default(), payload).await })
            })
        });
        Delivery {
            subject: Subject::from_wire(&message.subject),
            headers: message.headers.as_ref().map(from_wire).unwrap_or_default(),
            payload: message.payload,
            reply,
        }
    }

    fn check_size(&self, headers: &Headers, payload: &Bytes) -> Result<(), PublishError> {
        let limit = self.max_payload();
        if payload.len() > limit {
            return Err(PublishError::TooLarge { limit, actual: payload.len() });
        }
        let (limit, actual) = (self.0.max_payload(), wire_len(headers) + payload.len());
        if actual > limit {
            return Err(PublishError::TooLarge { limit, actual });
        }
        Ok(())
    }
}

fn unavailable(reason: impl ToString) -> PublishError {
    PublishError::Unavailable { reason: reason.to_string() }
}

/// The bytes that the server counts for headers: a version line, a line each, an empty line.
fn wire_len(headers: &Headers) -> usize {
    if headers.is_empty() {
        return 0;
    }
    let lines = headers.iter().map(|(name, value)| name.len() + ": ".len() + value.len() + "\r\n".len());
    "NATS/1.0\r\n".len() + lines.sum::<usize>() + "\r\n".len()
}

fn to_wire(headers: &Headers) -> HeaderMap {
    let parse = |(name, value): (&str, &str)| {
        let name: HeaderName = name.parse().expect("header names are checked when they are set");
        let value: HeaderValue = value.parse().expect("header values are cleaned when they are set");
        (name, value)
    };
    headers.iter().map(parse).collect()
}

fn from_wire(headers: &HeaderMap) -> Headers {
    let mut pairs: Vec<_> = headers
        .iter()
        .filter_map(|(name, values)| Some((name.to_string(), values.last()?.to_string())))
        .collect();
    pairs.sort_unstable();
    Headers::from_wire(pairs)
}
