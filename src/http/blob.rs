//! Blobs, whole or in part.

use std::{io, ops::Range, time::Duration};

use axum::{
    body::Body,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;

use super::{
    App,
    credential::Reading,
    range::{self, Part},
    refusal::Refusal,
};
use crate::{
    blob::{BlobError, BlobMeta},
    control::{Code, Error},
    fact::{Time, id::BlobRef},
};

/// How much is read from the store at a time, as the client takes it.
const CHUNK_BYTES: u64 = 512 * 1024;

/// `GET` and `HEAD /v1/blobs/{ref}`
pub(super) async fn read(
    State(app): State<App>,
    Reading(caller): Reading,
    blob: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Path(blob) = blob.map_err(|_| Error::invalid("ref", "is not readable"))?;
    let blob = BlobRef::parse(&blob).map_err(|error| Error::invalid("ref", error))?;
    let meta = app.runtime.blobs().meta(&caller.tenant, &blob).await;
    let meta = meta.map_err(|error| refused(error, app.runtime.blobs().ttl()))?;
    let tag = format!("\"{}\"", meta.hash);
    if text(&headers, header::IF_NONE_MATCH).is_some_and(|wanted| matches(wanted, &tag)) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response());
    }
    // A part of another version would not fit what the client has.
    let is_same = text(&headers, header::IF_RANGE).is_none_or(|wanted| wanted == tag);
    let wanted = text(&headers, header::RANGE).filter(|_| is_same);
    let (status, range) = match range::part(wanted, meta.size_bytes) {
        Part::Whole => (StatusCode::OK, 0..meta.size_bytes),
        Part::Of(range) => (StatusCode::PARTIAL_CONTENT, range),
        Part::None => return Err(Refusal::range(meta.size_bytes)),
    };
    let mut response = (status, content(app, caller.tenant, blob, range.clone())).into_response();
    let about = response.headers_mut();
    describe(&meta, about);
    about.insert(header::ETAG, value(&tag));
    about.insert(header::CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    if status == StatusCode::PARTIAL_CONTENT {
        let part = format!("bytes {}-{}/{}", range.start, range.end - 1, meta.size_bytes);
        about.insert(header::CONTENT_RANGE, value(&part));
    }
    Ok(response)
}

/// What is said of a blob however much of it is sent. It may be anything, also a page with scripts: browsers must
/// neither guess nor run it.
fn describe(meta: &BlobMeta, about: &mut HeaderMap) {
    about.insert(header::CONTENT_TYPE, value(&meta.media_type));
    about.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    about.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600, immutable"));
    about.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    about.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
}

fn content(app: App, tenant: String, blob: BlobRef, range: Range<u64>) -> Body {
    Body::from_stream(futures::stream::try_unfold(range.start, move |at| {
        let (app, tenant, blob) = (app.clone(), tenant.clone(), blob.clone());
        async move {
            if at >= range.end {
                return Ok::<Option<(Bytes, u64)>, io::Error>(None);
            }
            let to = (at + CHUNK_BYTES).min(range.end);
            let read = app.runtime.blobs().read(&tenant, &blob, at..to).await;
            let chunk = read.map_err(io::Error::other)?;
            if chunk.len() as u64 != to - at {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            Ok(Some((chunk, to)))
        }
    }))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("application/octet-stream"))
}

/// Whether a list of tags has this one.
fn matches(wanted: &str, tag: &str) -> bool {
    wanted.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == "*" || one == tag)
}

/// `kept` is how long blobs are kept here: what is not found may have been there.
fn refused(error: BlobError, kept: Duration) -> Refusal {
    let kept_ms = kept.as_millis() as u64;
    match error {
        BlobError::NotFound { blob } => {
            let message = format!(
                "there is no blob {blob}; one that has expired is told of with output.expired in its session"
            );
            Error::new(Code::NotFound, message).with("keptMs", kept_ms).into()
        }
        error @ BlobError::Expired { at, .. } => {
            let gone = Error::new(Code::NotFound, error.to_string()).with("status", "expired");
            gone.with("expiredAt", Time(at).to_string()).with("keptMs", kept_ms).into()
        }
        error @ BlobError::Leaving { .. } => Error::unavailable(error.to_string()).into(),
        BlobError::Read(error) => Error::unavailable(format!("cannot read the blob: {error}")).into(),
        error @ (BlobError::Write(_)
        | BlobError::TooLarge { .. }
        | BlobError::Exists { .. }
        | BlobError::Decode(_)) => Refusal::internal(&error.to_string()),
    }
}
