//! A connection to a cluster, and how long to wait for it.
//!
//! Waiting is bounded here, wait by wait, and not with the client library's transaction timeout: that one
//! counts from the transaction's first use, so that a commit that was not even sent after a slow read would
//! come back as one whose outcome is unknown, and one that is merely too old would not be told so.

use std::time::Duration;

use foundationdb::{
    Database, FdbError, FdbResult, Transaction,
    options::{DatabaseOption, TransactionOption},
};

use super::{Config, cluster_file::ClusterFile, error, network};
use crate::store::{OpenError, TRANSACTION_BYTES_MAX};

/// The database, as the client library calls it.
pub(super) struct Connection {
    pub(super) database: Database,
    patience: Duration,
}

impl Connection {
    /// Connects in the background.
    pub(super) fn open(config: &Config, cluster_file: &ClusterFile) -> Result<Self, OpenError> {
        let refused = |error: FdbError| OpenError::Unreachable {
            reason: format!("cluster file {}: {error} ({})", cluster_file.path(), error.code()),
        };
        let database = Database::new(Some(cluster_file.path())).map_err(refused)?;
        let bytes_max = i32::try_from(TRANSACTION_BYTES_MAX).expect("ten megabytes fit");
        let watches_max = i32::try_from(config.watches_max).expect("checked to be a million at most");
        database.set_option(DatabaseOption::TransactionSizeLimit(bytes_max)).map_err(refused)?;
        database.set_option(DatabaseOption::MaxWatches(watches_max)).map_err(refused)?;
        Ok(Self { database, patience: Duration::from_millis(config.transaction_timeout_ms) })
    }

    /// A transaction that can watch keys, for which the client library wants it to see its own writes.
    pub(super) fn begin_watching(&self) -> FdbResult<Transaction> {
        if network::is_running() {
            self.database.create_trx()
        } else {
            Err(FdbError::from_code(error::SHUTDOWN_IN_PROGRESS))
        }
    }

    /// A transaction that reads what is stored, whatever it has written.
    pub(super) fn begin(&self) -> FdbResult<Transaction> {
        let transaction = self.begin_watching()?;
        transaction.set_option(TransactionOption::ReadYourWritesDisable)?;
        Ok(transaction)
    }

    /// Waits, but not forever.
    pub(super) async fn wait<T, E: Into<FdbError>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> FdbResult<T> {
        match tokio::time::timeout(self.patience, answer).await {
            Ok(answer) => answer.map_err(Into::into),
            Err(_) => Err(FdbError::from_code(error::TRANSACTION_TIMED_OUT)),
        }
    }
}
