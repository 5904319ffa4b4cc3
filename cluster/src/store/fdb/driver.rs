//! Sessions and watches of one cluster.

use std::sync::Arc;

use foundationdb::FdbError;
use futures::{FutureExt, future::BoxFuture};
use tokio::sync::Semaphore;

use super::{connection::Connection, error, prefix::Prefix, session::FdbSession};
use crate::store::{Driver, Limits, ReadError, Session, Watch};

/// See the module.
pub(super) struct FdbDriver {
    connection: Arc<Connection>,
    prefix: Prefix,
    limits: Limits,
    watches: Arc<Semaphore>,
}

impl FdbDriver {
    pub(super) fn new(connection: Connection, prefix: Prefix, watches_max: u32) -> Self {
        let all = Limits::default();
        Self {
            connection: Arc::new(connection),
            limits: Limits { key_bytes_max: all.key_bytes_max - prefix.len(), ..all },
            prefix,
            watches: Arc::new(Semaphore::new(watches_max as usize)),
        }
    }

    /// A watch takes effect when the transaction that asks for it commits, and then outlives it.
    async fn arm(&self, key: &[u8]) -> Result<impl Future<Output = ()> + Send + 'static, FdbError> {
        let transaction = self.connection.begin_watching()?;
        let change = transaction.watch(&self.prefix.key(key));
        self.connection.wait(transaction.commit()).await?;
        Ok(change.map(drop))
    }
}

impl Driver for FdbDriver {
    fn name(&self) -> &'static str {
        "fdb"
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn session(&self) -> Box<dyn Session> {
        Box::new(FdbSession::new(self.connection.clone(), self.prefix.clone(), self.limits))
    }

    fn watch<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<Option<Watch>, ReadError>> {
        async move {
            let Ok(permit) = self.watches.clone().try_acquire_owned() else { return Ok(None) };
            let change = self.arm(key).await.map_err(|error| error::read(error, key.len(), &self.limits))?;
            let watch = async move {
                change.await;
                drop(permit);
            };
            Ok(Some(watch.boxed()))
        }
        .boxed()
    }
}
