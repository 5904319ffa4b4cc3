//! Where the records of this module are, below what belongs to no tenant.
//!
//! | path | value | lifetime |
//! |---|---|---|
//! | `(TENANT, tenant)` | [`super::Tenant`] | for ever |
//! | `(QUOTAS, tenant)` | [`super::Quotas`] | as the tenant |
//! | `(KEY, id)` | [`super::ApiKey`] | as the tenant; a key that is revoked stays, to say when |
//! | `(TENANT_KEY, tenant, id)` | nothing: the keys of a tenant | with the key |
//! | `(REVISION)` | how often something was changed (added to) | for ever |

use bytes::Bytes;
use cadre_cluster::{keys, store::KeyRange};
use foundationdb_tuple::{pack, unpack};

const TENANT: i64 = 1;
const QUOTAS: i64 = 2;
const KEY: i64 = 3;
const TENANT_KEY: i64 = 4;
const REVISION: i64 = 5;

/// A tenant.
pub(super) fn tenant(tenant: &str) -> Bytes {
    keys::system(&pack(&(TENANT, tenant)))
}

/// All tenants.
pub(super) fn tenants() -> KeyRange {
    keys::system_range(&pack(&(TENANT,)))
}

/// What a tenant may use.
pub(super) fn quotas(tenant: &str) -> Bytes {
    keys::system(&pack(&(QUOTAS, tenant)))
}

/// A key.
pub(super) fn key(id: &str) -> Bytes {
    keys::system(&pack(&(KEY, id)))
}

/// That a key is one of a tenant's.
pub(super) fn tenant_key(tenant: &str, id: &str) -> Bytes {
    keys::system(&pack(&(TENANT_KEY, tenant, id)))
}

/// All keys of a tenant.
pub(super) fn tenant_keys(tenant: &str) -> KeyRange {
    keys::system_range(&pack(&(TENANT_KEY, tenant)))
}

/// Which key an entry of [`tenant_keys`] is about.
pub(super) fn listed_key(key: &[u8]) -> Option<String> {
    let (_, _, id): (i64, String, String) = unpack(keys::system_path(key)?).ok()?;
    Some(id)
}

/// How often something was changed that was in force.
pub(super) fn revision() -> Bytes {
    keys::system(&pack(&(REVISION,)))
}
