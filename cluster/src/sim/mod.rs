//! Deterministic simulation: the substrate, unchanged, on a simulated store and bus, on one thread with
//! virtual time and seeded randomness.
//!
//! [`simulate`] runs a small bank and a forest of trees on a few nodes while a nemesis crashes them, puts them to
//! sleep, replaces them under their own name, parts them, skews their clocks and makes the store and the bus as bad as they may be. Then all is well
//! again, everything has to come to an end, and the promises are checked on what is stored, what readers saw and
//! what clients were told. One seed gives one simulation, down to the last commit.
//!
//! Whoever stands on the substrate is simulated in the same surroundings: a [`Program`] says what runs on the nodes;
//! [`Env`], [`SimNode`], [`trouble`] and [`CommitWatch`] do the rest.

mod bank;
mod check;
mod commits;
mod deeds;
mod dice;
mod door;
mod env;
mod history;
mod janitor;
mod lifeline;
mod nemesis;
mod nodes;
mod owners;
mod reader;
mod record;
mod run;
mod tally;
mod trace;
mod tree;
mod workload;
mod world;

pub use check::Violation;
pub use commits::CommitWatch;
pub use dice::Dice;
pub use env::{CLUSTER, Env, Limits, SKEW_MAX};
pub use lifeline::{Lifeline, Moment};
pub use nemesis::trouble;
pub use nodes::{Place, Program, SimNode, start_all};
pub use run::{Scenario, Verdict, on_virtual_time, simulate};
pub use tally::Tally;
pub use trace::Trace;
pub use world::World;
