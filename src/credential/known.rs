//! What is known of keys and tenants, as long as it holds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    control::Error,
    tenant::{ApiKey, Directory, Quotas, Tenant},
};

/// How long a look at the revision holds: half of the second in which a decision should count.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Keys, and tenants, that are known at once: about 10 MiB. Past it all are forgotten, and read again when they are met.
const KNOWN_MAX: usize = 16_384;

/// A tenant with what it may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownTenant {
    pub tenant: Tenant,
    pub quotas: Quotas,
}

type Shared<T> = Arc<Option<T>>;

pub(super) struct Known {
    directory: Directory,
    /// When the revision was looked at, and what it was.
    revision: tokio::sync::Mutex<Option<(Instant, u64)>>,
    keys: Slots<ApiKey>,
    tenants: Slots<KnownTenant>,
}

impl Known {
    pub fn new(directory: Directory) -> Self {
        Self { directory, revision: Default::default(), keys: Slots::default(), tenants: Slots::default() }
    }

    /// A key, if there is one.
    pub async fn key(&self, id: &str) -> Result<Shared<ApiKey>, Error> {
        let revision = self.revision().await?;
        self.keys.get(id, revision, self.directory.find_key(id)).await
    }

    /// A tenant, if there is one.
    pub async fn tenant(&self, id: &str) -> Result<Shared<KnownTenant>, Error> {
        let revision = self.revision().await?;
        let read = async {
            let Some(tenant) = self.directory.find_tenant(id).await? else { return Ok(None) };
            Ok(Some(KnownTenant { tenant, quotas: self.directory.quotas(id).await? }))
        };
        self.tenants.get(id, revision, read).await
    }

    /// One look for all who ask.
    async fn revision(&self) -> Result<u64, Error> {
        let mut seen = self.revision.lock().await;
        match *seen {
            Some((at, revision)) if at.elapsed() < LOOK_EVERY => Ok(revision),
            _ => {
                let at = Instant::now();
                let revision = self.directory.revision().await?;
                *seen = Some((at, revision));
                Ok(revision)
            }
        }
    }
}

type Slot<T> = Arc<tokio::sync::Mutex<Option<(u64, Shared<T>)>>>;

struct Slots<T>(Mutex<HashMap<String, Slot<T>>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Slots<T> {
    /// What is known since that revision, else what is read now: once, however many ask.
    async fn get(
        &self,
        id: &str,
        revision: u64,
        read: impl Future<Output = Result<Option<T>, Error>>,
    ) -> Result<Shared<T>, Error> {
        let slot = self.slot(id);
        let mut held = slot.lock().await;
        if let Some((since, known)) = &*held
            && *since >= revision
            // What is not there may be made at any moment, and then is to be seen at once.
            && known.is_some()
        {
            return Ok(known.clone());
        }
        let known = Arc::new(read.await?);
        *held = Some((revision, known.clone()));
        Ok(known)
    }

    fn slot(&self, id: &str) -> Slot<T> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(id) {
            return slot.clone();
        }
        if slots.len() >= KNOWN_MAX {
            slots.clear();
        }
        slots.entry(id.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_is_known_is_read_once_per_revision() {
        let (slots, reads) = (Slots::<usize>::default(), AtomicUsize::new(0));
        let read = || async { Ok(Some(reads.fetch_add(1, Ordering::Relaxed))) };
        for _ in 0..3 {
            assert_eq!(*slots.get("a", 1, read()).await.unwrap(), Some(0));
        }
        assert_eq!(*slots.get("a", 2, read()).await.unwrap(), Some(1));
        assert_eq!(*slots.get("b", 2, read()).await.unwrap(), Some(2));
    }

    #[tokio::test]
    async fn p9_what_is_known_is_bounded() {
        let slots = Slots::<usize>::default();
        for number in 0..=KNOWN_MAX {
            slots.get(&number.to_string(), 1, async { Ok(Some(number)) }).await.unwrap();
        }
        assert!(slots.0.lock().unwrap().len() <= KNOWN_MAX);
    }
}
