//! The control plane: what can be asked of Cadre, as types.
//!
//! A command is a struct of [arguments](args) that says what its [result] is. All of them are in one list,
//! [`registry()`], from which the HTTP routes, the channel, the command line and the documentation are made, so that none
//! of these can know a command that the others do not. Whoever executes commands matches on [`AnyCommand`], which has
//! one variant each.
//!
//! What arrives is read strictly: unknown fields are ignored and `null` is the same as absent, but a wrong type, a bad
//! id or a value out of bounds is an [`Error`] that names the field. Once a command is parsed, it is within the
//! [limits](check) that do not depend on state.

pub mod args;
pub mod check;
mod command;
pub mod docs;
mod error;
pub mod read;
mod registry;
pub mod result;
mod spec;
mod words;

pub use self::{
    command::{Arguments, Command, Group, Kind, Scope, parse},
    error::{Code, Error},
    registry::{AnyCommand, Registry, registry},
    spec::Spec,
};
