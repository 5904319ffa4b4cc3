//! What hosting promises, as claims that hold on every store and every bus.

pub mod commands;
