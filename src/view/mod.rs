//! Read models: what is known, as a fold over what has happened.
//!
//! A reader who has only events would have to keep all of them to say how a thread stands. A runtime that keeps a second
//! account of it would sooner or later say something else than its events do. Here both are the same: a view changes
//! only by `apply`, which takes one fact, cannot fail, awaits nothing and reads no clock. An entity keeps its view in
//! its durable state and applies each fact that it makes; a replay applies the same facts in the same order. So what is
//! served equals what folding the feed gives, field by field (promise P5).
//!
//! Views are state of entities, so each has a bound whatever facts say: texts are cut and marked with `…`, lists keep
//! the latest, and counts say how many there were. What is over leaves the state: a turn that ended is a record of its
//! own, as is an item of a job.
//!
//! [`ReadModels`] is the fold of a whole feed; [`snapshot`] has the shapes that are served, put together from views.
//!
//! What is not promised: that a view tells all. Facts do; a view tells what people and programs look at first, and says
//! where it left something out.

mod attempt;
mod bound;
mod boundary;
mod counts;
mod declare;
mod incident;
mod item;
mod job;
mod models;
mod pending;
mod permission;
mod relationship;
mod routing;
mod session;
mod shed;
pub mod snapshot;
mod step;
mod subagent;
pub mod summary;
mod task;
mod task_fold;
mod task_parts;
#[cfg(test)]
mod tests;
mod thread;
mod turn;
mod turn_fold;

pub use self::{
    attempt::{AttemptState, AttemptView},
    boundary::{Boundary, ThreadContext},
    counts::{Counts, JobCounts, SubagentCounts, TaskSummary},
    incident::{Incident, Severity},
    item::{ItemChange, ItemView},
    job::{ItemCounts, JobView},
    models::{ReadModels, Window},
    pending::PendingRequest,
    permission::{LastDecision, PermissionState},
    relationship::Relationship,
    routing::RoutingDecision,
    session::SessionView,
    snapshot::{SessionSnapshot, SnapshotParts},
    step::{StepKind, StepStatus, StepView},
    subagent::SubagentView,
    summary::Summary,
    task::{Delivered, Progress, TaskView},
    thread::{Outcome, QueuedTurn, ThreadView},
    turn::TurnView,
};
