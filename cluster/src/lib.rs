//! The substrate of Cadre: a fenced, exactly-once actor cluster.
//!
//! An [entity](host::Entity) is a pure core: it decides what follows from an input, and applies facts to its state. A
//! [node](host::Node) does the rest: it finds the owner of an entity, loads it, commits each step in one fenced
//! transaction together with the messages, timers and effects that follow from it, and appends its facts to a
//! [feed] that anybody can read by cursor. Stores and buses are exchangeable: [`store`], [`bus`].
//!
//! `examples/kettle.rs` is an entity from end to end, in one file that runs:
//!
//! ```console
//! $ cargo run -p cadre-cluster --example kettle -- /tmp/kettle
//! ```

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
