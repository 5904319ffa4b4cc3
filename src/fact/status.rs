//! Where things stand.

use super::words::words;

words! {
    /// What became of a criterion of acceptance.
    AcceptanceOutcome {
        Met = "met",
        Unmet = "unmet",
        Unknown = "unknown",
    }

    /// A session.
    SessionStatus { Active = "active", Archived = "archived" }

    /// A thread, as read models tell it.
    ThreadStatus {
        Idle = "idle",
        Queued = "queued",
        Running = "running",
        Blocked = "blocked",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        Stale = "stale",
        Unknown = "unknown",
    }

    /// A turn.
    TurnStatus {
        Accepted = "accepted",
        Queued = "queued",
        Preparing = "preparing",
        Running = "running",
        WaitingInput = "waiting_input",
        WaitingPermission = "waiting_permission",
        WaitingResource = "waiting_resource",
        Blocked = "blocked",
        Streaming = "streaming",
        Retrying = "retrying",
        Cancelling = "cancelling",
        Completed = "completed",
        Failed = "failed",
        TimedOut = "timed_out",
        Lost = "lost",
        Cancelled = "cancelled",
    } => terminal [Completed, Failed, TimedOut, Lost, Cancelled]

    /// A task. An archived one was terminal before.
    TaskStatus {
        Draft = "draft",
        Accepted = "accepted",
        Queued = "queued",
        Preparing = "preparing",
        Running = "running",
        WaitingInput = "waiting_input",
        WaitingPermission = "waiting_permission",
        WaitingResource = "waiting_resource",
        Blocked = "blocked",
        Paused = "paused",
        Retrying = "retrying",
        Cancelling = "cancelling",
        Cancelled = "cancelled",
        TimedOut = "timed_out",
        Failed = "failed",
        Lost = "lost",
        Completed = "completed",
        Archived = "archived",
        Stale = "stale",
        Unknown = "unknown",
    } => terminal [Cancelled, TimedOut, Failed, Lost, Completed, Archived]

    /// One execution of a task.
    AttemptStatus {
        Queued = "queued",
        Preparing = "preparing",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        TimedOut = "timed_out",
        Lost = "lost",
        Cancelled = "cancelled",
    } => terminal [Completed, Failed, TimedOut, Lost, Cancelled]

    /// A subagent.
    SubagentStatus {
        Queued = "queued",
        Running = "running",
        WaitingInput = "waiting_input",
        Completed = "completed",
        Failed = "failed",
        TimedOut = "timed_out",
        Lost = "lost",
        Cancelling = "cancelling",
        Cancelled = "cancelled",
    } => terminal [Completed, Failed, TimedOut, Lost, Cancelled]

    /// A job.
    JobStatus {
        Accepted = "accepted",
        Scheduled = "scheduled",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Cancelling = "cancelling",
        Cancelled = "cancelled",
        TimedOut = "timed_out",
    } => terminal [Completed, Failed, Cancelled, TimedOut]

    /// One item of a job.
    ItemStatus {
        Pending = "pending",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        TimedOut = "timed_out",
        Lost = "lost",
        Cancelled = "cancelled",
    } => terminal [Completed, Failed, TimedOut, Lost, Cancelled]

    /// A decision that is, or was, waited for.
    ActionStatus { Pending = "pending", Resolved = "resolved", Expired = "expired", Cancelled = "cancelled" }
    => terminal [Resolved, Expired, Cancelled]

    /// A process.
    ProcessStatus {
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        TimedOut = "timed_out",
        Lost = "lost",
        Terminated = "terminated",
    } => terminal [Completed, Failed, TimedOut, Lost, Terminated]

    /// Why a read model has no value: a missing fact is named, never guessed from text.
    Availability {
        Unknown = "unknown",
        Unavailable = "unavailable",
        Stale = "stale",
        NotApplicable = "not_applicable",
        Blocked = "blocked",
    }

    /// What makes a queue go on: nothing is in it, the turn that runs has to end, somebody has to decide something for
    /// that turn, or the next turn begins by itself.
    QueueState { Empty = "empty", BehindTurn = "behind_turn", Blocked = "blocked", Ready = "ready" }

    /// Whether facts can be joined with traces: they name some, nobody can say, or there is nothing to join.
    JoinStatus { Joined = "joined", Unknown = "unknown", NotApplicable = "not_applicable" }
}

/// As what somebody has ended whose turn has.
impl From<TurnStatus> for SubagentStatus {
    fn from(status: TurnStatus) -> Self {
        match status {
            TurnStatus::Completed => Self::Completed,
            TurnStatus::Cancelled => Self::Cancelled,
            TurnStatus::TimedOut => Self::TimedOut,
            TurnStatus::Lost => Self::Lost,
            _ => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_on_the_wire_are_those_of_the_code() {
        for status in TaskStatus::ALL {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
            assert_eq!(serde_json::from_value::<TaskStatus>(status.as_str().into()).unwrap(), *status);
        }
        assert!(serde_json::from_str::<TaskStatus>("\"Completed\"").is_err());
    }

    #[test]
    fn what_can_go_on_is_not_terminal() {
        assert!(!TurnStatus::Cancelling.is_terminal() && !SubagentStatus::WaitingInput.is_terminal());
        assert!(TurnStatus::Cancelled.is_terminal() && ItemStatus::Lost.is_terminal());
        assert!(!TaskStatus::Unknown.is_terminal() && TaskStatus::Archived.is_terminal());
    }
}
