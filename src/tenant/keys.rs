//! Keys: made, found, taken back, replaced.

use std::time::Duration;

use bytes::Bytes;
use cadre_cluster::{
    clock::Timestamp,
    codec,
    store::{Attempt, KeyRange, RangeRead, key_after},
};

use super::{
    ApiKey, Directory, Scopes, Tenant, Token, check_tenant,
    directory::{check_title, decoded, unreadable},
    hash::Busy,
    paths,
    record::Standing,
    token,
};
use crate::control::{Error, Scope, args::Limit};

/// Keys of one tenant, those that were revoked included.
pub const KEYS_MAX: usize = 1_000;

/// What a key is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// What facts call whoever uses it.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// Until when.
    pub expires: Option<Timestamp>,
}

impl Directory {
    /// Makes a key. Its text is in the answer and nowhere else.
    pub async fn create_key(&self, tenant: &str, new: NewKey) -> Result<(ApiKey, Token), Error> {
        check_tenant(tenant)?;
        check_title("name", Some(&new.name))?;
        let now = self.clock.now();
        if new.expires.is_some_and(|expires| expires <= now) {
            return Err(Error::invalid("expiresAt", "must be in the future"));
        }
        if new.scopes.has(Scope::Admin) && tenant != super::OPERATOR {
            let message = format!("admin is for keys of the tenant {}", super::OPERATOR);
            return Err(Error::invalid("scopes", message));
        }
        // Before the work: most mistakes are names.
        self.tenant(tenant).await?;
        let token = Token::make().map_err(|error| Error::unavailable(format!("no randomness: {error}")))?;
        let hash = self.hasher.hash(token.secret()).await?;
        let NewKey { name, scopes, expires } = new;
        let (id, tenant) = (token.id().to_owned(), tenant.to_owned());
        let key = ApiKey { id, tenant, name, scopes, hash, created: now, expires, revoked: None };
        self.write_key(&key).await?;
        Ok((key, token))
    }

    async fn write_key(&self, key: &ApiKey) -> Result<(), Error> {
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let tenant = tx.get(&paths::tenant(&key.tenant)).await.map_err(unreadable)?;
            decoded::<Tenant>(tenant)?.ok_or_else(|| Error::not_found("tenant", &key.tenant))?;
            let listed = RangeRead::new(paths::tenant_keys(&key.tenant)).limit(KEYS_MAX);
            if tx.range(&listed).await.map_err(unreadable)?.pairs.len() >= KEYS_MAX {
                let message = format!("a tenant has at most {KEYS_MAX} keys, revoked ones included");
                return Err(Error::conflict("full", message));
            }
            tx.set(paths::key(&key.id), codec::encode(key));
            tx.set(paths::tenant_key(&key.tenant, &key.id), Bytes::new());
            match tx.commit().await {
                Ok(_) => return Ok(()),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }

    /// A key, whosever it is.
    pub async fn find_key(&self, id: &str) -> Result<Option<ApiKey>, Error> {
        self.read(paths::key(id)).await
    }

    /// Whether somebody knows the secret of a key; of an unknown one nobody does, which takes as long to say.
    pub(crate) async fn verify(&self, key: Option<&ApiKey>, secret: &str) -> Result<bool, Busy> {
        self.hasher.verify(secret, key.map(|key| key.hash.clone())).await
    }

    /// A key of a tenant.
    pub async fn key(&self, tenant: &str, id: &str) -> Result<ApiKey, Error> {
        let missing = || Error::not_found("key", id.chars().take(64).collect::<String>());
        self.tenant(tenant).await?;
        if !token::is_id(id) {
            return Err(missing());
        }
        self.find_key(id).await?.filter(|key| key.tenant == tenant).ok_or_else(missing)
    }

    /// The keys of a tenant, after one of them, and whether there are more.
    pub async fn keys(
        &self,
        tenant: &str,
        after: Option<&str>,
        limit: Limit,
    ) -> Result<(Vec<ApiKey>, bool), Error> {
        self.tenant(tenant).await?;
        let all = paths::tenant_keys(tenant);
        let range = match after {
            Some(after) if token::is_id(after) => {
                KeyRange::new(key_after(&paths::tenant_key(tenant, after)), all.end)
            }
            Some(_) => return Err(Error::invalid("after", "must be the id of a key")),
            None => all,
        };
        if range.is_empty() {
            return Ok((Vec::new(), false));
        }
        let tx = self.store.begin();
        let read = RangeRead::new(range).limit(limit.get() + 1);
        let page = tx.snapshot_range(&read).await.map_err(unreadable)?;
        let more = page.more || page.pairs.len() > limit.get();
        let mut keys = Vec::new();
        for id in page.pairs.iter().take(limit.get()).filter_map(|pair| paths::listed_key(&pair.key)) {
            keys.extend(decoded::<ApiKey>(tx.snapshot_get(&paths::key(&id)).await.map_err(unreadable)?)?);
        }
        Ok((keys, more))
    }

    /// Takes a key back. Asked again, it says since when.
    pub async fn revoke_key(&self, tenant: &str, id: &str) -> Result<ApiKey, Error> {
        let now = self.clock.now();
        self.change_key(tenant, id, |key| key.revoked = key.revoked.or(Some(now))).await
    }

    /// Replaces a key by one of the same name, scopes and end. The old one is good for `grace` more, so that whoever
    /// uses it can be given the new one.
    pub async fn rotate_key(
        &self,
        tenant: &str,
        id: &str,
        grace: Duration,
    ) -> Result<(ApiKey, Token), Error> {
        let old = self.key(tenant, id).await?;
        let now = self.clock.now();
        if old.standing(now) != Standing::Active {
            let status = old.standing(now).as_str();
            return Err(Error::conflict(status, format!("key {id} is {status}; make a new one")));
        }
        let new = NewKey { name: old.name, scopes: old.scopes, expires: old.expires };
        let (key, token) = self.create_key(tenant, new).await?;
        let end = now.after(grace);
        self.change_key(tenant, id, |old| {
            if grace.is_zero() {
                old.revoked = old.revoked.or(Some(now));
            } else {
                old.expires = Some(old.expires.map_or(end, |expires| expires.min(end)));
            }
        })
        .await?;
        Ok((key, token))
    }

    async fn change_key(
        &self,
        tenant: &str,
        id: &str,
        change: impl Fn(&mut ApiKey),
    ) -> Result<ApiKey, Error> {
        self.key(tenant, id).await?;
        let path = paths::key(id);
        let mut attempt = Attempt::idempotent();
        loop {
            let mut tx = self.store.begin();
            let known = decoded::<ApiKey>(tx.get(&path).await.map_err(unreadable)?)?;
            let mut key = known.ok_or_else(|| Error::not_found("key", id))?;
            change(&mut key);
            tx.set(path.clone(), codec::encode(&key));
            tx.add(paths::revision(), 1);
            match tx.commit().await {
                Ok(_) => return Ok(key),
                Err(error) => attempt.again(error).await.map_err(unreadable)?,
            }
        }
    }
}

impl From<Busy> for Error {
    fn from(busy: Busy) -> Self {
        Self::rate_limited(1_000, busy.to_string())
    }
}
