//! Who asks.

use cadre_cluster::clock::Timestamp;

use crate::{
    control::{Error, Scope},
    tenant::{self, Scopes},
};

/// Somebody who may ask something. The tenant comes from the credential alone (P8).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose data it is about.
    pub tenant: String,
    /// Who it is, as facts say it: `api`, `cli`, a key's name.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// By what it was let in.
    pub credential: Credential,
    /// Until when that holds, if there is an end.
    pub expires: Option<Timestamp>,
}

/// By what somebody was let in. Nothing of it is secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// By nothing: on a machine of one's own, or within this process.
    None,
    /// By the token that is configured for the first administrator.
    Configured,
    /// By the key with that id.
    Key(String),
    /// By a signed token.
    Signed {
        /// Who has signed it.
        issuer: String,
        /// Whom it is about.
        subject: String,
    },
}

impl Caller {
    /// On a machine of one's own, without credentials.
    pub fn local() -> Self {
        Self::within(tenant::LOCAL, tenant::LOCAL)
    }

    /// Within this process, where nobody asks for credentials.
    pub fn within(tenant: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            tenant: tenant.into(),
            name: name.into(),
            scopes: Scopes::ALL,
            credential: Credential::None,
            expires: None,
        }
    }

    /// That it may do something.
    pub fn require(&self, scope: Scope) -> Result<(), Error> {
        if self.scopes.has(scope) { Ok(()) } else { Err(Error::forbidden(scope)) }
    }

    /// That it may manage tenants: the scope alone does not do, it must be one of those who run the cluster.
    pub fn require_operator(&self) -> Result<(), Error> {
        self.require(Scope::Admin)?;
        if self.tenant == tenant::OPERATOR || self.credential == Credential::None {
            return Ok(());
        }
        Err(Error::forbidden(Scope::Admin))
    }
}
