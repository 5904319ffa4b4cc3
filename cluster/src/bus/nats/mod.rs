//! The NATS driver: core NATS, without persistence.
//!
//! It reconnects for ever, and subscriptions outlive a lost connection; what was published while it was lost is
//! gone. While there is no connection, sending fails at once instead of piling up. Credentials need the right to
//! publish and subscribe to `_INBOX.>` beside the subjects in use.
//!
//! Not promised: that a message handed over just before the connection was lost arrives, and, with several
//! servers in a cluster, that a new subscription is known to the others the moment it is in force.

mod config;
mod connect;
mod events;
mod inbox;
mod link;
mod subscription;
#[cfg(feature = "simulation")]
pub mod testing;
#[cfg(test)]
mod tests;

pub use config::{Credentials, NatsConfig, Secret, TlsConfig};
pub use connect::ConnectError;

use std::{sync::Arc, time::Duration};

use async_nats::{StatusCode, connection::State};
use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::timeout;

use self::{inbox::Inbox, link::Link, subscription::NatsSubscription};
use super::{
    Driver, Headers, PublishError, RequestError, Subject, SubscribeError, Subscription, metrics, millis,
};

const NAME: &str = "nats";

/// A connection to NATS. Clones are the same connection; it ends with the last of them and the last of their
/// subscriptions.
#[derive(Debug, Clone)]
pub struct NatsBus {
    link: Link,
    inbox: Arc<Inbox>,
    subscribe_timeout: Duration,
}

impl NatsBus {
    /// Connects. Fails when no server answers, or ours is refused, within the connect timeout.
    pub async fn connect(config: &NatsConfig) -> Result<Self, ConnectError> {
        connect::settle_crypto();
        let client = connect::connect(config).await?;
        let inbox = Inbox::open(&client, config.subscription_capacity).await.map_err(|error| {
            ConnectError::Unreachable {
                servers: config.servers_masked(),
                timeout_ms: config.connect_timeout_ms,
                reason: error.to_string(),
            }
        })?;
        Ok(Self { link: Link(client), inbox, subscribe_timeout: config.connect_timeout() })
    }

    /// Whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.link.0.connection_state() == State::Connected
    }

    async fn ask(&self, subject: &Subject, headers: &Headers, payload: Bytes) -> Result<Bytes, RequestError> {
        let expected = self.inbox.expect().await;
        self.link.send(subject.as_str(), Some(&expected.subject()), headers, payload).await?;
        match expected.answer().await {
            Some(answer) if answer.status == Some(StatusCode::NO_RESPONDERS) => {
                Err(RequestError::NoResponders { subject: subject.to_string() })
            }
            Some(answer) => Ok(answer.payload),
            None => Err(RequestError::Unavailable { reason: CLOSED.into() }),
        }
    }

    /// Sends a message to ourselves and waits for it: then the server has done all that we told it before.
    async fn round_trip(&self) -> Result<(), PublishError> {
        let expected = self.inbox.expect_at_once();
        self.link.send(&expected.subject(), None, &Headers::default(), Bytes::new()).await?;
        let back = expected.answer().await;
        back.map(|_| ()).ok_or_else(|| PublishError::Unavailable { reason: CLOSED.into() })
    }
}

const CLOSED: &str = "the connection is closed";

#[async_trait]
impl Driver for NatsBus {
    fn name(&self) -> &'static str {
        NAME
    }

    fn max_payload(&self) -> usize {
        self.link.max_payload()
    }

    async fn publish(&self, subject: &Subject, headers: Headers, payload: Bytes) -> Result<(), PublishError> {
        self.link.send(subject.as_str(), None, &headers, payload).await
    }

    async fn request(
        &self,
        subject: &Subject,
        headers: Headers,
        payload: Bytes,
        patience: Duration,
    ) -> Result<Bytes, RequestError> {
        let outcome = timeout(patience, self.ask(subject, &headers, payload))
            .await
            .unwrap_or(Err(RequestError::TimedOut { timeout_ms: millis(patience) }));
        metrics::requested(NAME, &outcome);
        outcome
    }

    async fn subscribe(&self, subject: &Subject) -> Result<Box<dyn Subscription>, SubscribeError> {
        let unavailable = |reason: String| SubscribeError::Unavailable { reason };
        if !self.is_connected() {
            return Err(unavailable("not connected".into()));
        }
        let in_force = async {
            let text = subject.as_str().to_owned();
            let subscriber =
                self.link.0.subscribe(text).await.map_err(|error| unavailable(error.to_string()))?;
            self.round_trip().await.map_err(|error| unavailable(error.to_string()))?;
            Ok(subscriber)
        };
        let subscriber = timeout(self.subscribe_timeout, in_force)
            .await
            .unwrap_or_else(|_| Err(unavailable("the server does not answer".into())))?;
        Ok(Box::new(NatsSubscription::new(subscriber, subject.clone(), self.clone())))
    }
}
