//! Exports: packs that are made from the facts of a session, and from nothing else.
//!
//! Whoever asks how a result came about wants proof, and proof that a second account of the work was kept for would
//! only prove that account. So every pack here is a fold over the feed: the events that a user interface shows, up to
//! one cursor, in their order. [`evidence`] joins and verifies them, [`review`] tells them to people, [`replay`] holds
//! them as they are served, beside the read models that were served at that cursor, so that [`crate::replay`] can fold
//! them again and compare. [`trial`] and [`trajectory`] do the same for a benchmark.
//!
//! A pack is made in one pass and holds no more than it has to: ids are listed up to a bound and counted beyond it,
//! and what is left out is named as a [gap]. One of over [100 MB](sink::BYTES_MAX) is refused.
//!
//! What is not promised: that a pack says whether the work was good. It says what happened, and which of the promises
//! that can be checked from facts alone were kept.

pub mod check;
mod class;
pub mod compare;
pub mod evidence;
pub mod gap;
pub mod listed;
pub mod pack;
pub mod reference;
pub mod replay;
pub mod review;
pub mod scope;
pub mod sink;
pub mod spine;
pub mod telemetry;
pub mod tools;
pub mod trajectory;
pub mod trial;

pub use self::{
    check::Checks,
    evidence::Evidence,
    gap::KnownGap,
    listed::Listed,
    pack::{About, Closing, Pack, Sealed, Span},
    reference::References,
    replay::Replay,
    review::Review,
    scope::{Scope, Selection},
    sink::{Full, Sink},
    trajectory::Trajectory,
    trial::{Measured, Trial, TrialComparison, TrialResult},
};
