//! Tenants, their keys and their quotas: who may use the cluster, kept where all nodes see it.
//!
//! A tenant is a name below which everything of one customer lives. Its keys are what programs show to be let in: of a
//! key only an argon2id hash is kept, and its text is said once, when it is made. What is taken away (a key that is
//! revoked, a tenant that is suspended, a lower quota) raises one revision in the same transaction. Every gateway looks at
//! that revision twice a second, and so a decision counts everywhere within a second, at the price of one small read and
//! not of one for every channel.
//!
//! These records belong to no tenant's data: no command and no feed leads to them.

mod directory;
mod hash;
mod keys;
mod paths;
mod quotas;
mod record;
mod scopes;
mod token;

pub(crate) use self::token::{Presented, digest};
pub use self::{
    directory::{Change, Directory},
    keys::{KEYS_MAX, NewKey},
    quotas::Quotas,
    record::{ApiKey, Standing, Tenant},
    scopes::Scopes,
    token::Token,
};

use crate::control::Error;

/// Those who run the cluster: their keys with the scope `admin` manage all tenants. It has no data of its own.
pub const OPERATOR: &str = "operator";
/// Whose everything is on a machine of one's own, without credentials.
pub const LOCAL: &str = "local";
/// The longest name of a tenant: it is part of every key in the store.
pub const TENANT_LEN_MAX: usize = 64;

/// Whether a text can name a tenant.
pub fn check_tenant(text: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let allowed = |byte: u8| plain(byte) || matches!(byte, b'-' | b'_' | b'.');
    let is_name = (1..=TENANT_LEN_MAX).contains(&text.len())
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(allowed);
    if is_name {
        return Ok(());
    }
    let message =
        format!("must be 1 to {TENANT_LEN_MAX} characters of a-z 0-9 . _ - and begin with a letter or digit");
    Err(Error::invalid("tenantId", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_a_plain_name() {
        for name in ["local", "operator", "acme", "acme-eu.1", "7", &"a".repeat(64)] {
            assert_eq!(check_tenant(name), Ok(()), "{name}");
        }
        for name in ["", "Acme", "-acme", ".acme", "a/b", "a b", "ä", "a\0", &"a".repeat(65)] {
            assert_eq!(check_tenant(name).unwrap_err().field(), Some("tenantId"), "{name}");
        }
    }
}
