//! Who is let in: from what somebody shows to a [`Caller`].
//!
//! A key is checked against its hash when it is first shown; after that, a digest of its text stands for it in memory. That it has
//! not been taken back is another question, asked every time: what was read of a key and its tenant holds as long as the
//! revision of the [directory](crate::tenant) stays the same, and that is looked at twice a second. So a key that is
//! revoked, has expired, or whose tenant is suspended is refused within a second, on open channels too
//! ([`Credentials::check`]), and an idle gateway reads nothing.
//!
//! Whatever is wrong with a credential, the answer is the same: which ids there are, and which keys there once were, is
//! nobody's business who does not have them.

mod access;
mod known;
mod signed;
mod verified;

use std::sync::Arc;

use cadre_cluster::clock::Timestamp;

pub use self::{
    access::{Access, AdminToken, Trust, WeakToken},
    signed::{InsecureSource, Issuer, KeySource},
};
use self::{known::Known, signed::Verifier, verified::Verified};
use crate::{
    control::{Code, Error, Scope},
    runtime::{Caller, Credential},
    tenant::{ApiKey, Directory, OPERATOR, Presented, Quotas, Scopes, Standing, Tenant, digest},
};

/// Longer than any token that an identity provider gives.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// Whoever checks credentials. Cheap to clone.
#[derive(Clone)]
pub struct Credentials(Arc<Inner>);

struct Inner {
    directory: Directory,
    access: Access,
    known: Known,
    verified: Verified,
    signed: Option<Verifier>,
}

impl Credentials {
    /// For a gateway with this directory.
    pub fn new(directory: Directory, access: Access) -> Self {
        let known = Known::new(directory.clone());
        let signed = match &access {
            Access::Required(Trust { signed: Some(issuer), .. }) => Some(Verifier::new(issuer.clone())),
            Access::Required(_) | Access::Open => None,
        };
        Self(Arc::new(Inner { directory, access, known, verified: Verified::default(), signed }))
    }

    /// Whether everybody who comes is let in.
    pub fn is_open(&self) -> bool {
        matches!(self.0.access, Access::Open)
    }

    /// Who shows this.
    pub async fn authenticate(&self, token: Option<&str>) -> Result<Caller, Error> {
        let caller = match (&self.0.access, token) {
            (Access::Open, _) => return Ok(Caller::local()),
            (Access::Required(_), None) => Err(missing()),
            (Access::Required(trust), Some(token)) => self.of_token(trust, token).await,
        };
        if let Err(error) = &caller {
            metrics::counter!("cadre_credentials_refused_total", "code" => error.code.as_str()).increment(1);
        }
        caller
    }

    /// Whether somebody who was let in still would be: for what stays open, every second or two. It costs a look into
    /// memory, and a small read when something has changed.
    pub async fn check(&self, caller: &Caller) -> Result<(), Error> {
        let ended = |why: &str| Err(Error::unauthorized(format!("the credential {why}")).with("reason", why));
        let expired = |expires: Option<Timestamp>| expires.is_some_and(|at| at <= self.0.directory.now());
        match &caller.credential {
            Credential::None | Credential::Configured => return Ok(()),
            _ if expired(caller.expires) => return ended("expired"),
            Credential::Key(id) => {
                let key = self.0.known.key(id).await?;
                match key.as_ref().as_ref().map(|key| key.standing(self.0.directory.now())) {
                    Some(Standing::Active) => {}
                    Some(Standing::Expired) => return ended("expired"),
                    Some(Standing::Revoked) | None => return ended("revoked"),
                }
            }
            Credential::Signed { .. } => {}
        }
        self.tenant(&caller.tenant).await.map(drop)
    }

    /// What a tenant may use.
    pub async fn quotas(&self, tenant: &str) -> Result<Quotas, Error> {
        Ok(self
            .0
            .known
            .tenant(tenant)
            .await?
            .as_ref()
            .as_ref()
            .map_or_else(Quotas::default, |known| known.quotas))
    }

    async fn of_token(&self, trust: &Trust, token: &str) -> Result<Caller, Error> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(bad());
        }
        if trust.administrator.as_ref().is_some_and(|administrator| administrator.is(token)) {
            return Ok(administrator());
        }
        match Presented::parse(token) {
            Some(presented) => self.of_key(&presented, token).await,
            None => self.of_signature(token).await,
        }
    }

    async fn of_key(&self, presented: &Presented<'_>, token: &str) -> Result<Caller, Error> {
        let Inner { directory, known, verified, .. } = &*self.0;
        let digest = digest(token);
        if let Some(hash) = verified.get(&digest) {
            let key = known.key(presented.id).await?;
            if let Some(key) = key.as_ref().as_ref().filter(|key| key.hash == hash) {
                return self.of_record(key).await;
            }
        }
        // Unknown ids are read and hashed like known ones: see `tenant::hash`.
        let key = directory.find_key(presented.id).await?;
        let is_right = directory.verify(key.as_ref(), presented.secret).await?;
        let key = key.filter(|_| is_right).ok_or_else(bad)?;
        verified.insert(digest, key.hash.clone());
        self.of_record(&key).await
    }

    async fn of_signature(&self, token: &str) -> Result<Caller, Error> {
        let signed = self.0.signed.as_ref().ok_or_else(bad)?;
        let caller = signed.verify(token, self.0.directory.now()).await?;
        self.tenant(&caller.tenant).await?;
        Ok(caller)
    }

    async fn of_record(&self, key: &ApiKey) -> Result<Caller, Error> {
        if key.standing(self.0.directory.now()) != Standing::Active {
            return Err(bad());
        }
        self.tenant(&key.tenant).await?;
        Ok(Caller {
            tenant: key.tenant.clone(),
            name: key.name.clone(),
            scopes: key.scopes,
            credential: Credential::Key(key.id.clone()),
            expires: key.expires,
        })
    }

    /// A tenant that is let in.
    async fn tenant(&self, tenant: &str) -> Result<Tenant, Error> {
        let known = self.0.known.tenant(tenant).await?;
        let known = known.as_ref().as_ref().ok_or_else(bad)?;
        match known.tenant.suspended {
            None => Ok(known.tenant.clone()),
            Some(_) => {
                let message = "the tenant is suspended: ask whoever runs this cluster";
                Err(Error::new(Code::Forbidden, message).with("status", "suspended"))
            }
        }
    }
}

fn administrator() -> Caller {
    Caller {
        tenant: OPERATOR.into(),
        name: "administrator".into(),
        scopes: Scopes::NONE.with(Scope::Admin),
        credential: Credential::Configured,
        expires: None,
    }
}

/// Nothing was shown.
fn missing() -> Error {
    Error::unauthorized("this needs a credential: Authorization: Bearer KEY")
}

/// What was shown is no credential, or no longer one.
pub(crate) fn bad() -> Error {
    Error::unauthorized("the credential is not valid")
}
