//! What can be taken out: evidence, replays, reviews.

use serde_json::{Value, json};

use super::declare::arguments;
use crate::{
    control::command::Arguments,
    fact::id::{SessionId, TaskId, ThreadId, TurnId},
};

macro_rules! exports {
    ($($(#[$doc:meta])+ $name:ident;)+) => {$(
        arguments! {
            $(#[$doc])+
            $name {
                /// The session.
                session_id: SessionId,
                ..
                /// Only this thread.
                thread_id: Option<ThreadId>,
                /// Only this turn.
                turn_id: Option<TurnId>,
                /// Only this task.
                task_id: Option<TaskId>,
            }
        }

        impl Arguments for $name {
            fn example() -> Value {
                json!({ "sessionId": "sess_demo", "turnId": "turn_1" })
            }
        }
    )+};
}

exports! {
    /// Packs what shows how a result came about: facts, outputs, decisions and their hashes.
    ExportEvidence;
    /// Packs what replays it: the facts in their order, and the inputs that they rest on.
    ExportReplay;
    /// Packs what a reviewer reads: the course of events, decisions, changes and open questions.
    ExportReview;
}
