//! Deterministic simulation: the substrate, unchanged, on a simulated store and bus, on one thread with
//! virtual time and seeded randomness.

mod dice;
mod lifeline;
mod trace;

pub use dice::Dice;
pub use lifeline::{Lifeline, Moment};
pub use trace::Trace;
