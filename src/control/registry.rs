//! Every command, once. Routes, channel, command line and documentation are made from this list, and whoever executes
//! commands matches on [`AnyCommand`], so that a command cannot be forgotten in one of them.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{
    args::*,
    command::{Command, Group, Kind, Scope, parse},
    error::Error,
    result::*,
    spec::{Spec, schema},
};

/// All commands.
#[derive(Debug)]
pub struct Registry {
    commands: Vec<Spec>,
}

impl Registry {
    /// Every command, in the order of the documentation.
    pub fn commands(&self) -> impl ExactSizeIterator<Item = &Spec> {
        self.commands.iter()
    }

    /// The command with that name.
    pub fn find(&self, name: &str) -> Result<&Spec, Error> {
        self.commands.iter().find(|command| command.name == name).ok_or_else(|| unknown(name))
    }

    /// As `GET /v1/commands` answers.
    pub fn to_json(&self) -> Value {
        let commands: Vec<_> = self.commands().map(Spec::to_json).collect();
        json!({ "commands": commands, "error": schema::<Error>() })
    }
}

fn unknown(name: &str) -> Error {
    Error::not_found("command", name.chars().take(64).collect::<String>())
}

/// All commands.
pub fn registry() -> &'static Registry {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry { commands: specs() });
    &REGISTRY
}

macro_rules! commands {
    ($($group:ident {
        $($name:ident = $wire:literal: $kind:ident $scope:ident -> $result:ty, $summary:literal;)+
    })+) => {
        /// A command with its arguments. Boxed, because the largest are much larger than the others.
        #[derive(Debug, Clone, PartialEq)]
        pub enum AnyCommand {
            $($(#[doc = concat!("`", $wire, "`")] $name(Box<$name>),)+)+
        }

        impl AnyCommand {
            /// Reads and checks the arguments of the command with that name.
            pub fn parse(name: &str, arguments: Value) -> Result<Self, Error> {
                match name {
                    $($($wire => parse::<$name>(arguments).map(Self::from),)+)+
                    _ => Err(unknown(name)),
                }
            }

            /// Its name.
            pub const fn name(&self) -> &'static str {
                match self {
                    $($(Self::$name(_) => $wire,)+)+
                }
            }

            /// Whether it changes something.
            pub const fn kind(&self) -> Kind {
                match self {
                    $($(Self::$name(_) => Kind::$kind,)+)+
                }
            }

            /// What a credential must have.
            pub const fn scope(&self) -> Scope {
                match self {
                    $($(Self::$name(_) => Scope::$scope,)+)+
                }
            }

            /// Its arguments, complete: the same for the same command however it was written.
            ///
            /// # Panics
            /// When they are not JSON, which is a bug in their type.
            pub fn arguments(&self) -> Value {
                let arguments = match self {
                    $($(Self::$name(arguments) => serde_json::to_value(arguments),)+)+
                };
                arguments.expect("arguments serialize into memory without fail")
            }
        }

        /// The same command after it was stored as a part of something.
        #[cfg(test)]
        fn stored(command: &AnyCommand) -> AnyCommand {
            use cadre_cluster::codec::{pack, unpack};

            match command {
                $($(AnyCommand::$name(arguments) => {
                    unpack::<$name>($wire, &pack(arguments)).expect("it is what was stored").into()
                })+)+
            }
        }

        fn specs() -> Vec<Spec> {
            vec![$($(Spec::of::<$name>(),)+)+]
        }

        $($(
            impl Command for $name {
                const NAME: &'static str = $wire;
                const GROUP: Group = Group::$group;
                const KIND: Kind = Kind::$kind;
                const SCOPE: Scope = Scope::$scope;
                const SUMMARY: &'static str = $summary;
                type Result = $result;
            }

            impl From<$name> for AnyCommand {
                fn from(arguments: $name) -> Self {
                    Self::$name(Box::new(arguments))
                }
            }
        )+)+
    };
}

commands! {
    Turns {
        SubmitTurn = "submit_turn": Write Submit -> TurnSubmission, "Ask an agent something";
        InterruptTurn = "interrupt_turn": Write Submit -> Interrupted, "End a turn and all that it started";
        ResumeThread = "resume_thread": Write Submit -> ThreadResumed, "Let a thread go on that stopped";
        RemoveQueuedTurn = "remove_queued_turn": Write Submit -> QueueState, "Take a turn out of the queue";
        PromoteQueuedTurn = "promote_queued_turn": Write Submit -> QueueState, "Put a turn to the front of the queue";
        RespondAction = "respond_action": Write Approve -> ActionState, "Answer a decision that is waited for";
    }
    Sessions {
        CreateSession = "create_session": Write Submit -> SessionState, "Make a session";
        UpdateSession = "update_session": Write Submit -> SessionState, "Change what is known about a session";
        ArchiveSession = "archive_session": Write Submit -> SessionState, "Close a session for new work";
        RollbackThread = "rollback_thread": Write Submit -> ThreadRolledBack, "Take the last turns of a thread back";
        CompactContext = "compact_context": Write Submit -> ContextCompacted,
            "Let a summary stand for the beginning of a thread";
        GetSession = "get_session": Read Read -> SessionSnapshot, "Read a session";
        GetThreadRead = "get_thread_read": Read Read -> ThreadRead, "Read a thread";
        ListSessions = "list_sessions": Read Read -> Sessions, "List sessions";
        GetToolInventory = "get_tool_inventory": Read Read -> ToolInventory, "Read which tools there are";
        GetExecutionEnvironment = "get_execution_environment": Read Read -> ExecutionEnvironment,
            "Read where things run";
    }
    Tasks {
        CreateTask = "create_task": Write Submit -> TaskState, "Make a task";
        UpdateTask = "update_task": Write Submit -> TaskState, "Change what is known about a task";
        StartTask = "start_task": Write Submit -> TaskState, "Start a task";
        AppendTaskProgress = "append_task_progress": Write Submit -> TaskState, "Say how far a task is";
        PauseTask = "pause_task": Write Submit -> TaskState, "Stop a task for a while";
        ResumeTask = "resume_task": Write Submit -> TaskState, "Let a paused task go on";
        CancelTask = "cancel_task": Write Submit -> TaskState, "End a task";
        RetryTask = "retry_task": Write Submit -> TaskState, "Try a task again";
        CompleteTask = "complete_task": Write Submit -> TaskState, "Say that a task has reached its objective";
        FailTask = "fail_task": Write Submit -> TaskState, "Say that a task cannot reach its objective";
        GetTask = "get_task": Read Read -> GetTaskResult, "Read a task";
        ListTasks = "list_tasks": Read Read -> Tasks, "List tasks";
        LinkTasks = "link_tasks": Write Submit -> TaskLink, "Add an edge between two tasks";
        UnlinkTasks = "unlink_tasks": Write Submit -> TaskLink, "Remove an edge between two tasks";
    }
    Subagents {
        SpawnSubagent = "spawn_subagent": Write Submit -> SubagentState, "Make a subagent";
        SendSubagentInput = "send_subagent_input": Write Submit -> SubagentState, "Tell a subagent something more";
        WaitSubagents = "wait_subagents": Read Read -> Waited, "Wait until subagents have ended";
        ResumeSubagent = "resume_subagent": Write Submit -> SubagentState, "Try a subagent again";
        CloseSubagent = "close_subagent": Write Submit -> SubagentState, "End a subagent and its children";
        ListSubagents = "list_subagents": Read Read -> Subagents, "List subagents";
    }
    Jobs {
        CreateJob = "create_job": Write Submit -> JobState, "Make a job of many items";
        ListJobs = "list_jobs": Read Read -> Jobs, "List jobs";
        GetJob = "get_job": Read Read -> GetJobResult, "Read a job and its items";
        RetryJobItem = "retry_job_item": Write Submit -> JobItemState, "Try an item again";
        CancelJob = "cancel_job": Write Submit -> JobState, "End a job and its items";
    }
    Governance {
        EvaluatePermission = "evaluate_permission": Write Submit -> PermissionVerdict,
            "Ask whether something may be done";
        ResolvePermission = "resolve_permission": Write Approve -> PermissionState,
            "Answer a request for permission";
        WriteProcessStdin = "write_process_stdin": Write Submit -> ProcessState,
            "Write to the input of a process";
        TerminateProcess = "terminate_process": Write Submit -> ProcessState, "End a process";
    }
    Exports {
        ExportEvidence = "export_evidence": Write Read -> Exported, "Pack what shows how a result came about";
        ExportReplay = "export_replay": Write Read -> Exported, "Pack what replays it";
        ExportReview = "export_review": Write Read -> Exported, "Pack what a reviewer reads";
        StartBenchmarkTrial = "start_benchmark_trial": Write Submit -> TrialState, "Begin a trial";
        RecordBenchmarkReward = "record_benchmark_reward": Write Submit -> TrialState, "Say how good a trial was";
        ExportBenchmarkTrial = "export_benchmark_trial": Write Read -> Exported, "Pack a trial";
        CompareBenchmarkRuns = "compare_benchmark_runs": Write Submit -> Compared,
            "Compare a candidate with its baseline";
    }
    Channels {
        ReconnectChannel = "reconnect_channel": Write Read -> Reconnected, "Take a channel up again";
        AckEvents = "ack_events": Write Read -> Acked, "Say that events have arrived";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_can_be_part_of_what_is_stored() {
        for spec in registry().commands() {
            let command = AnyCommand::parse(spec.name, spec.example.clone()).unwrap();
            assert_eq!(stored(&command), command);
        }
        let outputs =
            json!(["blob_1", { "ref": "blob_2", "title": "notes" }, { "ref": "blob_3", "sizeBytes": 5 }]);
        let progress = json!({ "taskId": "task_1", "outputRefs": outputs });
        let command = AnyCommand::parse("append_task_progress", progress).unwrap();
        assert_eq!(stored(&command), command);
        let blob = json!({ "input": [{ "type": "blob", "ref": "blob_1", "mediaType": "image/png" }] });
        let command = AnyCommand::parse("submit_turn", blob).unwrap();
        assert_eq!(stored(&command), command);
    }

    #[test]
    fn a_command_is_the_same_however_it_is_written() {
        let short = json!({ "input": [{ "type": "text", "text": "x" }] });
        let long = json!({ "sessionId": null, "options": { "whenBusy": "queue" }, "input": short["input"] });
        let read = |arguments| AnyCommand::parse("submit_turn", arguments).unwrap().arguments();
        assert_eq!(read(short), read(long));
    }
}
