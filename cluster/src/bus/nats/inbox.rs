//! Where answers arrive: one subscription for all requests of a connection.
//!
//! The client has such an inbox too, but keeps a request that was never answered for ever. Here a request is
//! forgotten when its caller stops waiting.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use async_nats::{Client, Message, Subscriber};
use futures::StreamExt;
use tokio::{
    sync::{Semaphore, SemaphorePermit, oneshot},
    task::JoinHandle,
};

/// The requests of one connection that wait for an answer.
#[derive(Debug)]
pub(super) struct Inbox {
    prefix: String,
    ids: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Message>>>,
    /// As many as the subscription's queue holds: a burst of answers must not overflow it.
    places: Semaphore,
    sorter: JoinHandle<()>,
}

/// A request that waits. Dropping it forgets it.
pub(super) struct Expected<'a> {
    inbox: &'a Inbox,
    id: u64,
    answer: oneshot::Receiver<Message>,
    _place: Option<SemaphorePermit<'a>>,
}

impl Inbox {
    /// Opens an inbox that expects at most `capacity` answers at a time.
    pub(super) async fn open(
        client: &Client,
        capacity: usize,
    ) -> Result<Arc<Self>, async_nats::SubscribeError> {
        let prefix = format!("{}.", client.new_inbox());
        let answers = client.subscribe(format!("{prefix}*")).await?;
        Ok(Arc::new_cyclic(|inbox: &std::sync::Weak<Self>| {
            let inbox = inbox.clone();
            Self {
                sorter: tokio::spawn(sort(answers, prefix.clone(), move |id, answer| {
                    if let Some(inbox) = inbox.upgrade() {
                        inbox.settle(id, answer);
                    }
                })),
                prefix,
                ids: AtomicU64::new(0),
                waiting: Mutex::default(),
                places: Semaphore::new(capacity),
            }
        }))
    }

    /// Expects one more answer; waits while there is no place for it.
    pub(super) async fn expect(&self) -> Expected<'_> {
        let place = self.places.acquire().await.expect("the semaphore is never closed");
        self.enter(Some(place))
    }

    /// Expects an answer without waiting for a place. For what is rare and must not wait behind requests: a
    /// shard's new owner subscribes just when many requests to the old one wait for nothing.
    pub(super) fn expect_at_once(&self) -> Expected<'_> {
        self.enter(None)
    }

    fn enter<'a>(&'a self, place: Option<SemaphorePermit<'a>>) -> Expected<'a> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.waiting().insert(id, sender);
        Expected { inbox: self, id, answer, _place: place }
    }

    fn settle(&self, id: u64, answer: Message) {
        if let Some(waiting) = self.waiting().remove(&id) {
            // Whoever asked may have gone.
            let _ = waiting.send(answer);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Message>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn waiting_count(&self) -> usize {
        self.waiting().len()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // Its subscription would keep the connection open.
        self.sorter.abort();
    }
}

impl Expected<'_> {
    /// Where the answer has to be sent.
    pub(super) fn subject(&self) -> String {
        format!("{}{}", self.inbox.prefix, self.id)
    }

    /// The answer; `None` when the connection is closed for good.
    pub(super) async fn answer(mut self) -> Option<Message> {
        (&mut self.answer).await.ok()
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.inbox.waiting().remove(&self.id);
    }
}

/// Brings every answer to its request.
async fn sort(mut answers: Subscriber, prefix: String, settle: impl Fn(u64, Message)) {
    while let Some(answer) = answers.next().await {
        match answer.subject.strip_prefix(&prefix).and_then(|id| id.parse().ok()) {
            Some(id) => settle(id, answer),
            None => tracing::debug!(subject = %answer.subject, "answer to nothing we asked"),
        }
    }
}
