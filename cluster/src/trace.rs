//! W3C trace context across the bus.
//!
//! The substrate does not know which tracing system is in use: whoever does sets the context of the work in
//! hand here, and finds it again where the work goes on.

use std::future::Future;

tokio::task_local! {
    static TRACEPARENT: String;
}

/// The context of the work in hand, as a `traceparent` header.
pub fn current() -> Option<String> {
    TRACEPARENT.try_with(Clone::clone).ok()
}

/// Does `work` in a context.
pub async fn within<F: Future>(traceparent: String, work: F) -> F::Output {
    TRACEPARENT.scope(traceparent, work).await
}
