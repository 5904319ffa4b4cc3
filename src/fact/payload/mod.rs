//! What facts say: one type for each event class of the Agent Runtime standard.
//!
//! The table at the end is the whole list: class, the ids that it needs, its name on the wire, and what of its payload
//! is repeated at the top of the envelope. A payload's own file says what is in it. Fields that may be absent come after
//! `..`; they are skipped when empty, so that fields can be added, and unknown ones are ignored.

mod action;
mod benchmark;
mod channel;
mod context;
mod cost;
mod declare;
mod evidence;
mod history;
mod hook;
mod job;
mod mirror;
mod model;
mod output;
mod permission;
mod process;
mod queue;
mod routing;
mod runtime;
mod sandbox;
mod session;
mod subagent;
mod task;
mod task_graph;
mod tool;
mod turn;

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, de::DeserializeOwned};

pub(crate) use self::mirror::Words;
pub use self::{
    action::*, benchmark::*, channel::*, context::*, cost::*, evidence::*, history::*, hook::*, job::*,
    model::*, output::*, permission::*, process::*, queue::*, routing::*, runtime::*, sandbox::*, session::*,
    subagent::*, task::*, task_graph::*, tool::*, turn::*,
};
pub(in crate::fact) use self::{declare::CursorText, mirror::Mirror};
use super::scope::*;

/// Content whose shape is its owner's: metadata, tool arguments, structured results.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// A class of facts: what they say and what they are about.
pub trait Class: Serialize + DeserializeOwned + JsonSchema + Into<Payload> {
    /// Its name.
    const TYPE: EventType;
    /// The ids that it needs.
    type Scope: Scope;
}

/// Why a text is not the name of a class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an event type that this version knows")]
pub struct UnknownEventType(pub String);

macro_rules! classes {
    ($($name:ident: $scope:ident = $wire:literal [$($mirrored:ident),*];)+) => {
        /// The name of a class.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventType {
            $(#[doc = concat!("`", $wire, "`")] $name,)+
        }

        impl EventType {
            /// Every class.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $wire,)+
                }
            }

            /// The class with that name.
            pub fn parse(text: &str) -> Result<Self, UnknownEventType> {
                match text {
                    $($wire => Ok(Self::$name),)+
                    _ => Err(UnknownEventType(text.chars().take(40).collect())),
                }
            }

            /// The ids that an event of this class carries at least, as they are called on the wire.
            pub const fn required_ids(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => <$scope as Scope>::REQUIRED,)+
                }
            }

            /// What of the payload is repeated at the top of the envelope, when it is there.
            pub const fn mirrored(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &[$(stringify!($mirrored)),*],)+
                }
            }

            /// The schema of its payload.
            pub(in crate::fact) fn payload_schema(self, generator: &mut SchemaGenerator) -> Schema {
                match self {
                    $(Self::$name => generator.subschema_for::<$name>(),)+
                }
            }
        }

        /// What a fact says. Boxed, so that facts are small whatever the largest class has in it.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Payload {
            $(#[doc = concat!("`", $wire, "`")] $name(Box<$name>),)+
        }

        impl Payload {
            /// The name of its class.
            pub const fn event_type(&self) -> EventType {
                match self {
                    $(Self::$name(_) => EventType::$name,)+
                }
            }

            /// Reads the payload of a class.
            pub(in crate::fact) fn deserialize<'de, D: Deserializer<'de>>(
                class: EventType,
                deserializer: D,
            ) -> Result<Self, D::Error> {
                match class {
                    $(EventType::$name => <$name as Deserialize>::deserialize(deserializer).map(Self::from),)+
                }
            }

            /// What the envelope repeats.
            pub(in crate::fact) fn mirror(&self) -> Mirror<'_> {
                match self {
                    $(Self::$name(_payload) => Mirror {
                        $($mirrored: mirror::Mirrored::mirrored(&_payload.$mirrored),)*
                        ..Mirror::default()
                    },)+
                }
            }
        }

        impl Serialize for Payload {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$name(payload) => payload.serialize(serializer),)+
                }
            }
        }

        $(
            impl Class for $name {
                const TYPE: EventType = EventType::$name;
                type Scope = $scope;
            }

            impl From<$name> for Payload {
                fn from(payload: $name) -> Self {
                    Self::$name(Box::new(payload))
                }
            }
        )+
    };
}

classes! {
    SessionCreated: SessionScope = "session.created" [status];
    SessionUpdated: SessionScope = "session.updated" [status];
    ThreadStarted: ThreadScope = "thread.started" [status];
    ThreadUpdated: ThreadScope = "thread.updated" [status];

    TurnSubmitted: TurnScope = "turn.submitted" [status];
    TurnStarted: TurnScope = "turn.started" [];
    TurnCompleted: TurnScope = "turn.completed" [status];
    TurnFailed: TurnScope = "turn.failed" [status];

    TaskCreated: TaskScope = "task.created" [status];
    TaskAccepted: TaskScope = "task.accepted" [status];
    TaskQueued: TaskScope = "task.queued" [status];
    TaskStarted: TaskScope = "task.started" [status];
    TaskUpdated: TaskScope = "task.updated" [status];
    TaskProgress: TaskScope = "task.progress" [status];
    TaskWaiting: TaskScope = "task.waiting" [status];
    TaskBlocked: TaskScope = "task.blocked" [status];
    TaskPaused: TaskScope = "task.paused" [status];
    TaskResumed: TaskScope = "task.resumed" [status];
    TaskRetrying: TaskScope = "task.retrying" [status];
    TaskCancelRequested: TaskScope = "task.cancel_requested" [status];
    TaskCancelled: TaskScope = "task.cancelled" [status];
    TaskTimedOut: TaskScope = "task.timed_out" [status];
    TaskFailed: TaskScope = "task.failed" [status];
    TaskLost: TaskScope = "task.lost" [status];
    TaskCompleted: TaskScope = "task.completed" [status];
    TaskArchived: TaskScope = "task.archived" [status];
    TaskProfileResolved: TaskScope = "task.profile.resolved" [];
    TaskDelegated: TaskScope = "task.delegated" [];
    TaskDependencyUpdated: TaskScope = "task.dependency.updated" [status];
    TaskAttemptStarted: AttemptScope = "task.attempt.started" [status];
    TaskAttemptCompleted: AttemptScope = "task.attempt.completed" [status];
    TaskAttemptFailed: AttemptScope = "task.attempt.failed" [status];

    RunStatus: TurnScope = "run.status" [];
    ModelRequested: TurnScope = "model.requested" [];
    ModelDelta: TurnScope = "model.delta" [];
    ModelCompleted: TurnScope = "model.completed" [];
    ModelFailed: TurnScope = "model.failed" [];
    ReasoningDelta: TurnScope = "reasoning.delta" [];
    ReasoningSummary: TurnScope = "reasoning.summary" [];

    ToolCatalogResolved: ToolScope = "tool.catalog.resolved" [];
    ToolStarted: ToolScope = "tool.started" [];
    ToolArgs: ToolScope = "tool.args" [];
    ToolProgress: ToolScope = "tool.progress" [];
    ToolResult: ToolScope = "tool.result" [];
    ToolFailed: ToolScope = "tool.failed" [status];

    ActionRequired: ActionScope = "action.required" [];
    ActionResolved: ActionScope = "action.resolved" [status];
    QueueChanged: ThreadScope = "queue.changed" [];

    ContextResolved: TurnScope = "context.resolved" [];
    ContextCompactionStarted: TurnScope = "context.compaction.started" [];
    ContextCompactionCompleted: TurnScope = "context.compaction.completed" [];
    ContextCompactionFailed: TurnScope = "context.compaction.failed" [];

    ArtifactChanged: ArtifactScope = "artifact.changed" [status];
    EvidenceChanged: EvidenceScope = "evidence.changed" [status];

    SubagentSpawned: SubagentScope = "subagent.spawned" [status];
    SubagentStatusChanged: SubagentScope = "subagent.status" [status];
    SubagentInput: SubagentScope = "subagent.input" [];
    SubagentCompleted: SubagentScope = "subagent.completed" [status];
    SubagentFailed: SubagentScope = "subagent.failed" [status];
    SubagentClosed: SubagentScope = "subagent.closed" [status];

    LimitChanged: SessionScope = "limit.changed" [];
    SnapshotUpdated: SessionScope = "snapshot.updated" [];
    SnapshotRepaired: SessionScope = "snapshot.repaired" [];
    RuntimeWarning: SessionScope = "runtime.warning" [];
    RuntimeError: SessionScope = "runtime.error" [];

    PermissionEvaluated: TurnScope = "permission.evaluated" [];
    PermissionRequested: TurnScope = "permission.requested" [];
    PermissionResolved: TurnScope = "permission.resolved" [];
    SandboxApplied: TurnScope = "sandbox.applied" [];
    SandboxViolation: TurnScope = "sandbox.violation" [];
    HookStarted: TurnScope = "hook.started" [];
    HookCompleted: TurnScope = "hook.completed" [];
    HookFailed: TurnScope = "hook.failed" [];
    PolicyChanged: SessionScope = "policy.changed" [];

    ProcessStarted: ProcessScope = "process.started" [];
    ProcessOutput: ProcessScope = "process.output" [];
    ProcessInput: ProcessScope = "process.input" [];
    ProcessCompleted: ProcessScope = "process.completed" [status];
    ProcessFailed: ProcessScope = "process.failed" [status];
    ProcessTerminated: ProcessScope = "process.terminated" [status];

    RoutingCandidatesResolved: TurnScope = "routing.candidates.resolved" [];
    RoutingDecided: TurnScope = "routing.decided" [];
    RoutingFallbackApplied: TurnScope = "routing.fallback.applied" [];
    RoutingNotPossible: TurnScope = "routing.not_possible" [];
    RoutingSingleCandidate: TurnScope = "routing.single_candidate" [];

    CostEstimated: TurnScope = "cost.estimated" [];
    CostRecorded: TurnScope = "cost.recorded" [];
    RateLimitHit: TurnScope = "rate_limit.hit" [];
    QuotaLow: TurnScope = "quota.low" [];
    QuotaBlocked: TurnScope = "quota.blocked" [];

    ChannelConnected: ChannelScope = "channel.connected" [];
    ChannelDisconnected: ChannelScope = "channel.disconnected" [];
    ChannelResumed: ChannelScope = "channel.resumed" [];
    ChannelMessage: ChannelScope = "channel.message" [];
    ChannelPermissionForwarded: ChannelActionScope = "channel.permission_forwarded" [];
    ChannelPermissionReturned: ChannelActionScope = "channel.permission_returned" [];

    JobCreated: JobScope = "job.created" [status];
    JobStarted: JobScope = "job.started" [status];
    JobProgress: JobScope = "job.progress" [status];
    JobItemStarted: ItemScope = "job.item.started" [status];
    JobItemCompleted: ItemScope = "job.item.completed" [status];
    JobItemFailed: ItemScope = "job.item.failed" [status];
    JobCompleted: JobScope = "job.completed" [status];
    JobFailed: JobScope = "job.failed" [status];
    JobCancelled: JobScope = "job.cancelled" [status];

    OutputSpilled: OutputScope = "output.spilled" [];
    OutputTruncated: TurnScope = "output.truncated" [];
    OutputRedacted: OutputScope = "output.redacted" [];
    OutputExpired: OutputScope = "output.expired" [];

    HistoryWindowLoaded: ThreadScope = "history.window.loaded" [];
    HistoryReconstructed: ThreadScope = "history.reconstructed" [];
    HistoryRollbackStarted: ThreadScope = "history.rollback.started" [];
    HistoryRollbackCompleted: ThreadScope = "history.rollback.completed" [];

    BenchmarkDatasetResolved: SessionScope = "benchmark.dataset.resolved" [benchmark, refs];
    BenchmarkConfigurationResolved: SessionScope = "benchmark.configuration.resolved" [benchmark, refs];
    BenchmarkTrialStarted: TrialScope = "benchmark.trial.started" [benchmark, refs];
    BenchmarkTrialCompleted: AttemptScope = "benchmark.trial.completed" [status, benchmark, refs, reward, trajectory];
    BenchmarkTrialFailed: AttemptScope = "benchmark.trial.failed" [status, benchmark, refs, trajectory];
    BenchmarkRewardRecorded: AttemptScope = "benchmark.reward.recorded" [benchmark, refs, reward];
    BenchmarkComparisonCompleted: SessionScope = "benchmark.comparison.completed" [benchmark, refs, comparison];
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for EventType {
    type Err = UnknownEventType;

    fn from_str(text: &str) -> Result<Self, UnknownEventType> {
        Self::parse(text)
    }
}

impl Serialize for EventType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EventType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;

        impl de::Visitor<'_> for Name {
            type Value = EventType;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an event type")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<EventType, E> {
                EventType::parse(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Name)
    }
}

impl JsonSchema for EventType {
    fn schema_name() -> Cow<'static, str> {
        "EventType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<_> = Self::ALL.iter().map(|class| class.as_str()).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

/// Reads the payload of a class.
pub(in crate::fact) struct PayloadOf(pub EventType);

impl<'de> de::DeserializeSeed<'de> for PayloadOf {
    type Value = Payload;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Payload, D::Error> {
        Payload::deserialize(self.0, deserializer)
    }
}
