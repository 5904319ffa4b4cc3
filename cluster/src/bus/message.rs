//! What travels on the bus.

use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;

use super::{PublishError, Subject};

/// The header that carries the W3C trace context.
pub const TRACEPARENT: &str = "traceparent";

/// Headers of a message: few and short. A transport need not keep their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Adds a header, replacing one of the same name. What no transport could carry in a value, white space
    /// at its ends and control characters, is taken off or becomes a space.
    ///
    /// # Panics
    /// When the name is empty or holds anything but ASCII letters, digits and `-`.
    pub fn set(&mut self, name: &str, value: &str) {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        assert!(!name.is_empty() && name.bytes().all(plain), "`{name}` is not a header name");
        let value = value.replace(|c: char| c.is_control(), " ").trim().to_owned();
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Headers as they came from the transport.
    pub(super) fn from_wire(pairs: Vec<(String, String)>) -> Self {
        Self(pairs)
    }

    /// The value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A message as it arrives.
#[derive(Debug)]
pub struct Delivery {
    /// Where it was sent, without wildcards.
    pub subject: Subject,
    /// Its headers.
    pub headers: Headers,
    /// Its payload.
    pub payload: Bytes,
    /// How to answer, when it is a request.
    pub reply: Option<Reply>,
}

/// The way back to whoever made a request. Use it once; dropping it leaves the request to time out.
pub struct Reply(Box<dyn FnOnce(Bytes) -> BoxFuture<'static, Result<(), PublishError>> + Send>);

impl Reply {
    /// Answers through `send`.
    pub fn new(
        send: impl FnOnce(Bytes) -> BoxFuture<'static, Result<(), PublishError>> + Send + 'static,
    ) -> Self {
        Self(Box::new(send))
    }

    /// Answers.
    pub async fn send(self, payload: Bytes) -> Result<(), PublishError> {
        (self.0)(payload).await
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}
