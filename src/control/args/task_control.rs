//! Tasks: start, pause, go on, try again, cancel.

use serde_json::{Value, json};

use super::{declare::arguments, task::yes};
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::id::TaskId,
};

arguments! {
    /// Starts a task that was made with `autoStart: false`. It still waits for what it depends on.
    StartTask {
        /// The task.
        task_id: TaskId,
        ..
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }

    /// Stops a task for a while. A running attempt stops at its next step.
    PauseTask {
        /// The task.
        task_id: TaskId,
        ..
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }

    /// Lets a paused task go on.
    ResumeTask {
        /// The task.
        task_id: TaskId,
        ..
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }

    /// Starts a new attempt of a task that failed, timed out, was cancelled or lost. A completed one is a conflict.
    RetryTask {
        /// The task.
        task_id: TaskId,
        ..
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }

    /// Ends a task. Answers when all of it is closed, or with `cancelling` when that takes longer than the caller
    /// waits.
    CancelTask {
        /// The task.
        task_id: TaskId,
        ..
        /// Why, at most 2 KiB.
        reason: Option<String>,
        /// Whether its parts, subagents and jobs end too. Absent: yes.
        propagate: bool = "yes",
    }
}

macro_rules! reasoned {
    ($($name:ident: $reason:literal;)+) => {$(
        impl Arguments for $name {
            fn check(&self) -> Result<(), Error> {
                check::reason(&self.reason)
            }

            fn example() -> Value {
                json!({ "taskId": "task_notes", "reason": $reason })
            }
        }
    )+};
}

reasoned! {
    StartTask: "the draft was reviewed";
    PauseTask: "waiting for the release date";
    ResumeTask: "the date is known";
    RetryTask: "the provider is back";
    CancelTask: "the release was called off";
}
