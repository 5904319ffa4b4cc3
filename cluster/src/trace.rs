//! W3C trace context, from whoever asked to whatever came of it.
//!
//! The substrate does not know which tracing system is in use: whoever does sets the context of the work in
//! hand here, and finds it again where the work goes on. A command brings the caller's context to its owner; the
//! effects and messages that follow from it carry it on, through the store, to other nodes.

use std::future::Future;

use crate::bus::{Headers, TRACEPARENT};

tokio::task_local! {
    static CURRENT: Option<String>;
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
