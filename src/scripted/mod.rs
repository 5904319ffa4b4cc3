//! The scripted agent: its model is a script, so that every path of the runtime can be driven without a provider.

mod model;
mod read;
mod script;

pub use model::Scripted;
pub use script::{Join, Limits, Script, ScriptError, Step};

/// The name under which it is always available.
pub const AGENT: &str = "scripted";
