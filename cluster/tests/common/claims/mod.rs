//! What hosting promises, as claims that hold on every store and every bus.

pub mod commands;
pub mod effects;
pub mod faults;
pub mod feeds;
pub mod handover;
pub mod limits;
pub mod messages;
pub mod poison;
pub mod restores;
pub mod timers;
pub mod trims;
