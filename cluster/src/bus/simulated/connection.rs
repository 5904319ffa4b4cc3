//! A node's end of the simulated network.

use std::{
    convert::Infallible,
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use super::network::{Network, Parcel, ReturnAddress};
use crate::{
    bus::{
        Delivery, Driver, Headers, PublishError, Reply, RequestError, Subject, SubscribeError, Subscription,
        millis,
    },
    sim::{Lifeline, Moment},
};

/// One node's connection to a [`super::SimBus`].
#[derive(Debug, Clone)]
pub struct SimConnection {
    network: Arc<Network>,
    node: Lifeline,
}

impl SimConnection {
    pub(super) fn new(network: Arc<Network>, node: Lifeline) -> Self {
        Self { network, node }
    }

    /// Whether a payload may be sent now.
    fn admit(&self, payload: &Bytes) -> Result<(), PublishError> {
        let state = self.network.state();
        if payload.len() > state.max_payload {
            return Err(PublishError::TooLarge { limit: state.max_payload, actual: payload.len() });
        }
        if state.is_down() {
            return Err(PublishError::Unavailable { reason: DOWN.into() });
        }
        Ok(())
    }

    async fn answer(self, to: ReturnAddress, payload: Bytes) -> Result<(), PublishError> {
        self.node.pass(Moment::Before).await;
        self.admit(&payload)?;
        self.network.answer(&self.node, &to, payload);
        self.node.pass(Moment::After).await;
        Ok(())
    }
}

const DOWN: &str = "the simulated bus is down";

#[async_trait]
impl Driver for SimConnection {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn max_payload(&self) -> usize {
        self.network.state().max_payload
    }

    async fn publish(&self, subject: &Subject, headers: Headers, payload: Bytes) -> Result<(), PublishError> {
        self.node.pass(Moment::Before).await;
        self.admit(&payload)?;
        self.network.send(&self.node, subject, headers, payload, None);
        self.node.pass(Moment::After).await;
        Ok(())
    }

    async fn request(
        &self,
        subject: &Subject,
        headers: Headers,
        payload: Bytes,
        patience: Duration,
    ) -> Result<Bytes, RequestError> {
        self.node.pass(Moment::Before).await;
        self.admit(&payload)?;
        let mut request = OpenRequest::new(self.network.clone());
        let address = ReturnAddress { request: request.id, node: self.node.clone() };
        let listeners = self.network.send(&self.node, subject, headers, payload, Some(address));
        let answer = if listeners == 0 {
            Err(RequestError::NoResponders { subject: subject.to_string() })
        } else {
            match timeout(patience, &mut request.answered).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(_)) => unreachable!("the network keeps a request until it is closed"),
                Err(_) => Err(RequestError::TimedOut { timeout_ms: millis(patience) }),
            }
        };
        self.node.pass(Moment::After).await;
        answer
    }

    async fn subscribe(&self, subject: &Subject) -> Result<Box<dyn Subscription>, SubscribeError> {
        self.node.pass(Moment::Before).await;
        if self.network.state().is_down() {
            return Err(SubscribeError::Unavailable { reason: DOWN.into() });
        }
        let (id, parcels) = self.network.state().listen(&self.node, subject);
        let (open, ended) = oneshot::channel();
        tokio::spawn(end_after_death(Arc::downgrade(&self.network), self.node.clone(), id, ended));
        let subscription = SimSubscription {
            id,
            network: Arc::downgrade(&self.network),
            node: self.node.clone(),
            parcels,
            received: None,
            _open: open,
        };
        self.node.pass(Moment::After).await;
        Ok(Box::new(subscription))
    }
}

/// The server's side of a node's death: it notices after a while and forgets the subscription.
async fn end_after_death(
    network: Weak<Network>,
    node: Lifeline,
    listener: u64,
    ended: oneshot::Receiver<Infallible>,
) {
    tokio::select! {
        biased;
        () = node.cut_happened() => {}
        // When the node died before it could end the subscription, this resolves as well.
        _ = ended => {}
    }
    if node.is_cut() {
        let Some(notice) = network.upgrade().map(|network| network.state().death_notice) else { return };
        sleep(notice).await;
        if let Some(network) = network.upgrade() {
            network.state().unlisten(listener);
        }
    }
}

struct OpenRequest {
    id: u64,
    network: Arc<Network>,
    answered: oneshot::Receiver<Bytes>,
}

impl OpenRequest {
    fn new(network: Arc<Network>) -> Self {
        let (id, answered) = network.state().open_request();
        Self { id, network, answered }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.network.state().close_request(self.id);
    }
}

struct SimSubscription {
    id: u64,
    network: Weak<Network>,
    node: Lifeline,
    parcels: mpsc::Receiver<Parcel>,
    /// Taken from the queue by a call of `next` that was dropped before it could answer.
    received: Option<Parcel>,
    _open: oneshot::Sender<Infallible>,
}

#[async_trait]
impl Subscription for SimSubscription {
    async fn next(&mut self) -> Option<Delivery> {
        self.node.pass(Moment::Before).await;
        if self.received.is_none() {
            self.received = self.parcels.recv().await;
        }
        self.node.pass(Moment::After).await;
        let Parcel { subject, headers, payload, request, .. } = self.received.take()?;
        let reply = request.zip(self.network.upgrade()).map(|(address, network)| {
            let connection = SimConnection { network, node: self.node.clone() };
            Reply::new(move |payload| Box::pin(connection.answer(address, payload)))
        });
        Some(Delivery { subject, headers, payload, reply })
    }

    async fn close(&mut self) {
        self.node.pass(Moment::Before).await;
        if let Some(network) = self.network.upgrade() {
            network.state().unlisten(self.id);
        }
        self.node.pass(Moment::After).await;
    }
}

impl Drop for SimSubscription {
    fn drop(&mut self) {
        // A dead node ends nothing: the server has to notice.
        if !self.node.is_cut()
            && let Some(network) = self.network.upgrade()
        {
            network.state().unlisten(self.id);
        }
    }
}
