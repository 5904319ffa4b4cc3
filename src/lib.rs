//! The agent runtime: facts and read models, the control plane, and the entities that keep their promises.

pub mod agui;
pub mod blob;
pub mod config;
pub mod control;
pub mod credential;
pub mod entity;
pub mod exec;
pub mod export;
pub mod fact;
pub mod http;
pub mod replay;
pub mod runtime;
pub mod sabotage;
pub mod scripted;
pub mod signing;
#[cfg(feature = "simulation")]
pub mod sim;
pub mod tenant;
pub mod view;
