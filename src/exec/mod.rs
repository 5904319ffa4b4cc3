//! The execution loop: context, model, calls, observe, repeat; every step of it durable.
//!
//! A [`Run`] is the pure core: it lives in the state of the entity that runs it (a session's turn, a subagent, a task's
//! attempt, a job's item), takes what has come in, and says what follows in a [`Draft`]. What it asks of the world goes
//! through the boundaries of an [`Engine`]: models, tools, permission, routing, hooks. A model that needs no I/O answers
//! within the step; everything else is an effect, recorded before it starts.

mod budget;
mod builtin;
mod call;
mod children;
mod draft;
mod effect;
mod engine;
mod hook;
mod label;
mod perform;
mod permission;
mod provider;
mod router;
mod run;
mod tool;

pub use budget::{Budget, Reached, Used};
pub use call::{Call, OpenCall};
pub use children::{Children, Group, Names, Tally};
pub use draft::{Change, Draft, Room};
pub use effect::{Effect, Outcome, ToolOutput};
pub use engine::{Engine, Limits};
pub use hook::{Hook, HookPoint, HookRequest, Verdict};
pub use permission::{Permission, PermissionRequest, Permit, Ruling};
pub use provider::{Answer, ModelError, ModelRequest, Provider, Stop};
pub use router::{Route, Router, RoutingRequest};
pub use run::{
    Asked, Ending, Failures, History, NewRun, Response, Run, STEP_RETRIES_MAX, Source, split_name,
};
pub use tool::{Tool, ToolContext, ToolError, ToolReturn, ToolSpec};
