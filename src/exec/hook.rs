//! The boundary to hooks: governance that is plugged in, and always leaves a fact.
//!
//! A hook that is for a point is asked there: `hook.started`, then `hook.completed` with what it says or `hook.failed` with
//! what follows from that. One that is not for a point costs nothing and leaves nothing. A hook can say no where permission
//! says yes, never the other way round (P10).

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::{Ending, Engine, Permit, ToolOutput};
use crate::fact::{Failure, payload::FailurePolicy};

/// Where a hook may speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPoint {
    /// A run is about to begin. A block ends it as failed.
    RunStart,
    /// A tool is about to be called. A block denies the call.
    BeforeTool,
    /// A tool has returned or failed. A block withholds that, and the model reads the reason in its place.
    AfterTool,
    /// A run is about to say that it is over. A block is recorded, and changes nothing.
    RunEnd,
}

impl HookPoint {
    /// As facts say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunStart => "run_start",
            Self::BeforeTool => "before_tool",
            Self::AfterTool => "after_tool",
            Self::RunEnd => "run_end",
        }
    }
}

/// What a hook is asked about.
#[derive(Debug, Clone, Copy)]
pub struct HookRequest<'a> {
    /// Where.
    pub point: HookPoint,
    /// Whose run it is.
    pub agent: &'a str,
    /// The tool, before and after one.
    pub tool: Option<&'a str>,
    /// What the tool is called with, as JSON text. `None` as well when that is so large that it is kept apart.
    pub args: Option<&'a str>,
    /// What the tool came to, after one.
    pub result: Option<Result<&'a ToolOutput, &'a Failure>>,
    /// How the run ends, at its end.
    pub ending: Option<&'a Ending>,
}

impl<'a> HookRequest<'a> {
    /// About a run.
    pub fn new(point: HookPoint, agent: &'a str) -> Self {
        Self { point, agent, tool: None, args: None, result: None, ending: None }
    }

    /// What it is about: the tool if there is one, the agent otherwise.
    pub fn subject(&self) -> &'a str {
        self.tool.unwrap_or(self.agent)
    }
}

/// What a hook says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing against it.
    Pass,
    /// Not like this.
    Block {
        /// Why.
        reason: String,
    },
    /// After a tool: the model shall read this text in place of what the tool returned. Anywhere else it is a failure of the
    /// hook.
    Replace {
        /// What it reads, at most 16 KiB; more is cut.
        text: String,
        /// Why.
        reason: String,
    },
}

/// A hook that runs within the step. Pure: the same request has the same verdict.
pub trait Hook: Send + Sync + 'static {
    /// Its name in facts.
    fn name(&self) -> &str;

    /// Whether it wants to be asked here.
    fn is_for(&self, point: HookPoint) -> bool;

    /// What follows when it fails: as if it had blocked, as if it had passed, or before a tool that somebody is asked, and
    /// anywhere else as if it had blocked.
    fn failure_policy(&self) -> FailurePolicy {
        FailurePolicy::Closed
    }

    /// What it says. An error is a failure of the hook, and so is a panic.
    fn run(&self, request: &HookRequest<'_>) -> Result<Verdict, Failure>;
}

/// Asks a hook. Whatever it does, there is an answer.
pub(crate) fn ask(hook: &dyn Hook, request: &HookRequest<'_>) -> Result<Verdict, Failure> {
    let said = catch_unwind(AssertUnwindSafe(|| hook.run(request)));
    match said.unwrap_or_else(|_| Err(Failure::new("internal", "the hook panicked"))) {
        Ok(Verdict::Replace { .. }) if request.point != HookPoint::AfterTool => {
            let message = format!("a hook replaces nothing at {}", request.point.as_str());
            Err(Failure::new("invalid_argument", message))
        }
        said => said,
    }
}

/// What follows from the failure of a hook.
pub(crate) fn permit_after_failure(policy: FailurePolicy, point: HookPoint) -> Permit {
    match (policy, point) {
        (FailurePolicy::Open, _) => Permit::Allow,
        (FailurePolicy::Ask, HookPoint::BeforeTool) => Permit::Ask,
        _ => Permit::Deny,
    }
}

pub(crate) fn why_failed(hook: &dyn Hook, error: &Failure) -> String {
    format!("the hook {} failed: {}", hook.name(), error.message)
}

impl Engine {
    /// What hooks would leave of the permission for a call that is not made, and why. Nothing is told.
    pub(crate) fn hooks_would_leave(&self, request: &HookRequest<'_>) -> Option<(Permit, String)> {
        let mut left = None;
        for hook in self.hooks.iter().filter(|hook| hook.is_for(request.point)) {
            let (permit, reason) = match ask(&**hook, request) {
                Ok(Verdict::Block { reason }) => (Permit::Deny, reason),
                Ok(_) => continue,
                Err(error) => {
                    let permit = permit_after_failure(hook.failure_policy(), request.point);
                    (permit, why_failed(&**hook, &error))
                }
            };
            match permit {
                Permit::Allow => {}
                Permit::Ask => left = Some((permit, reason)),
                Permit::Deny => return Some((permit, reason)),
            }
        }
        left
    }
}
