//! The bus: requests that will be retried and doorbells that may be lost.
//!
//! Nothing is true because a message said so. The bus may drop, double, delay and reorder; whoever uses it
//! keeps the truth in the store and treats a message as a hint to look there. What a driver does promise: a
//! request that nobody listens for is answered [`RequestError::NoResponders`] at once, and every queue is
//! bounded (a subscriber that does not keep up loses messages, it does not grow).

#[cfg(feature = "simulation")]
pub mod conformance;
mod error;
mod interest;
mod local;
mod message;
mod metrics;
pub mod nats;
#[cfg(feature = "simulation")]
pub mod simulated;
mod subject;

pub use error::{PublishError, RequestError, SubscribeError};
pub use local::LocalBus;
pub use message::{Delivery, Headers, Reply, TRACEPARENT};
pub use subject::{Subject, escape_token, unescape_token};

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

/// What a driver takes when its transport names no bound of its own; also what a NATS server allows unless it
/// is told otherwise.
pub const DEFAULT_MAX_PAYLOAD: usize = 1024 * 1024;

/// How many messages a subscription holds before further ones are lost: a second's worth at full speed, and
/// a few megabytes of the small messages that are usual.
pub const DEFAULT_QUEUE_CAPACITY: usize = 8 * 1024;

/// A handle on a bus, cheap to clone.
pub type Bus = Arc<dyn Driver>;

/// One implementation per transport.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// A name for logs and metrics: `local`, `nats`, `simulated`.
    fn name(&self) -> &'static str;

    /// The largest payload that may be sent, headers not counted.
    fn max_payload(&self) -> usize;

    /// Sends to whoever listens now. `Ok` says that it was handed to the transport, nothing more.
    async fn publish(&self, subject: &Subject, headers: Headers, payload: Bytes) -> Result<(), PublishError>;

    /// Sends and waits for the first answer.
    async fn request(
        &self,
        subject: &Subject,
        headers: Headers,
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, RequestError>;

    /// Listens to a subject, which may end in `>` (one or more further tokens) or hold `*` (one token).
    /// Returns once the subscription is in force: what is published afterwards through any connection of the
    /// same server reaches it. Dropping the subscription ends it.
    async fn subscribe(&self, subject: &Subject) -> Result<Box<dyn Subscription>, SubscribeError>;
}

/// The receiving end of [`Driver::subscribe`].
#[async_trait]
pub trait Subscription: Send {
    /// The next message; `None` when the bus is closed for good. Safe to drop while waiting.
    async fn next(&mut self) -> Option<Delivery>;

    /// Listens no more: [`Self::next`] returns what was on its way, then `None`. Nothing that the transport took for
    /// this subscription is lost by it, as it may be by dropping it; what comes meanwhile may come twice.
    async fn close(&mut self);
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
