//! Errors as answers: one envelope, the status of its code.

use axum::{
    Json,
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use rand::TryRngCore;

use crate::control::{Code, Error};

/// An error with what HTTP adds to it.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    error: Error,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    /// The method is wrong, not the path.
    pub(super) fn method(error: Error) -> Self {
        Self { status: StatusCode::METHOD_NOT_ALLOWED, ..Self::from(error) }
    }

    /// Nothing of a thing of this size is in the range that was asked for.
    pub(super) fn range(size: u64) -> Self {
        let error = Error::invalid("Range", format_args!("must lie within {size} bytes")).with("size", size);
        let range = HeaderValue::from_str(&format!("bytes */{size}")).expect("digits are visible ASCII");
        Self {
            status: StatusCode::RANGE_NOT_SATISFIABLE,
            error,
            headers: vec![(header::CONTENT_RANGE, range)],
        }
    }

    /// A bug. What it was goes into the log, under the id that the caller gets.
    pub(super) fn internal(what: &str) -> Self {
        bug(what).into()
    }
}

/// A bug, as callers are told of it.
pub(super) fn bug(what: &str) -> Error {
    let incident = format!("inc_{:016x}", rand::rngs::OsRng.try_next_u64().unwrap_or_default());
    tracing::error!(%incident, what, "internal error");
    Error::internal(incident)
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let after = match (error.retry_after_ms(), error.code) {
            (Some(ms), _) => Some(ms.div_ceil(1000).max(1)),
            (None, Code::RateLimited) => Some(1),
            (None, _) => None,
        };
        let headers = after.map(|seconds| (header::RETRY_AFTER, HeaderValue::from(seconds)));
        Self { status, error, headers: headers.into_iter().collect() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.error.to_json())).into_response();
        response.headers_mut().extend(self.headers);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_too_fast_is_told_when_to_come_back_in_whole_seconds() {
        for (ms, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (60_000, "60")] {
            let response = Refusal::from(Error::rate_limited(ms, "slower")).into_response();
            assert_eq!(response.status(), 429);
            assert_eq!(response.headers()[header::RETRY_AFTER], seconds, "{ms}");
        }
        let response = Refusal::from(Error::new(Code::RateLimited, "slower")).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
    }

    #[test]
    fn every_code_has_its_status() {
        for code in Code::ALL {
            let response = Refusal::from(Error::new(*code, "no")).into_response();
            assert_eq!(response.status().as_u16(), code.http_status());
        }
    }
}
