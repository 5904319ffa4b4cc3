//! What a fact of each class is to an export. Every class is named here, so that whoever adds one has to say.

use crate::fact::EventType;

/// The list of an evidence pack in which a fact is quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoted {
    Failures,
    Artifacts,
    Routing,
}

/// What a fact has to do with the turn that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OfTurn {
    /// It is one of its own ends and beginnings.
    Life,
    /// It tells of work within it, so it cannot follow its end.
    Work,
    /// It is of something that may go on, or begin, when the turn has ended.
    Beside,
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

/// What facts of a class have to do with the turn that they name.
pub(super) fn of_turn(class: EventType) -> OfTurn {
    use EventType as E;
    match class {
        E::TurnSubmitted | E::TurnStarted | E::TurnCompleted | E::TurnFailed => OfTurn::Life,
        E::RunStatus
        | E::ModelRequested
        | E::ModelDelta
        | E::ModelCompleted
        | E::ModelFailed
        | E::ReasoningDelta
        | E::ReasoningSummary
        | E::ToolCatalogResolved
        | E::ToolStarted
        | E::ToolArgs
        | E::ToolProgress
        | E::ToolResult
        | E::ToolFailed
        | E::ActionRequired
        | E::ActionResolved
        | E::ContextResolved
        | E::PermissionEvaluated
        | E::PermissionRequested
        | E::PermissionResolved
        | E::SandboxApplied
        | E::SandboxViolation
        | E::HookStarted
        | E::HookCompleted
        | E::HookFailed
        | E::ProcessStarted
        | E::ProcessOutput
        | E::ProcessInput
        | E::ProcessCompleted
        | E::ProcessFailed
        | E::ProcessTerminated
        | E::RoutingCandidatesResolved
        | E::RoutingDecided
        | E::RoutingFallbackApplied
        | E::RoutingNotPossible
        | E::RoutingSingleCandidate
        | E::CostEstimated
        | E::CostRecorded
        | E::RateLimitHit
        | E::QuotaLow
        | E::QuotaBlocked
        | E::OutputSpilled
        | E::OutputTruncated
        | E::OutputRedacted => OfTurn::Work,
        // Of the session, of what the turn has started, or of the turn as history.
        E::SessionCreated
        | E::SessionUpdated
        | E::ThreadStarted
        | E::ThreadUpdated
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
        | E::TaskTimedOut
        | E::TaskFailed
        | E::TaskLost
        | E::TaskCompleted
        | E::TaskArchived
        | E::TaskProfileResolved
        | E::TaskDelegated
        | E::TaskDependencyUpdated
        | E::TaskAttemptStarted
        | E::TaskAttemptCompleted
        | E::TaskAttemptFailed
        | E::QueueChanged
        | E::ContextCompactionStarted
        | E::ContextCompactionCompleted
        | E::ContextCompactionFailed
        | E::ArtifactChanged
        | E::EvidenceChanged
        | E::SubagentSpawned
        | E::SubagentStatusChanged
        | E::SubagentInput
        | E::SubagentCompleted
        | E::SubagentFailed
        | E::SubagentClosed
        | E::LimitChanged
        | E::SnapshotUpdated
        | E::SnapshotRepaired
        | E::RuntimeWarning
        | E::RuntimeError
        | E::PolicyChanged
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
        | E::JobItemFailed
        | E::JobCompleted
        | E::JobFailed
        | E::JobCancelled
        | E::OutputExpired
        | E::HistoryWindowLoaded
        | E::HistoryReconstructed
        | E::HistoryRollbackStarted
        | E::HistoryRollbackCompleted
        | E::BenchmarkDatasetResolved
        | E::BenchmarkConfigurationResolved
        | E::BenchmarkTrialStarted
        | E::BenchmarkTrialCompleted
        | E::BenchmarkTrialFailed
        | E::BenchmarkRewardRecorded
        | E::BenchmarkComparisonCompleted => OfTurn::Beside,
    }
}
