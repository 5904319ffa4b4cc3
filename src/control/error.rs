//! How a command is refused. Every surface says it in the same words, and a caller can act on the code alone.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::words::words;
use crate::fact::payload::Object;

words! {
    /// What went wrong, in one word that programs act on.
    Code {
        /// There is no credential, or a bad one.
        Unauthorized = "unauthorized",
        /// The credential does not reach so far.
        Forbidden = "forbidden",
        /// It does not exist, or belongs to another tenant.
        NotFound = "not_found",
        /// The arguments are malformed or out of bounds: `details.field` says which.
        InvalidArgument = "invalid_argument",
        /// Not in this state: `details.status` says which it is.
        Conflict = "conflict",
        /// Past a limit: `details.limit` says which.
        PayloadTooLarge = "payload_too_large",
        /// Too many; later is better: `details.retryAfterMs` says when.
        RateLimited = "rate_limited",
        /// The caller's deadline passed; the same command with the same key may be sent again.
        DeadlineExceeded = "deadline_exceeded",
        /// Something that it needs cannot be reached now.
        Unavailable = "unavailable",
        /// A bug: `details.incidentId` is in the log.
        Internal = "internal",
    }
}

impl Code {
    /// The status over HTTP.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::InvalidArgument => 400,
            Self::Conflict => 409,
            Self::PayloadTooLarge => 413,
            Self::RateLimited => 429,
            Self::DeadlineExceeded => 504,
            Self::Unavailable => 503,
            Self::Internal => 500,
        }
    }

    /// Whether the same command may succeed when it is sent again.
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::RateLimited | Self::DeadlineExceeded | Self::Unavailable => true,
            Self::Unauthorized
            | Self::Forbidden
            | Self::NotFound
            | Self::InvalidArgument
            | Self::Conflict
            | Self::PayloadTooLarge
            | Self::Internal => false,
        }
    }
}

/// A refusal. It is stored as it is: entities answer with it, and a repeated command gets the same answer. Callers see
/// it as [`Error::to_json`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Error {
    /// One word that programs act on.
    pub code: Code,
    /// What people read.
    pub message: String,
    /// Whether the same command may succeed when it is sent again.
    pub retryable: bool,
    /// What the message says, for programs: `field`, `status`, `limit`, `retryAfterMs`, …
    pub details: Object,
}

cadre_cluster::stored! { Error: "refusal" }

impl Error {
    /// A refusal without details, retryable as its code usually is.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: code.is_retryable(), details: Object::new() }
    }

    /// With one more detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.into(), value.into());
        self
    }

    /// No credential, or a bad one.
    pub fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(Code::Unauthorized, message)
    }

    /// The state that it is in, if the refusal is about that.
    pub fn status(&self) -> Option<&str> {
        self.details.get("status").and_then(Value::as_str)
    }

    /// The credential lacks a scope.
    pub fn forbidden(scope: impl fmt::Display) -> Self {
        let scope = scope.to_string();
        Self::new(Code::Forbidden, format!("this needs the scope {scope}")).with("scope", scope)
    }

    /// It does not exist. The text is the same when it belongs to somebody else, so that nobody can find out.
    pub fn not_found(what: &str, id: impl fmt::Display) -> Self {
        Self::new(Code::NotFound, format!("there is no {what} {id}"))
    }

    /// An argument is malformed or out of bounds. `field` is its path: `options.deadlineMs`, `input[0].text`.
    pub fn invalid(field: impl Into<String>, message: impl fmt::Display) -> Self {
        let field = field.into();
        let message = if field.is_empty() { message.to_string() } else { format!("{field}: {message}") };
        Self::new(Code::InvalidArgument, message).with("field", field)
    }

    /// Not in this state.
    pub fn conflict(status: impl fmt::Display, message: impl Into<String>) -> Self {
        Self::new(Code::Conflict, message).with("status", status.to_string())
    }

    /// Larger than it may be, in bytes.
    pub fn too_large(limit: u64, actual: u64) -> Self {
        let message = format!("{actual} bytes are more than the limit of {limit}");
        Self::new(Code::PayloadTooLarge, message).with("limit", limit).with("actual", actual)
    }

    /// Too many of them. Surfaces that have a `Retry-After` take it from [`Error::retry_after_ms`].
    pub fn rate_limited(retry_after_ms: u64, message: impl Into<String>) -> Self {
        Self::new(Code::RateLimited, message).with("retryAfterMs", retry_after_ms)
    }

    /// The caller's deadline passed, and it is not known what became of the command.
    pub fn deadline() -> Self {
        Self::new(
            Code::DeadlineExceeded,
            "the deadline passed before there was an answer, and it may have been executed; if it had an idempotency \
             key, send it again with the same one",
        )
    }

    /// Something that it needs cannot be reached now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(Code::Unavailable, message)
    }

    /// A bug. What it was is in the log, under the same id; nothing of it is said here.
    pub fn internal(incident_id: impl fmt::Display) -> Self {
        let incident = incident_id.to_string();
        Self::new(Code::Internal, format!("an internal error, in the log as {incident}"))
            .with("incidentId", incident)
    }

    /// The status over HTTP.
    pub const fn http_status(&self) -> u16 {
        self.code.http_status()
    }

    /// The field that is wrong, when one is.
    pub fn field(&self) -> Option<&str> {
        self.details.get("field")?.as_str()
    }

    /// How long to wait before the next try, when that is known.
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.details.get("retryAfterMs")?.as_u64()
    }

    /// As callers see it: `{"error": {"code", "message", "retryable", "details"}}`.
    pub fn to_json(&self) -> Value {
        json!({ "error": self })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use cadre_cluster::codec;

    use super::*;

    fn all() -> Vec<Error> {
        vec![
            Error::unauthorized("no credential"),
            Error::forbidden("admin"),
            Error::not_found("task", "task_1"),
            Error::invalid("limit", "must be at least 1"),
            Error::conflict("completed", "the task is completed"),
            Error::too_large(10, 11),
            Error::rate_limited(1_500, "too many turns"),
            Error::deadline(),
            Error::unavailable("the shard is moving"),
            Error::internal("inc_1"),
        ]
    }

    #[test]
    fn there_is_a_constructor_for_every_code() {
        let codes: Vec<_> = all().iter().map(|error| error.code).collect();
        assert_eq!(codes, Code::ALL);
    }

    #[test]
    fn the_wire_form_has_four_fields_always() {
        for error in all() {
            let wire = error.to_json();
            assert_eq!(wire["error"].as_object().unwrap().len(), 4, "{wire}");
            assert_eq!(wire["error"]["code"], error.code.as_str());
            assert!(wire["error"]["details"].is_object());
        }
        assert_eq!(Error::invalid("limit", "x").field(), Some("limit"));
        assert_eq!(Error::conflict("completed", "x").to_json()["error"]["details"]["status"], "completed");
        assert_eq!(Error::rate_limited(7, "x").retry_after_ms(), Some(7));
    }

    #[test]
    fn refusals_are_stored_as_they_are() {
        for error in all() {
            assert_eq!(codec::decode::<Error>(&codec::encode(&error)).as_ref(), Ok(&error));
        }
        let bytes: String = codec::encode(&Error::conflict("failed", "no"))
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(bytes, "0194a8636f6e666c696374a26e6fc281a6737461747573a66661696c6564");
    }
}
