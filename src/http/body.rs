//! Reading a body that may be too large.

use axum::{
    body::Body,
    http::{HeaderMap, header},
};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::refusal::Refusal;
use crate::control::Error;

/// More than that is a large body, of which few are in memory at once.
pub const SMALL_BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The largest body of most commands: the largest input, 1 MiB, of which JSON may need six bytes to say one (`\u0001`),
/// and what is around it. What is too large is told by the limit of the input then, which is documented.
pub const BODY_BYTES_MAX: usize = 7 * 1024 * 1024;
/// The largest body of a command that brings very many inputs: all of them, and what is around each.
pub const LARGE_BODY_BYTES_MAX: usize = 24 * 1024 * 1024;

/// How much of a body that is too large is read and thrown away. A client that is still sending when the connection
/// closes never sees the answer, so mistakes are read to their end; what is larger than this is not a mistake.
const DISCARDED_BYTES_MAX: usize = 2 * LARGE_BODY_BYTES_MAX;

/// A body, with its place among the large ones that are in memory at once: whoever uses the body keeps both (P9).
pub(super) struct Whole<'a> {
    /// All of it.
    pub content: Bytes,
    /// Its place, if it is large.
    pub place: Option<SemaphorePermit<'a>>,
}

/// The whole body, if it has at most `max` bytes. `large` is who may still read a large one.
pub(super) async fn read<'a>(
    headers: &HeaderMap,
    body: Body,
    max: usize,
    large: &'a Semaphore,
) -> Result<Whole<'a>, Refusal> {
    read_up_to(max, headers, body, large, |actual| Error::too_large(max as u64, actual as u64)).await
}

/// The same with other words for what is over the limit.
pub(super) async fn read_up_to<'a>(
    max: usize,
    headers: &HeaderMap,
    body: Body,
    large: &'a Semaphore,
    refused: impl Fn(usize) -> Error,
) -> Result<Whole<'a>, Refusal> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let too_large = |actual: usize| Refusal::from(refused(announced.unwrap_or(actual)));
    if let Some(announced) = announced
        && announced > max
        && (announced > DISCARDED_BYTES_MAX || headers.contains_key(header::EXPECT))
    {
        return Err(too_large(announced));
    }
    let mut chunks = body.into_data_stream();
    let (mut content, mut read, mut place) = (BytesMut::new(), 0, None);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Error::invalid("", format_args!("the body broke off: {error}")))?;
        read += chunk.len();
        if read > DISCARDED_BYTES_MAX {
            break;
        }
        // What is too large is read and not kept.
        if read > SMALL_BODY_BYTES_MAX && place.is_none() && read <= max {
            let many = |_| Error::rate_limited(1_000, "too many large requests at once");
            place = Some(large.try_acquire().map_err(many)?);
        }
        if read <= max {
            content.extend_from_slice(&chunk);
        }
    }
    if read > max { Err(too_large(read)) } else { Ok(Whole { content: content.freeze(), place }) }
}

/// The arguments that a body says. Nothing at all is no arguments.
pub(super) fn arguments(body: &[u8]) -> Result<Value, Refusal> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Object(Default::default()));
    }
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Error::invalid("", format_args!("the body is not JSON: {error}")))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(Error::invalid("", "the body must be a JSON object with the arguments of the command").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn p9_a_large_body_has_its_place_for_as_long_as_it_is_used() {
        let large = Semaphore::new(1);
        let body = || Body::from(vec![b' '; SMALL_BODY_BYTES_MAX + 1]);
        let headers = HeaderMap::new();
        let read = |body| read(&headers, body, BODY_BYTES_MAX, &large);
        let used = read(body()).await.ok().unwrap();
        assert_eq!(used.content.len(), SMALL_BODY_BYTES_MAX + 1);
        assert!(read(body()).await.is_err(), "there is no room for a second one");
        let small = read(Body::from("{}")).await.ok().unwrap();
        assert!(small.place.is_none(), "a small one takes none");
        drop(used);
        assert!(read(body()).await.is_ok());
    }
}
