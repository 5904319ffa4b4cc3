//! Hosting: entities as supervised actors, one fenced transaction per step.
//!
//! ```text
//! client ─► shard actor ─► entity actor ─► committer ─► store
//!              │  ▲             │  ▲           │
//!        looks for work     effect actors   doorbells
//! ```
//!
//! A step takes every input that waits (commands, inbox messages, timers, effect results), runs the pure core
//! over them, and hands one list of writes to the node's committer, which packs the steps of many entities
//! into one store transaction, taking turns among the tenants that wait (P8). Inputs are consumed in the transaction that applies them: that is exactly-once.
//! Nothing is answered, started or announced before its transaction is durable.

mod actor;
mod bells;
mod client;
mod committer;
mod config;
mod core;
mod decision;
mod effect;
mod effect_actor;
mod entity;
mod expire;
mod fair;
mod fence;
mod gate;
mod kind;
mod look;
mod node;
mod record;
mod room;
mod shard;
mod shared;
mod status;
#[cfg(test)]
mod testing;
mod unhosted;
mod wire;
mod work;
mod write;

pub use client::{CallError, Called, Client};
pub use config::HostConfig;
pub use decision::Decision;
pub use effect::{EffectContext, EffectError, EffectPolicy, EffectResult, Repeat, Superseded};
pub use entity::{Entity, Input, Moment};
pub use fair::{EqualWeights, Weights};
pub use kind::Kinds;
pub use node::{Node, StartError};
pub use record::{DeadLetter, read_entity};
pub use status::{NodeStatus, NotReady, ShardStatus, Waiting};
