//! The store: serializable optimistic transactions over ordered keys.
//!
//! The interface is shaped like FoundationDB, because that is what a cluster runs on, and every driver has
//! to answer like it: a transaction reads at one version throughout, sees its own writes, and commits only
//! if nothing it read has changed since. What all drivers share (read-your-writes, conflict tracking,
//! limits) lives here in [`Transaction`]; a driver only reads at a version and commits a list of
//! mutations, so there is little for one driver to get wrong differently from another.
//!
//! Not promised: that a versionstamped write is visible to the transaction that makes it, or that a
//! transaction may live longer than [`limits::TRANSACTION_AGE_MAX`].

#[cfg(feature = "simulation")]
pub mod conformance;
mod driver;
pub mod embedded;
mod error;
#[cfg(feature = "fdb")]
pub mod fdb;
mod limits;
mod local;
mod mutation;
mod range;
mod retry;
#[cfg(feature = "simulation")]
pub mod simulated;
mod stamp;
mod transaction;

pub use driver::{Commit, Committed, Driver, Session, Watch};
pub use error::{CommitError, OpenError, ReadError};
pub use limits::{KEY_BYTES_MAX, Limits, TRANSACTION_AGE_MAX, TRANSACTION_BYTES_MAX, VALUE_BYTES_MAX};
pub use mutation::Mutation;
pub use range::{KeyRange, KeyValue, Page, RangeRead, key_after};
pub use retry::Attempt;
pub use stamp::{Stamp, Version};
pub use transaction::Transaction;

use std::sync::Arc;

/// A handle on a store. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    driver: Arc<dyn Driver>,
}

impl Store {
    /// Wraps a driver.
    pub fn new(driver: impl Driver) -> Self {
        Self { driver: Arc::new(driver) }
    }

    /// Starts a transaction. Nothing is read until the first read or an explicit
    /// [`Transaction::read_version`].
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.driver.session(), self.driver.limits())
    }

    /// Arms a doorbell for a key. Once this has answered, any change to the key that a later read does not
    /// see yet makes it ring.
    ///
    /// It is a doorbell and nothing more: it may ring for nothing, and it keeps silent when the value is back
    /// to what it was before anybody could look. `None` when the store cannot watch, or no more at once. So
    /// whoever waits for it also looks from time to time.
    pub async fn watch(&self, key: &[u8]) -> Result<Option<Watch>, ReadError> {
        self.driver.watch(key).await
    }

    /// The bounds that this store puts on keys, values and transactions.
    pub fn limits(&self) -> Limits {
        self.driver.limits()
    }

    /// A name for logs and metrics: `embedded`, `fdb`, `simulated`.
    pub fn driver_name(&self) -> &'static str {
        self.driver.name()
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("driver", &self.driver.name()).finish()
    }
}
