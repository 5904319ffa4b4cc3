//! Receiving, and ending it without losing what is on its way.
//!
//! The client forgets a subscription as soon as it has told the server to end it, or very soon after, and drops what
//! the server had sent by then. So whoever closes first subscribes once more and waits until that is in force: from
//! then on everything arrives twice, and nothing is lost by ending the first subscription. The second one ends by
//! count, which server and client do at the same message; blanks that we send to ourselves make up the count.

use async_nats::{Message, Subscriber};
use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;

use super::NatsBus;
use crate::bus::{Delivery, Headers, Subject, Subscription};

/// Marks a blank, which nobody is meant to read.
const BLANK: &str = "Cadre-Blank";
/// After so many messages the second subscription ends: more than arrive while it takes over, of the few that still
/// come for what is being closed.
const LAST_MESSAGES: u64 = 128;
/// So many blanks are on their way at once: no more than the smallest queue holds beside other messages.
const BLANKS_AT_ONCE: u64 = 8;

pub(super) struct NatsSubscription {
    subscriber: Subscriber,
    /// Takes over when this is closed.
    last: Option<Last>,
    subject: Subject,
    bus: NatsBus,
}

/// The second subscription.
struct Last {
    subscriber: Subscriber,
    received: u64,
    blanks: u64,
}

impl NatsSubscription {
    pub(super) fn new(subscriber: Subscriber, subject: Subject, bus: NatsBus) -> Self {
        Self { subscriber, last: None, subject, bus }
    }

    /// Subscribes once more, to the last messages.
    async fn listen_twice(&self) -> Result<Last, String> {
        if !self.bus.is_connected() {
            return Err("not connected".into());
        }
        let subject = self.subject.as_str().to_owned();
        let mut subscriber = self.bus.link.0.subscribe(subject).await.map_err(|error| error.to_string())?;
        subscriber.unsubscribe_after(LAST_MESSAGES).await.map_err(|error| error.to_string())?;
        self.bus.round_trip().await.map_err(|error| error.to_string())?;
        Ok(Last { subscriber, received: 0, blanks: 0 })
    }

    async fn next_message(&mut self) -> Option<Message> {
        if let Some(message) = self.subscriber.next().await {
            return Some(message);
        }
        let last = self.last.as_mut()?;
        while last.blanks < last.received + BLANKS_AT_ONCE {
            // When the connection is lost, so is what was on its way.
            self.bus.link.send(self.subject.example().as_str(), None, &blank(), Bytes::new()).await.ok()?;
            last.blanks += 1;
        }
        let message = last.subscriber.next().await;
        last.received += 1;
        message
    }
}

fn blank() -> Headers {
    let mut headers = Headers::default();
    headers.set(BLANK, "1");
    headers
}

#[async_trait]
impl Subscription for NatsSubscription {
    async fn next(&mut self) -> Option<Delivery> {
        loop {
            let message = self.next_message().await?;
            let is_blank = message.headers.as_ref().is_some_and(|headers| headers.get(BLANK).is_some());
            if !is_blank {
                return Some(self.bus.link.delivery(message));
            }
        }
    }

    async fn close(&mut self) {
        match self.listen_twice().await {
            Ok(last) => self.last = Some(last),
            Err(reason) => {
                tracing::debug!(subject = %self.subject, reason, "closed without a second subscription")
            }
        }
        // It fails when the connection is closed for good, and then nothing is on its way.
        let _ = self.subscriber.unsubscribe().await;
    }
}
