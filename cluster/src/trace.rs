//! W3C trace context, from whoever asked to whatever came of it.
//!
//! The substrate does not know which tracing system is in use: whoever does sets the context of the work in
//! hand here, and finds it again where the work goes on. A command brings the caller's context to its owner; the
//! effects and messages that follow from it carry it on, through the store, to other nodes.

use std::{future::Future, sync::OnceLock};

use crate::bus::{Headers, TRACEPARENT};

tokio::task_local! {
    static CURRENT: Option<String>;
}

/// Puts a span into the trace of the context that it continues, and says the context of what happens within it.
pub type Join = fn(&tracing::Span, Option<String>) -> Option<String>;

static JOIN: OnceLock<Join> = OnceLock::new();

/// Whoever sends spans somewhere says how they are joined, once for the process. Whether it is the first to say so.
pub fn join_with(join: Join) -> bool {
    JOIN.set(join).is_ok()
}

/// The context of what happens within a span that continues `parent`. That is `parent` itself as long as nobody sends
/// spans anywhere.
pub fn join(span: &tracing::Span, parent: Option<String>) -> Option<String> {
    match JOIN.get() {
        Some(join) => join(span, parent),
        None => parent,
    }
}

/// Longer than any version of the header that there is.
const BYTES_MAX: usize = 128;

/// The context of the work in hand, as a `traceparent` header.
pub fn current() -> Option<String> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// Does `work` in a context.
pub async fn within<F: Future>(traceparent: Option<String>, work: F) -> F::Output {
    CURRENT.scope(traceparent, work).await
}

/// The context that a message from the bus brings. What is too long to be one is none.
pub(crate) fn of(headers: &Headers) -> Option<String> {
    headers.get(TRACEPARENT).filter(|context| context.len() <= BYTES_MAX).map(str::to_owned)
}
