//! The local driver: a bus within one process, for one node on one machine.
//!
//! Delivery is a push into the subscriber's queue, in the order of publication. A queue is bounded: what does
//! not fit is lost and counted (`cadre_bus_dropped_total`).

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    DEFAULT_MAX_PAYLOAD, DEFAULT_QUEUE_CAPACITY, Delivery, Driver, Headers, PublishError, Reply,
    RequestError, Subject, SubscribeError, Subscription, interest::Interest, metrics, millis,
};

/// A bus within this process. Clones are the same bus; it ends with the last of them.
#[derive(Debug, Clone)]
pub struct LocalBus(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    max_payload: usize,
    queue_capacity: usize,
    ids: AtomicU64,
    interest: RwLock<Interest<mpsc::Sender<Delivery>>>,
}

/// Where the first of several answers goes.
type AnswerSlot = Arc<Mutex<Option<oneshot::Sender<Bytes>>>>;

/// What became of a message, by number of subscriptions.
#[derive(Debug, Default)]
struct Spread {
    taken: usize,
    lost: usize,
}

impl LocalBus {
    /// A bus with the usual bounds.
    pub fn new() -> Self {
        Self::with_bounds(DEFAULT_MAX_PAYLOAD, DEFAULT_QUEUE_CAPACITY)
    }

    /// A bus that takes payloads of at most `max_payload` bytes and holds at most `queue_capacity` messages
    /// for a subscription.
    ///
    /// # Panics
    /// When a subscription could hold nothing.
    pub fn with_bounds(max_payload: usize, queue_capacity: usize) -> Self {
        assert!(queue_capacity > 0, "a subscription holds at least one message");
        Self(Arc::new(Inner {
            max_payload,
            queue_capacity,
            ids: AtomicU64::new(0),
            interest: RwLock::default(),
        }))
    }

    fn spread(
        &self,
        subject: &Subject,
        headers: &Headers,
        payload: &Bytes,
        answers: Option<&AnswerSlot>,
    ) -> Spread {
        let mut spread = Spread::default();
        self.0.interest().visit(subject, |queue| {
            let delivery = Delivery {
                subject: subject.clone(),
                headers: headers.clone(),
                payload: payload.clone(),
                reply: answers.map(|slot| reply_into(slot.clone(), self.0.max_payload)),
            };
            match queue.try_send(delivery) {
                Ok(()) => spread.taken += 1,
                Err(TrySendError::Full(_)) => spread.lost += 1,
                Err(TrySendError::Closed(_)) => {}
            }
        });
        if spread.lost > 0 {
            metrics::dropped(NAME, spread.lost as u64);
            tracing::debug!(%subject, subscriptions = spread.lost, "message dropped: queue is full");
        }
        spread
    }
}

impl Default for LocalBus {
    fn default() -> Self {
        Self::new()
    }
}

const NAME: &str = "local";

fn check_size(payload: &Bytes, limit: usize) -> Result<(), PublishError> {
    if payload.len() > limit {
        return Err(PublishError::TooLarge { limit, actual: payload.len() });
    }
    Ok(())
}

fn reply_into(slot: AnswerSlot, limit: usize) -> Reply {
    Reply::new(move |payload| {
        Box::pin(async move {
            check_size(&payload, limit)?;
            if let Some(answer) = slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                // Whoever asked may have gone.
                let _ = answer.send(payload);
            }
            Ok(())
        })
    })
}

#[async_trait]
impl Driver for LocalBus {
    fn name(&self) -> &'static str {
        NAME
    }

    fn max_payload(&self) -> usize {
        self.0.max_payload
    }

    async fn publish(&self, subject: &Subject, headers: Headers, payload: Bytes) -> Result<(), PublishError> {
        check_size(&payload, self.0.max_payload)?;
        self.spread(subject, &headers, &payload, None);
        Ok(())
    }

    async fn request(
        &self,
        subject: &Subject,
        headers: Headers,
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, RequestError> {
        check_size(&payload, self.0.max_payload)?;
        let deadline = Instant::now() + timeout;
        let (answer, answered) = oneshot::channel();
        let slot = Arc::new(Mutex::new(Some(answer)));
        let spread = self.spread(subject, &headers, &payload, Some(&slot));
        drop(slot);
        let outcome = if spread.taken == 0 && spread.lost == 0 {
            Err(RequestError::NoResponders { subject: subject.to_string() })
        } else {
            match timeout_at(deadline, answered).await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(_)) => {
                    // Nobody is left to answer. Over a network that would not show before the timeout; here
                    // it does not either, so that nobody comes to rely on it.
                    sleep_until(deadline).await;
                    Err(RequestError::TimedOut { timeout_ms: millis(timeout) })
                }
                Err(_) => Err(RequestError::TimedOut { timeout_ms: millis(timeout) }),
            }
        };
        metrics::requested(NAME, &outcome);
        outcome
    }

    async fn subscribe(&self, subject: &Subject) -> Result<Box<dyn Subscription>, SubscribeError> {
        let id = self.0.ids.fetch_add(1, Ordering::Relaxed);
        let (queue, deliveries) = mpsc::channel(self.0.queue_capacity);
        self.0.interest_mut().insert(subject, id, queue);
        Ok(Box::new(LocalSubscription {
            id,
            pattern: subject.clone(),
            bus: Arc::downgrade(&self.0),
            deliveries,
        }))
    }
}

impl Inner {
    fn interest(&self) -> RwLockReadGuard<'_, Interest<mpsc::Sender<Delivery>>> {
        self.interest.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn interest_mut(&self) -> RwLockWriteGuard<'_, Interest<mpsc::Sender<Delivery>>> {
        self.interest.write().unwrap_or_else(PoisonError::into_inner)
    }
}

struct LocalSubscription {
    id: u64,
    pattern: Subject,
    bus: Weak<Inner>,
    deliveries: mpsc::Receiver<Delivery>,
}

#[async_trait]
impl Subscription for LocalSubscription {
    async fn next(&mut self) -> Option<Delivery> {
        self.deliveries.recv().await
    }

    async fn close(&mut self) {
        self.end();
    }
}

impl Drop for LocalSubscription {
    fn drop(&mut self) {
        self.end();
    }
}

impl LocalSubscription {
    fn end(&self) {
        if let Some(bus) = self.bus.upgrade() {
            bus.interest_mut().remove(&self.pattern, self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use ::metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
        set_default_local_recorder,
    };

    use super::*;
    use crate::bus::conformance::Pair;

    fn pair() -> Pair {
        let bus = LocalBus::with_bounds(DEFAULT_MAX_PAYLOAD, 64);
        Pair { one: Arc::new(bus.clone()), other: Arc::new(bus), queue_capacity: 64 }
    }

    crate::bus_conformance!(pair(), start_paused = true);

    /// Counts every increment of any counter.
    #[derive(Default)]
    struct Tally(Arc<AtomicU64>);

    impl Recorder for Tally {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            assert_eq!(key.name(), "cadre_bus_dropped_total");
            Counter::from_arc(self.0.clone())
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[tokio::test]
    async fn what_a_full_queue_loses_is_counted() {
        let (bus, tally) = (LocalBus::with_bounds(DEFAULT_MAX_PAYLOAD, 2), Tally::default());
        let _recording = set_default_local_recorder(&tally);
        let _slow = bus.subscribe(&Subject::from_wire("a")).await.unwrap();
        for _ in 0..5 {
            bus.publish(&Subject::from_wire("a"), Headers::default(), Bytes::new()).await.unwrap();
        }
        assert_eq!(tally.0.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn the_end_of_the_bus_ends_its_subscriptions() {
        let bus = LocalBus::new();
        let mut subscription = bus.subscribe(&Subject::from_wire("a")).await.unwrap();
        bus.publish(&Subject::from_wire("a"), Headers::default(), Bytes::new()).await.unwrap();
        drop(bus);
        assert!(subscription.next().await.is_some());
        assert!(subscription.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_oversized_answer_is_refused_and_the_request_times_out() {
        let bus = LocalBus::with_bounds(4, 1);
        let mut subscription = bus.subscribe(&Subject::from_wire("a")).await.unwrap();
        let asked = tokio::spawn({
            let bus = bus.clone();
            async move {
                let second = Duration::from_secs(1);
                bus.request(&Subject::from_wire("a"), Headers::default(), Bytes::new(), second).await
            }
        });
        let reply = subscription.next().await.unwrap().reply.unwrap();
        assert_eq!(
            reply.send(Bytes::from_static(b"12345")).await,
            Err(PublishError::TooLarge { limit: 4, actual: 5 })
        );
        assert_eq!(asked.await.unwrap(), Err(RequestError::TimedOut { timeout_ms: 1000 }));
    }
}
