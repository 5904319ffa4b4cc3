//! What is served: shapes of the Agent Runtime standard, put together from views.
//!
//! Everything here is a pure function of views, whether those were read from the state of entities or folded from the
//! feed, so that both give the same. Where there is no fact, a shape says `unknown`, `unavailable` or `not_applicable`
//! in place of a guess.

mod artifacts;
mod diagnostics;
mod environment;
mod evidence;
mod history;
mod inventory;
mod parts;
mod queue;
mod session;
mod summaries;
mod tasks;
mod thread_read;

pub use self::{
    artifacts::{ArtifactCheckpoint, ArtifactSummary},
    diagnostics::Diagnostic,
    environment::ExecutionEnvironment,
    evidence::EvidenceSummary,
    history::{HistoryCursor, HistoryPosition, InvalidPosition},
    inventory::ToolInventory,
    parts::{Publisher, SnapshotParts, ThreadTurns},
    queue::QueueSnapshot,
    session::{BenchmarkSummary, SessionSnapshot},
    summaries::{
        ChannelSummary, JobProgressEntry, OutputSummary, PermissionSummary, RoutingLimitSummary,
        SandboxSummary, SubagentEntry, SubagentJobSummary, TelemetrySummary,
    },
    tasks::{BlockedTask, DeliverySummary, TaskDelivery, TaskEdge, TaskGraph},
    thread_read::{ThreadEvidence, ThreadRead},
};
