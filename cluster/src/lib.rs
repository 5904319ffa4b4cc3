//! The substrate of Cadre: a fenced, exactly-once actor cluster.

pub mod address;
pub mod bus;
pub mod clock;
pub mod codec;
pub mod feed;
pub mod host;
pub mod keys;
pub mod placement;
pub mod sabotage;
#[cfg(feature = "simulation")]
pub mod sim;
pub mod store;
pub mod trace;
