//! Reading a body that may be too large.

use axum::{
    body::Body,
    http::{HeaderMap, header},
};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::refusal::Refusal;
use crate::control::Error;

/// The largest body of most commands: the largest input, escaped, and what is around it.
pub const BODY_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The largest body of a command that brings very many inputs: all of them, and what is around each.
pub const LARGE_BODY_BYTES_MAX: usize = 24 * 1024 * 1024;

/// How much of a body that is too large is read and thrown away. A client that is still sending when the connection
/// closes never sees the answer, so mistakes are read to their end; what is larger than this is not a mistake.
const DISCARDED_BYTES_MAX: usize = 2 * LARGE_BODY_BYTES_MAX;

/// The whole body, if it is small enough. `large` is who may still read a large one, for commands that have such.
pub(super) async fn read(
    headers: &HeaderMap,
    body: Body,
    large: Option<&Semaphore>,
) -> Result<Bytes, Refusal> {
    let max = if large.is_some() { LARGE_BODY_BYTES_MAX } else { BODY_BYTES_MAX };
    read_up_to(max, headers, body, large, |actual| Error::too_large(max as u64, actual as u64)).await
}

/// The same with another limit, and other words for what is over it.
pub(super) async fn read_up_to(
    max: usize,
    headers: &HeaderMap,
    body: Body,
    large: Option<&Semaphore>,
    refused: impl Fn(usize) -> Error,
) -> Result<Bytes, Refusal> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let too_large = |actual: usize| Refusal::from(refused(announced.unwrap_or(actual)));
    if let Some(announced) = announced
        && announced > max
        && (announced > DISCARDED_BYTES_MAX || headers.contains_key(header::EXPECT))
    {
        return Err(too_large(announced));
    }
    let mut chunks = body.into_data_stream();
    let (mut content, mut read, mut permit) = (BytesMut::new(), 0, None);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Error::invalid("", format_args!("the body broke off: {error}")))?;
        read += chunk.len();
        if read > DISCARDED_BYTES_MAX {
            break;
        }
        if let Some(large) = large.filter(|_| read > BODY_BYTES_MAX && permit.is_none()) {
            let many = |_| Error::rate_limited(1_000, "too many large requests at once");
            permit = Some(large.try_acquire().map_err(many)?);
        }
        if read <= max {
            content.extend_from_slice(&chunk);
        }
    }
    if read > max { Err(too_large(read)) } else { Ok(content.freeze()) }
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
