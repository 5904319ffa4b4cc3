//! Who holds which channel here.
//!
//! A channel that is taken up anywhere is told of on the bus. Whoever has an older generation of it here ends. A message
//! that is lost costs nothing but time: the older one cannot write anything for the channel, and finds out when it tries.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use cadre_cluster::bus::{Delivery, unescape_token};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    control::Error,
    fact::id::ChannelId,
    runtime::{
        Runtime,
        channels::{Hold, all_taken_subjects},
        reader::Bell,
    },
};

/// Channels in one gateway. An idle one takes some 20 KiB.
const OPEN_MAX: usize = 50_000;

/// Why a connection has to end.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::http) enum Ending {
    /// Somebody else has the channel.
    TakenOver,
    /// The gateway stops.
    Draining,
}

/// Tells a connection that it has to end.
#[derive(Debug, Default)]
pub(super) struct Notice {
    ending: OnceLock<Ending>,
    /// Rings for whatever a connection waits for.
    pub bell: Arc<Bell>,
}

impl Notice {
    pub(super) fn ending(&self) -> Option<&Ending> {
        self.ending.get()
    }

    fn give(&self, ending: Ending) {
        // The first reason counts.
        let _ = self.ending.set(ending);
        self.bell.notify_one();
    }
}

/// By tenant and channel: which generation, and how to tell it something.
type Open = HashMap<(String, ChannelId), (u64, Arc<Notice>)>;

/// All connections of a gateway. Cheap to clone.
#[derive(Clone)]
pub(in crate::http) struct Holders {
    open: Arc<Mutex<Open>>,
    places: Arc<Semaphore>,
}

impl Holders {
    pub(in crate::http) fn new() -> Self {
        Self { open: Arc::default(), places: Arc::new(Semaphore::new(OPEN_MAX)) }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more connection.
    pub(super) fn admit(&self) -> Result<OwnedSemaphorePermit, Error> {
        let place = self.places.clone().try_acquire_owned();
        place.map_err(|_| Error::rate_limited(5_000, format!("this gateway has its {OPEN_MAX} channels")))
    }

    /// A connection holds a channel now. Who held an older generation of it ends.
    pub(super) fn hold(&self, tenant: &str, hold: &Hold, notice: &Arc<Notice>) -> Held {
        let key = (tenant.to_owned(), hold.channel.clone());
        let mut open = self.open();
        match open.get(&key) {
            Some((generation, _)) if *generation > hold.generation => notice.give(Ending::TakenOver),
            _ => {
                if let Some((_, former)) = open.insert(key.clone(), (hold.generation, notice.clone())) {
                    former.give(Ending::TakenOver);
                }
            }
        }
        Held { holders: self.clone(), key, generation: hold.generation }
    }

    fn taken(&self, tenant: String, channel: ChannelId, generation: u64) {
        let open = self.open();
        if let Some((held, notice)) = open.get(&(tenant, channel))
            && *held < generation
        {
            notice.give(Ending::TakenOver);
        }
    }

    /// All connections end. When this returns they have said goodbye.
    pub(in crate::http) async fn drain(&self) {
        loop {
            for (_, notice) in self.open().values() {
                notice.give(Ending::Draining);
            }
            if self.places.available_permits() == OPEN_MAX {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Listens for channels that are taken up elsewhere, for as long as the bus is there.
    pub(in crate::http) async fn listen(&self, runtime: &Runtime) {
        let (bus, cluster) = runtime.bus();
        let subject = all_taken_subjects(cluster);
        loop {
            match bus.subscribe(&subject).await {
                Ok(mut taken) => {
                    while let Some(delivery) = taken.next().await {
                        if let Some((tenant, channel, generation)) = read(&delivery) {
                            self.taken(tenant, channel, generation);
                        }
                    }
                }
                Err(error) => tracing::debug!(%error, "nobody says which channels are taken up elsewhere"),
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    }
}

fn read(delivery: &Delivery) -> Option<(String, ChannelId, u64)> {
    let mut tokens = delivery.subject.tokens().skip(3);
    let tenant = unescape_token(tokens.next()?)?;
    let channel = ChannelId::parse(&unescape_token(tokens.next()?)?).ok()?;
    Some((tenant, channel, std::str::from_utf8(&delivery.payload).ok()?.parse().ok()?))
}

/// That a connection holds a channel; dropped, it holds it no more.
pub(super) struct Held {
    holders: Holders,
    key: (String, ChannelId),
    generation: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut open = self.holders.open();
        if open.get(&self.key).is_some_and(|(generation, _)| *generation == self.generation) {
            open.remove(&self.key);
        }
    }
}
