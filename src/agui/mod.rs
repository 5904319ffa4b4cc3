//! The run input of AG-UI: what `POST /api/v1/agent/runs` takes, and the events with which a run is told.
//!
//! A pure translation, to a command of the control plane and from facts; it neither reads the store nor touches an
//! entity. A thread of AG-UI is a session, a run is a turn of its first thread, and their ids follow from those that the
//! client has chosen ([`names`]), so that the same run is found again by whoever asks for it, at any gateway.
//!
//! ```text
//! RunAgentInput ─► input (types) ─► rules (in the order of the table) ─► submission ─► submit_turn
//! facts of the turn ─► fold ─► events, each with a position ─► SSE · history
//! ```

pub mod event;
pub mod fold;
pub mod history;
pub mod image;
pub mod input;
pub mod message;
pub mod names;
pub mod position;
pub mod prompt;
pub mod rules;
pub mod submission;
#[cfg(test)]
mod tests;
pub mod ticket;

pub use self::{
    event::{Event, Kind},
    fold::{About, Fold},
    input::RunInput,
    position::Position,
};
