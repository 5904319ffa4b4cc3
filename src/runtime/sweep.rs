//! Removing what has expired: blobs, channels, and what is remembered of idempotency keys.
//!
//! Every node looks from time to time, tenant by tenant, and removes a bounded number of things at each look. Nobody has to
//! be elected for that, because each removal may be begun by any number of sweepers and ends once: transactions read what
//! they go by, and a blob that belongs to a session leaves the store in the session's own step, which tells of it
//! ([`crate::entity::session::Expiry`]). Whoever dies in between leaves an entry that the next look finds.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cadre_cluster::{
    address::Address,
    clock::{Clock, Timestamp},
    host::{CallError, Client},
    keys,
    store::{CommitError, KeyRange, RangeRead, Store},
};
use futures::{StreamExt, stream};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{task::JoinHandle, time::Instant};

use super::{
    channels::forget_channels,
    key::{forget_keys, own_key},
};
use crate::{
    blob::{BlobError, BlobMeta, Blobs, Due, Retention},
    control::{Code, Error},
    entity::{
        Session, kind,
        session::{Command, Expiry},
    },
    fact::id::SessionId,
};

/// Blobs of one tenant at one look. What is left is looked at again soon.
const BLOBS_MAX: usize = 1_000;
/// Entries that are read at once.
const PAGE: usize = 100;
/// Blobs that are removed side by side, so that a sweep does not keep others waiting.
const AT_ONCE: usize = 8;
/// Keys of one tenant at one look.
const KEYS_MAX: usize = 10_000;
/// Keys in one transaction.
const KEYS_PAGE: usize = 250;
/// Channels of one tenant at one look.
const CHANNELS_MAX: usize = 50;
/// How soon to look again when something was removed and something was left.
const SOON: Duration = Duration::from_millis(200);
/// How long a session may take to tell of a blob.
const TELL_MAX: Duration = Duration::from_secs(5);
/// How long one tenant may take at one look: sessions that do not answer keep no other tenant waiting.
const TENANT_MAX: Duration = Duration::from_secs(30);

/// What one look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Blobs that were removed.
    pub blobs: u64,
    /// How large they were.
    pub blob_bytes: u64,
    /// Channels that were forgotten.
    pub channels: u64,
    /// Idempotency keys that were forgotten.
    pub keys: u64,
    /// What could not be removed, and will be tried again.
    pub failures: u64,
    /// Whether there is more than one look removes.
    pub more: bool,
}

/// Whoever looks.
pub(super) struct Sweeper {
    store: Store,
    client: Client,
    clock: Arc<dyn Clock>,
    blobs: Blobs,
    every: Duration,
    /// Where to go on with tenants of which something was left, so that what cannot be removed keeps nothing else waiting.
    left_at: Mutex<HashMap<String, Due>>,
}

/// A sweeper at work. All clones are the same one.
#[derive(Clone)]
pub(super) struct Sweeping {
    sweeper: Arc<Sweeper>,
    task: Arc<Mutex<Option<Task>>>,
}

/// Ends with whoever holds it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Sweeping {
    /// Looks once.
    pub async fn sweep(&self) -> Swept {
        self.sweeper.look().await
    }

    /// Ends it; a removal that was begun is gone on with by somebody else, or at the next start.
    pub async fn stop(&self) {
        let task = locked(&self.task).take();
        if let Some(mut task) = task {
            task.0.abort();
            // Cancelled, which is no news.
            let _ = (&mut task.0).await;
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum SweepError {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error("its session could not be told: {0}")]
    Tell(#[from] CallError<Error>),
    #[error("its session has no address")]
    Address,
}

impl Sweeper {
    pub fn new(
        (store, clock): (Store, Arc<dyn Clock>),
        client: Client,
        blobs: Blobs,
        retention: Retention,
    ) -> Self {
        Self { store, client, clock, blobs, every: retention.sweep_every(), left_at: Mutex::default() }
    }

    /// Looks when it is told to.
    pub fn idle(self) -> Sweeping {
        Sweeping { sweeper: Arc::new(self), task: Arc::default() }
    }

    /// Looks from time to time, until it is stopped.
    pub fn start(self, seed: u64) -> Sweeping {
        let sweeper = Arc::new(self);
        let (looking, mut dice) = (sweeper.clone(), StdRng::seed_from_u64(seed ^ 0x5eeb));
        let task = tokio::spawn(async move {
            let mut pause = looking.every;
            loop {
                // Nodes that were started together do not look together.
                tokio::time::sleep(pause.mul_f64(dice.random_range(0.75..1.0))).await;
                let swept = looking.look().await;
                let soon = swept.more && swept.blobs + swept.keys + swept.channels > 0;
                pause = if soon { looking.every.min(SOON) } else { looking.every };
            }
        });
        Sweeping { sweeper, task: Arc::new(Mutex::new(Some(Task(task)))) }
    }

    /// Goes through all tenants once.
    async fn look(&self) -> Swept {
        let mut swept = Swept::default();
        let mut rest = keys::tenants();
        loop {
            let first = self.store.begin().snapshot_range(&RangeRead::new(rest.clone()).limit(1)).await;
            let tenant = match first {
                Ok(page) => page.pairs.first().and_then(|pair| keys::tenant_of(&pair.key)),
                Err(error) => {
                    tracing::warn!(%error, "cannot look for what has expired");
                    swept.failures += 1;
                    None
                }
            };
            let Some(tenant) = tenant else { break };
            self.sweep_blobs(&tenant, &mut swept).await;
            self.sweep_keys(&tenant, &mut swept).await;
            self.sweep_channels(&tenant, &mut swept).await;
            rest = KeyRange::new(keys::tenant(&tenant).end, rest.end);
        }
        metrics::counter!("cadre_blobs_expired_total").increment(swept.blobs);
        metrics::counter!("cadre_blobs_expired_bytes_total").increment(swept.blob_bytes);
        metrics::counter!("cadre_idempotency_keys_expired_total").increment(swept.keys);
        metrics::counter!("cadre_channels_forgotten_total").increment(swept.channels);
        metrics::counter!("cadre_sweep_failures_total").increment(swept.failures);
        swept
    }

    async fn sweep_blobs(&self, tenant: &str, swept: &mut Swept) {
        let until = Instant::now() + TENANT_MAX;
        let (mut seen, mut after) = (0, locked(&self.left_at).remove(tenant));
        loop {
            let due = match self.blobs.due(tenant, after.as_ref(), PAGE).await {
                Ok(due) => due,
                Err(error) => {
                    tracing::warn!(tenant, %error, "cannot look for blobs that have expired");
                    swept.failures += 1;
                    return;
                }
            };
            let Some(last) = due.last() else { return };
            if let Some(after) = after.take_if(|_| seen >= BLOBS_MAX || Instant::now() > until) {
                locked(&self.left_at).insert(tenant.to_owned(), after);
                swept.more = true;
                return;
            }
            seen += due.len();
            // Those that fail are passed by until the next time.
            after = Some(last.clone());
            let mut removed = stream::iter(due)
                .map(|due| async move { (self.remove(tenant, &due).await, due) })
                .buffer_unordered(AT_ONCE);
            while let Some((removed, due)) = removed.next().await {
                match removed {
                    Ok(Some(bytes)) => {
                        swept.blobs += 1;
                        swept.blob_bytes += bytes;
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(tenant, blob = %due.blob, %error, "a blob that has expired is still there");
                        swept.failures += 1;
                    }
                }
            }
        }
    }

    /// Removes a blob. How large it was, unless it was somebody else who removed it.
    async fn remove(&self, tenant: &str, due: &Due) -> Result<Option<u64>, SweepError> {
        let seen = self.clock.now();
        let Some(meta) = self.blobs.claim(tenant, due).await? else { return Ok(None) };
        self.blobs.empty(tenant, due, &meta).await?;
        let size = meta.size_bytes;
        let removed = match meta.session.clone() {
            Some(session) => self.tell(tenant, due, &session, meta, seen).await?,
            None => self.blobs.forget(tenant, due).await?,
        };
        Ok(removed.then_some(size))
    }

    async fn tell(
        &self,
        tenant: &str,
        due: &Due,
        session: &SessionId,
        meta: BlobMeta,
        seen: Timestamp,
    ) -> Result<bool, SweepError> {
        let address = Address::new(tenant, kind::SESSION, session.as_str());
        let address = address.map_err(|_| SweepError::Address)?;
        let BlobMeta { size_bytes, hash, about, .. } = meta;
        let Due { at, blob } = due.clone();
        let key = key(due);
        let command = Command::Expire(Expiry { blob, at, size_bytes, hash, about, seen });
        match self.client.call::<Session>(&address, &command, Some(&key), TELL_MAX).await {
            Ok(_) => Ok(true),
            // Another sweeper has asked for it.
            Err(CallError::KeyReused) => Ok(false),
            // There is nobody to tell: what it was written for was never begun.
            Err(CallError::Refused(refusal)) if refusal.code == Code::NotFound => {
                Ok(self.blobs.forget(tenant, due).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn sweep_channels(&self, tenant: &str, swept: &mut Swept) {
        let now = self.clock.now();
        match forget_channels(&self.store, &self.client, tenant, now, CHANNELS_MAX).await {
            Ok(count) => {
                swept.channels += count as u64;
                swept.more |= count == CHANNELS_MAX;
            }
            Err(error) => {
                tracing::warn!(tenant, %error, "channels that have expired are still known");
                swept.failures += 1;
            }
        }
    }

    async fn sweep_keys(&self, tenant: &str, swept: &mut Swept) {
        for _ in 0..KEYS_MAX / KEYS_PAGE {
            let forgotten: Result<usize, CommitError> =
                forget_keys(&self.store, tenant, self.clock.now(), KEYS_PAGE).await;
            match forgotten {
                Ok(0) => return,
                Ok(count) => swept.keys += count as u64,
                Err(error) => {
                    tracing::warn!(tenant, %error, "keys that have expired are still there");
                    swept.failures += 1;
                    return;
                }
            }
        }
        swept.more = true;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same for every sweeper, and another for a blob that was written anew under its name.
fn key(due: &Due) -> String {
    let base = format!("{}/{}", due.blob, due.at.0);
    own_key(format_args!("expired.{:032x}", xxhash_rust::xxh3::xxh3_128(base.as_bytes())))
}
