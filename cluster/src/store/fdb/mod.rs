//! The FoundationDB driver: a [`super::Store`] that a whole cluster shares.
//!
//! One FoundationDB transaction per session. Its reads are snapshot reads with read-your-writes off, so that
//! the client library neither tracks conflicts nor remembers writes: [`super::Transaction`] does both for
//! every driver alike. What it has read is handed over at commit as read conflict ranges, which are the
//! same ranges that ordinary reads would have added, and are all that the cluster looks at to decide whether
//! a transaction conflicts. Write conflict ranges are those of the mutations.
//!
//! Everything lives in one directory of the directory layer, `("cadre", <cluster>)`, so that several
//! clusters of ours and other people's data can share one FoundationDB. Its prefix is put before every key
//! and taken off again.
//!
//! # What it needs
//! The client library `libfdb_c` 7.3 or newer, to link and to run; it comes with the package
//! `foundationdb-clients`. Without it a program that has this driver does not reach `main`: the dynamic loader
//! says `libfdb_c.so: cannot open shared object file`. Install the package, or name the folder that has it
//! in `LD_LIBRARY_PATH`.
//!
//! The cluster file should be in a folder that the process can write to: when the coordinators move, the
//! client library writes their new addresses there. A read-only one works until the next restart after that.
//!
//! # Not promised
//! A commit whose outcome is unknown may still be under way when the answer arrives: FoundationDB makes sure
//! that it is not before it answers `commit_unknown_result`, but after a timeout or a change of the
//! cluster's version nobody knows. Whoever tries again does so under an idempotency record.

mod cluster_file;
mod config;
mod connection;
mod directory;
mod driver;
mod error;
mod network;
mod prefix;
mod session;
mod tls;

pub use config::Config;
pub use network::stop;
pub use tls::Tls;

use std::time::Duration;

use super::{OpenError, Store};

/// Opens a cluster's directory, and makes it if it is not there yet.
///
/// The first call starts the client library's network thread, which one process has once: TLS and the
/// other settings of the network are those of the first call, and a later one that wants others is refused.
pub async fn open(config: Config) -> Result<Store, OpenError> {
    config.check()?;
    let cluster_file = cluster_file::locate(config.cluster_file.as_deref())?;
    let _first_use = network::start(&config.network())?;
    let connection = connection::Connection::open(&config, &cluster_file)?;
    let patience = Duration::from_millis(config.open_timeout_ms);
    let directory = directory::open(&connection.database, &config.cluster);
    let prefix = match tokio::time::timeout(patience, directory).await {
        Ok(prefix) => prefix?,
        Err(_) => return Err(cluster_file.silent(patience)),
    };
    Ok(Store::new(driver::FdbDriver::new(connection, prefix, config.watches_max)))
}
