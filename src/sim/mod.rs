//! Deterministic simulation of the runtime: sessions, tasks, subagents, jobs and items, unchanged, on the simulated
//! store and bus of the substrate, on one thread with virtual time and seeded randomness.
//!
//! [`simulate`] runs a few nodes with the control plane in front of each, as HTTP has it. Clients draw commands and
//! scripts, send each under an idempotency key, and again until they are answered; somebody answers the questions that
//! scripts ask, sometimes wrongly or twice; a stranger from another tenant tries every id it hears of; readers follow
//! feeds from node to node. Meanwhile the nemesis of [`cadre_cluster::sim`] crashes, parts, delays and skews. Then all is
//! well again: open questions are answered, everything has to come to an end, and the promises are checked on what is
//! served, what readers saw and what clients were told. One seed gives one simulation, down to the last commit.
//!
//! [`check_feed`] is what holds of every feed, and other tests use it, too.

mod check;
mod client;
mod door;
mod known;
mod log;
mod program;
mod reader;
mod remains;
mod run;
mod script;
mod settle;
mod stranger;
mod tally;
mod workload;

pub use cadre_cluster::sim::{Tally, Verdict};

pub use self::{
    check::check_feed,
    run::{Scenario, simulate},
};
