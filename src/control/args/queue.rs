//! Turns that wait.

use serde_json::{Value, json};

use super::declare::arguments;
use crate::{
    control::command::Arguments,
    fact::id::{SessionId, ThreadId, TurnId},
};

arguments! {
    /// Takes a turn out of the queue. It ends as cancelled and never runs. One that runs already is a conflict: see
    /// `interrupt_turn`.
    RemoveQueuedTurn {
        /// The session.
        session_id: SessionId,
        /// The thread.
        thread_id: ThreadId,
        /// The turn.
        turn_id: TurnId,
    }

    /// Puts a waiting turn to the front of its queue. The running turn goes on.
    PromoteQueuedTurn {
        /// The session.
        session_id: SessionId,
        /// The thread.
        thread_id: ThreadId,
        /// The turn.
        turn_id: TurnId,
    }
}

impl Arguments for RemoveQueuedTurn {
    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "threadId": "thrd_demo", "turnId": "turn_2" })
    }
}

impl Arguments for PromoteQueuedTurn {
    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "threadId": "thrd_demo", "turnId": "turn_3" })
    }
}
