//! The boundary to hooks: governance that is plugged in, and always leaves a fact.

/// Where a hook may speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPoint {
    /// A run is about to begin.
    RunStart,
    /// A tool is about to be called.
    BeforeTool,
    /// A run has ended.
    RunEnd,
}

impl HookPoint {
    /// As facts say it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunStart => "run_start",
            Self::BeforeTool => "before_tool",
            Self::RunEnd => "run_end",
        }
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
}

/// A hook that runs within the step. Pure.
pub trait Hook: Send + Sync + 'static {
    /// Its name in facts.
    fn name(&self) -> &str;

    /// Whether it wants to be asked here.
    fn is_for(&self, point: HookPoint) -> bool;

    /// What it says about `subject`, a tool's name or the agent's.
    fn run(&self, point: HookPoint, subject: &str) -> Verdict;
}
