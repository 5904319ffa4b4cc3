//! The agent runtime: facts and read models, the control plane, and the entities that keep their promises.

pub mod fact;
pub mod view;
