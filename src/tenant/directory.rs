//! The tenants that there are, in the store.

use std::sync::Arc;

use bytes::Bytes;
use cadre_cluster::{
    clock::{Clock, Timestamp},
    codec::{self, Stored},
    store::{Attempt, KeyRange, RangeRead, Store, key_after},
};

use super::{Quotas, Tenant, check_tenant, hash::Hasher, paths};
use crate::control::{Code, Error, args::Limit};

/// The longest name that people give to a tenant or a key.
const TITLE_CHARS_MAX: usize = 200;

/// Reads and writes who may use the cluster. Cheap to clone.
#[derive(Clone)]
pub struct Directory {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) hasher: Hasher,
}

/// What of a tenant is to be another; what is not named stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// What people call it.
    pub title: Option<String>,
    /// Whether it is refused.
    pub suspended: Option<bool>,
}

impl Directory {
    /// That of a cluster.
    pub fn new(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, hasher: Hasher::default() }
    }

    /// What time it is, for whoever holds keys against it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Makes a tenant. One that is there with the same title is the answer again.
    pub async fn create_tenant(&self, id: &str, title: Option<String>) -> Result<Tenant, Error> {
        check_tenant(id)?;
        check_title("title", title.as_deref())?;
        let new = Tenant { id: id.to_owned(), title, created: self.clock.now(), suspended: None };
        let path = paths::tenant(id);
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            if let Some(known) = decoded::<Tenant>(tx.get(&path).await.map_err(unreadable)?)? {
                if known.title == new.title {
                    return Ok(known);
                }
                return Err(Error::conflict("exists", format!("there is a tenant {id} with another title")));
            }
            tx.set(path.clone(), codec::encode(&new));
            // Somebody may have been told that there is none.
            tx.add(paths::revision(), 1);
            match tx.commit().await {
                Ok(_) => return Ok(new),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }

    /// A tenant, if there is one of that name.
    pub async fn find_tenant(&self, id: &str) -> Result<Option<Tenant>, Error> {
        self.read(paths::tenant(id)).await
    }

    /// A tenant that must be there.
    pub async fn tenant(&self, id: &str) -> Result<Tenant, Error> {
        check_tenant(id)?;
        self.find_tenant(id).await?.ok_or_else(|| Error::not_found("tenant", id))
    }

    /// Tenants by name, after one of them, and whether there are more.
    pub async fn tenants(&self, after: Option<&str>, limit: Limit) -> Result<(Vec<Tenant>, bool), Error> {
        let all = paths::tenants();
        let range = match after {
            Some(after) => {
                check_tenant(after)?;
                KeyRange::new(key_after(&paths::tenant(after)), all.end)
            }
            None => all,
        };
        if range.is_empty() {
            return Ok((Vec::new(), false));
        }
        let read = RangeRead::new(range).limit(limit.get() + 1);
        let page = self.store.begin().snapshot_range(&read).await.map_err(unreadable)?;
        let tenants = page.pairs.iter().map(|pair| codec::decode(&pair.value).map_err(unreadable));
        let mut tenants = tenants.collect::<Result<Vec<Tenant>, Error>>()?;
        let more = page.more || tenants.len() > limit.get();
        tenants.truncate(limit.get());
        Ok((tenants, more))
    }

    /// Changes a tenant.
    pub async fn change_tenant(&self, id: &str, change: &Change) -> Result<Tenant, Error> {
        check_tenant(id)?;
        check_title("title", change.title.as_deref())?;
        let (path, now) = (paths::tenant(id), self.clock.now());
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let known = decoded::<Tenant>(tx.get(&path).await.map_err(unreadable)?)?;
            let mut tenant = known.ok_or_else(|| Error::not_found("tenant", id))?;
            if let Some(title) = &change.title {
                tenant.title = Some(title.clone());
            }
            match change.suspended {
                Some(true) => tenant.suspended = tenant.suspended.or(Some(now)),
                Some(false) => tenant.suspended = None,
                None => {}
            }
            tx.set(path.clone(), codec::encode(&tenant));
            tx.add(paths::revision(), 1);
            match tx.commit().await {
                Ok(_) => return Ok(tenant),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }

    /// What a tenant may use.
    pub async fn quotas(&self, tenant: &str) -> Result<Quotas, Error> {
        Ok(self.read(paths::quotas(tenant)).await?.unwrap_or_default())
    }

    /// Says what a tenant may use: all of it, what is not named is not limited.
    pub async fn set_quotas(&self, tenant: &str, quotas: Quotas) -> Result<(), Error> {
        check_tenant(tenant)?;
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            if tx.get(&paths::tenant(tenant)).await.map_err(unreadable)?.is_none() {
                return Err(Error::not_found("tenant", tenant));
            }
            tx.set(paths::quotas(tenant), codec::encode(&quotas));
            tx.add(paths::revision(), 1);
            match tx.commit().await {
                Ok(_) => return Ok(()),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }

    /// How often something was changed that was in force: as long as it stays the same, what was read holds.
    pub async fn revision(&self) -> Result<u64, Error> {
        let count = self.store.begin().snapshot_get(&paths::revision()).await.map_err(unreadable)?;
        let count = count.and_then(|bytes| Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)));
        Ok(count.unwrap_or(0))
    }

    pub(super) async fn read<T: Stored>(&self, path: Bytes) -> Result<Option<T>, Error> {
        decoded(self.store.begin().snapshot_get(&path).await.map_err(unreadable)?)
    }
}

pub(super) fn decoded<T: Stored>(bytes: Option<Bytes>) -> Result<Option<T>, Error> {
    bytes.map(|bytes| codec::decode(&bytes)).transpose().map_err(unreadable)
}

/// A name for people: short, and of one line.
pub(super) fn check_title(field: &str, title: Option<&str>) -> Result<(), Error> {
    let Some(title) = title else { return Ok(()) };
    if title.is_empty() || title.chars().count() > TITLE_CHARS_MAX || title.chars().any(char::is_control) {
        let message = format!("must be 1 to {TITLE_CHARS_MAX} characters in one line");
        return Err(Error::invalid(field, message));
    }
    Ok(())
}

/// The store cannot be read or written right now.
pub(super) fn unreadable(error: impl std::fmt::Display) -> Error {
    tracing::warn!(%error, "the store did not answer");
    Error::new(Code::Unavailable, "the store does not answer, try again")
}
