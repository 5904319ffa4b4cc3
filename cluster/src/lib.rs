//! The substrate of Cadre: a fenced, exactly-once actor cluster.

pub mod bus;
#[cfg(feature = "simulation")]
pub mod sim;
pub mod store;
