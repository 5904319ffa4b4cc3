//! What a fact is about.
//!
//! Each class of facts has a scope, a struct with exactly the ids that its family must carry, so that a fact without
//! them does not compile. A scope becomes [`Ids`], to which the surroundings of the fact add theirs.

use super::id::*;
pub use super::ids::{Ids, Slot};

/// The ids that facts of a class must carry.
pub trait Scope: Into<Ids> {
    /// Their names on the wire.
    const REQUIRED: &'static [&'static str];
}

macro_rules! scopes {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $id:ident = $wire:literal),* $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $(#[doc = concat!("`", $wire, "`")] pub $field: $id,)*
        }

        impl From<$name> for Ids {
            fn from(scope: $name) -> Self {
                let $name { $($field),* } = scope;
                Ids::default()$(.with($field))*
            }
        }

        impl Scope for $name {
            const REQUIRED: &'static [&'static str] = &[$($wire),*];
        }
    )+};
}

scopes! {
    /// The session alone.
    SessionScope {}
    /// A thread.
    ThreadScope { thread: ThreadId = "threadId" }
    /// A turn.
    TurnScope { thread: ThreadId = "threadId", turn: TurnId = "turnId" }
    /// A tool call.
    ToolScope {
        thread: ThreadId = "threadId",
        turn: TurnId = "turnId",
        step: StepId = "stepId",
        call: CallId = "toolCallId",
    }
    /// A decision.
    ActionScope { thread: ThreadId = "threadId", turn: TurnId = "turnId", action: ActionId = "actionId" }
    /// A task.
    TaskScope { task: TaskId = "taskId" }
    /// One execution of a task.
    AttemptScope { task: TaskId = "taskId", run: RunId = "runId" }
    /// A subagent.
    SubagentScope { subagent: SubagentId = "subagentId" }
    /// A job.
    JobScope { job: JobId = "jobId" }
    /// One item of a job.
    ItemScope { job: JobId = "jobId", item: ItemId = "jobItemId" }
    /// A process.
    ProcessScope { process: ProcessId = "processId" }
    /// A channel.
    ChannelScope { channel: ChannelId = "channelId" }
    /// A decision that goes through a channel.
    ChannelActionScope { channel: ChannelId = "channelId", action: ActionId = "actionId" }
    /// A piece of evidence.
    EvidenceScope { evidence: EvidenceId = "evidenceId" }
    /// An artifact.
    ArtifactScope { artifact: ArtifactId = "artifactId" }
    /// Output that is kept as a blob.
    OutputScope { output: BlobRef = "outputRef" }
    /// A benchmark trial and the turn in which it runs.
    TrialScope {
        thread: ThreadId = "threadId",
        turn: TurnId = "turnId",
        task: TaskId = "taskId",
        run: RunId = "runId",
    }
}
