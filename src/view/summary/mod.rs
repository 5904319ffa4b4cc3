//! What the facts of a session say about tools, context, evidence, governance, cost and so on, in short.
//!
//! At run time no entity sees all facts of a session: a task, a subagent or a job tells of its own. A summary is of the
//! facts that the session itself made, and a replay folds the same ones: those of the session's stream. What is served of
//! it says that it is partial when there are others, and what is not tracked is said to be unknown, never guessed.

mod artifacts;
mod benchmark;
mod channels;
mod context;
mod environment;
mod evidence;
mod history;
mod limits;
mod output;
mod sandbox;
mod tools;

pub use self::{
    artifacts::{ArtifactEntry, Artifacts},
    benchmark::{BenchmarkTrial, Benchmarks},
    channels::{ChannelEntry, ChannelState, Channels},
    context::{Compaction, ContextBoundary},
    environment::{ProcessEntry, Processes},
    evidence::{Evidence, EvidenceEntry, Outcome},
    history::{History, Rollback},
    limits::{LimitEntry, Limits},
    output::Outputs,
    sandbox::{Sandbox, Violation},
    tools::{ToolEntry, Tools},
};
use super::{
    bound::{WORD_MAX, cut, push_last},
    declare::{Absent, views},
    permission::PermissionState,
    routing::RoutingDecision,
};
use crate::fact::{Fact, Trace, payload::Payload};

views! {
    /// Summaries of the facts of one session. Absent: there was no such fact.
    #[derive(Default)]
    Summary {
        ..
        /// The tools of the last turn that chose any.
        tools: Option<Tools>,
        /// What the last turn knows, and what was summed up.
        context: Option<ContextBoundary>,
        /// Artifacts.
        artifacts: Option<Artifacts>,
        /// Evidence.
        evidence: Option<Evidence>,
        /// What was decided about permissions.
        permission: Option<PermissionState>,
        /// The bounds in which things ran.
        sandbox: Option<Sandbox>,
        /// Processes.
        processes: Option<Processes>,
        /// Which model answers, and why.
        routing: Option<RoutingDecision>,
        /// Cost and limits.
        limits: Option<Limits>,
        /// Who listens.
        channels: Option<Channels>,
        /// Output too large for facts.
        output: Option<Outputs>,
        /// What was loaded, put together again or taken back.
        history: Option<History>,
        /// Benchmarks.
        benchmark: Option<Benchmarks>,
        /// How many hooks were asked.
        hook_runs: u32,
        /// How many hooks gave no answer.
        hook_failures: u32,
        /// How often a policy changed.
        policy_changes: u32,
        /// The traces that facts named last, the latest at the end.
        trace_ids: Vec<String>,
    }
}

impl Absent for Summary {
    fn absent(&self) -> bool {
        *self == Self::default()
    }
}

impl Summary {
    /// How many traces are told of.
    pub const TRACES_MAX: usize = 8;

    /// A fact belongs to a trace.
    pub fn traced(&mut self, trace: &Trace) {
        let trace_id = cut(&trace.trace_id, WORD_MAX);
        if self.trace_ids.last() != Some(&trace_id) {
            self.trace_ids.retain(|known| *known != trace_id);
            push_last(&mut self.trace_ids, trace_id, Self::TRACES_MAX);
        }
    }

    /// Takes in a fact.
    pub fn apply(&mut self, fact: &Fact) {
        use Payload as P;
        match &fact.payload {
            P::ToolCatalogResolved(catalog) => self.tools = Some(Tools::new(fact, catalog)),
            P::ContextResolved(_)
            | P::ContextCompactionStarted(_)
            | P::ContextCompactionCompleted(_)
            | P::ContextCompactionFailed(_) => self.context.get_or_insert_default().apply(fact),
            P::ArtifactChanged(changed) => self.artifacts.get_or_insert_default().changed(fact, changed),
            P::EvidenceChanged(changed) => {
                self.evidence.get_or_insert_default().changed(fact, changed);
                if let Some(benchmark) =
                    self.benchmark.as_mut().filter(|_| changed.kind.as_deref() == Some("trial"))
                {
                    benchmark.packed(changed);
                }
            }
            P::PermissionEvaluated(_) | P::PermissionRequested(_) | P::PermissionResolved(_) => {
                self.permission.get_or_insert_default().apply(fact);
            }
            P::SandboxApplied(_) | P::SandboxViolation(_) => self.sandbox.get_or_insert_default().apply(fact),
            P::ProcessStarted(_)
            | P::ProcessOutput(_)
            | P::ProcessInput(_)
            | P::ProcessCompleted(_)
            | P::ProcessFailed(_)
            | P::ProcessTerminated(_) => self.processes.get_or_insert_default().apply(fact),
            P::CostEstimated(_)
            | P::CostRecorded(_)
            | P::RateLimitHit(_)
            | P::QuotaLow(_)
            | P::QuotaBlocked(_)
            | P::LimitChanged(_) => self.limits.get_or_insert_default().apply(fact),
            P::ModelCompleted(completed) => {
                if let Some(usage) = &completed.usage {
                    self.limits.get_or_insert_default().used(usage);
                }
            }
            P::ChannelConnected(_)
            | P::ChannelDisconnected(_)
            | P::ChannelResumed(_)
            | P::ChannelMessage(_)
            | P::ChannelPermissionForwarded(_)
            | P::ChannelPermissionReturned(_) => self.channels.get_or_insert_default().apply(fact),
            P::OutputSpilled(_) | P::OutputTruncated(_) | P::OutputRedacted(_) | P::OutputExpired(_) => {
                self.output.get_or_insert_default().apply(fact);
            }
            P::HistoryRollbackCompleted(rollback) => {
                self.history.get_or_insert_default().apply(fact);
                if let Some(context) = &mut self.context {
                    context.rolled_back(rollback);
                }
            }
            P::HistoryWindowLoaded(_)
            | P::HistoryReconstructed(_)
            | P::HistoryRollbackStarted(_)
            | P::SnapshotRepaired(_) => self.history.get_or_insert_default().apply(fact),
            P::BenchmarkDatasetResolved(_)
            | P::BenchmarkConfigurationResolved(_)
            | P::BenchmarkTrialStarted(_)
            | P::BenchmarkTrialCompleted(_)
            | P::BenchmarkTrialFailed(_)
            | P::BenchmarkRewardRecorded(_)
            | P::BenchmarkComparisonCompleted(_) => self.benchmark.get_or_insert_default().apply(fact),
            P::HookStarted(_) => self.hook_runs = self.hook_runs.saturating_add(1),
            P::HookFailed(_) => self.hook_failures = self.hook_failures.saturating_add(1),
            P::PolicyChanged(_) => self.policy_changes = self.policy_changes.saturating_add(1),
            _ if RoutingDecision::concerns(fact) => self.routing.get_or_insert_default().apply(fact),
            _ => {}
        }
    }
}

/// One more.
pub(super) fn count(counter: &mut u32) {
    *counter = counter.saturating_add(1);
}
