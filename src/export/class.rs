//! What a fact of each class is to an export. Every class is named here, so that whoever adds one has to say.

use crate::fact::EventType;

/// The list of an evidence pack in which a fact is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoted {
    Failures,
    Artifacts,
    Routing,
}

/// Where evidence quotes facts of a class.
pub(super) fn quoted(class: EventType) -> Option<Quoted> {
    use EventType as E;
    match class {
        E::TurnFailed
        | E::TaskTimedOut
        | E::TaskFailed
        | E::TaskLost
        | E::TaskAttemptFailed
        | E::ModelFailed
        | E::ToolFailed
        | E::ContextCompactionFailed
        | E::SubagentFailed
        | E::RuntimeError
        | E::HookFailed
        | E::ProcessFailed
        | E::JobItemFailed
        | E::JobFailed
        | E::BenchmarkTrialFailed => Some(Quoted::Failures),
        E::ArtifactChanged => Some(Quoted::Artifacts),
        E::RoutingCandidatesResolved
        | E::RoutingDecided
        | E::RoutingFallbackApplied
        | E::RoutingNotPossible
        | E::RoutingSingleCandidate => Some(Quoted::Routing),
        E::SessionCreated
        | E::SessionUpdated
        | E::ThreadStarted
        | E::ThreadUpdated
        | E::TurnSubmitted
        | E::TurnStarted
        | E::TurnCompleted
        | E::TaskCreated
        | E::TaskAccepted
        | E::TaskQueued
        | E::TaskStarted
        | E::TaskUpdated
        | E::TaskProgress
        | E::TaskWaiting
        | E::TaskBlocked
        | E::TaskPaused
        | E::TaskResumed
        | E::TaskRetrying
        | E::TaskCancelRequested
        | E::TaskCancelled
        | E::TaskCompleted
        | E::TaskArchived
        | E::TaskProfileResolved
        | E::TaskDelegated
        | E::TaskDependencyUpdated
        | E::TaskAttemptStarted
        | E::TaskAttemptCompleted
        | E::RunStatus
        | E::ModelRequested
        | E::ModelDelta
        | E::ModelCompleted
        | E::ReasoningDelta
        | E::ReasoningSummary
        | E::ToolCatalogResolved
        | E::ToolStarted
        | E::ToolArgs
        | E::ToolProgress
        | E::ToolResult
        | E::ActionRequired
        | E::ActionResolved
        | E::QueueChanged
        | E::ContextResolved
        | E::ContextCompactionStarted
        | E::ContextCompactionCompleted
        | E::EvidenceChanged
        | E::SubagentSpawned
        | E::SubagentStatusChanged
        | E::SubagentInput
        | E::SubagentCompleted
        | E::SubagentClosed
        | E::LimitChanged
        | E::SnapshotUpdated
        | E::SnapshotRepaired
        | E::RuntimeWarning
        | E::PermissionEvaluated
        | E::PermissionRequested
        | E::PermissionResolved
        | E::SandboxApplied
        | E::SandboxViolation
        | E::HookStarted
        | E::HookCompleted
        | E::PolicyChanged
        | E::ProcessStarted
        | E::ProcessOutput
        | E::ProcessInput
        | E::ProcessCompleted
        | E::ProcessTerminated
        | E::CostEstimated
        | E::CostRecorded
        | E::RateLimitHit
        | E::QuotaLow
        | E::QuotaBlocked
        | E::ChannelConnected
        | E::ChannelDisconnected
        | E::ChannelResumed
        | E::ChannelMessage
        | E::ChannelPermissionForwarded
        | E::ChannelPermissionReturned
        | E::JobCreated
        | E::JobStarted
        | E::JobProgress
        | E::JobItemStarted
        | E::JobItemCompleted
        | E::JobCompleted
        | E::JobCancelled
        | E::OutputSpilled
        | E::OutputTruncated
        | E::OutputRedacted
        | E::OutputExpired
        | E::HistoryWindowLoaded
        | E::HistoryReconstructed
        | E::HistoryRollbackStarted
        | E::HistoryRollbackCompleted
        | E::BenchmarkDatasetResolved
        | E::BenchmarkConfigurationResolved
        | E::BenchmarkTrialStarted
        | E::BenchmarkTrialCompleted
        | E::BenchmarkRewardRecorded
        | E::BenchmarkComparisonCompleted => None,
    }
}
