//! Turns: submit, interrupt, and go on after a stop.

use serde_json::{Value, json};

use super::{budget::RunBudget, declare::arguments, input};
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::{
        Part,
        id::{SessionId, ThreadId, TurnId},
        payload::{Object, WhenBusy},
    },
};

arguments! {
    /// Asks an agent something. The turn runs at once or waits behind those that were submitted before it to the same
    /// thread; `options.whenBusy` can ask for something else. The answer comes as facts in the session's feed.
    SubmitTurn {
        /// What is asked, in parts: at least one, at most 1 MiB in all.
        #[serde(deserialize_with = "input::parts")]
        input: Vec<Part>,
        ..
        /// The session. A new one is made when absent, or when there is none with this id.
        session_id: Option<SessionId>,
        /// The thread: the session's first when absent.
        thread_id: Option<ThreadId>,
        /// The id that the turn shall have. The same id with the same arguments is the same turn; with others it is
        /// a conflict.
        turn_id: Option<TurnId>,
        /// Who answers: the agent of the session when absent, or else the tenant's default.
        agent: Option<String>,
        /// How it runs.
        options: TurnOptions,
        /// The caller's own, at most 16 KiB as JSON. It comes back in facts and read models.
        metadata: Object,
    }
}

arguments! {
    /// How a turn runs.
    #[derive(Default)]
    TurnOptions {
        ..
        /// The model, when it shall not be the agent's own.
        model: Option<String>,
        /// What happens when the thread is busy: `queue` waits behind the others, `reject` is a conflict, `interrupt`
        /// ends the running turn and runs next, `steer` gives the input to the running turn at its next step.
        when_busy: WhenBusy,
        /// How long it may take from submit to end, in milliseconds, at most 30 days.
        deadline_ms: Option<u64>,
        /// How urgent it is, in the words of the tenant: `low`, `high`, …
        priority: Option<String>,
        /// What it may use up: at least one bound. It can only lower what the node allows. A turn that has used it up fails
        /// with `budget_exceeded`; whatever it starts is bound by the same, each for itself.
        budget: Option<RunBudget>,
    }
}

impl Arguments for SubmitTurn {
    fn check(&self) -> Result<(), Error> {
        check::input("input", &self.input)?;
        check::name("agent", self.agent.as_deref())?;
        check::name("options.model", self.options.model.as_deref())?;
        check::range("options.deadlineMs", self.options.deadline_ms, check::WAIT_MS)?;
        check::name("options.priority", self.options.priority.as_deref())?;
        self.options.budget.map_or(Ok(()), |budget| budget.check("options.budget"))?;
        check::object("metadata", &self.metadata)
    }

    fn example() -> Value {
        json!({
            "sessionId": "sess_demo",
            "input": [{ "type": "text", "text": "What changed since yesterday?" }],
            "options": { "whenBusy": "queue", "deadlineMs": 60_000, "budget": { "steps": 50, "costUsd": 0.5 } },
        })
    }
}

arguments! {
    /// Ends the running turn of a thread, or a certain one, with all that it started. Answers when the whole tree is
    /// closed, or with `cancelling` when that takes longer than the caller waits. When nothing runs, nothing happens.
    InterruptTurn {
        /// The session.
        session_id: SessionId,
        ..
        /// The thread. When absent that of the turn; without a turn the first thread in which one runs.
        thread_id: Option<ThreadId>,
        /// The turn: whichever runs when absent.
        turn_id: Option<TurnId>,
        /// Why, at most 2 KiB.
        reason: Option<String>,
        /// Whether the turns that wait in that thread are removed, too. Those of other threads stay.
        clear_queue: bool,
    }

    /// Lets a thread go on whose last turn did not complete: it failed, was cancelled, timed out or was lost. A new turn
    /// is given the same input, with the attempts counted on: whatever the agent does is done again, and what is meant to
    /// fail only so often has failed so often already. After a restart nothing has to be resumed: turns go on by themselves.
    ResumeThread {
        /// The session.
        session_id: SessionId,
        /// The thread.
        thread_id: ThreadId,
        ..
        /// Where to go on, as a read model or fact said it. None says so yet, so any is refused. Absent: wherever the
        /// thread stopped.
        resume_token: Option<String>,
    }
}

impl Arguments for InterruptTurn {
    fn check(&self) -> Result<(), Error> {
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "reason": "the question was answered elsewhere", "clearQueue": false })
    }
}

impl Arguments for ResumeThread {
    fn check(&self) -> Result<(), Error> {
        check::token("resumeToken", self.resume_token.as_deref())
    }

    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "threadId": "thrd_demo" })
    }
}
