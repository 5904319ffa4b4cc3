//! Sessions, their threads, and what surrounds them.

use serde_json::{Value, json};

use super::{declare::arguments, limit::Limit};
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::{
        id::{SessionId, ThreadId, TurnId},
        payload::Object,
        status::SessionStatus,
    },
};

arguments! {
    /// Makes a session: a durable container of threads, turns, tasks, subagents and jobs with one feed.
    CreateSession {
        ..
        /// The id that it shall have. The same id with the same arguments is the same session.
        session_id: Option<SessionId>,
        /// What people call it, at most 512 characters.
        title: Option<String>,
        /// The agent of its turns, unless they name another.
        agent: Option<String>,
        /// The caller's own, at most 16 KiB as JSON.
        metadata: Object,
    }

    /// Changes what is known about a session. Absent is unchanged.
    UpdateSession {
        /// The session.
        session_id: SessionId,
        ..
        /// The new title, at most 512 characters.
        title: Option<String>,
        /// The new agent of its turns. Turns that run or wait keep theirs.
        agent: Option<String>,
        /// The new metadata, whole, at most 16 KiB as JSON.
        metadata: Option<Object>,
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }

    /// Closes a session for new work: it takes no turns, tasks, subagents, jobs or trials, and no further attempts of those
    /// that it has. What runs goes on to its end and can be controlled, and the history can still be read. Turns that wait
    /// are withdrawn, as `cancelled`; a job with a schedule ends as `cancelled` at its next time.
    ArchiveSession {
        /// The session.
        session_id: SessionId,
    }

    /// Reads a session: its threads, what runs and waits, and a window of its history.
    GetSession {
        /// The session.
        session_id: SessionId,
        ..
        /// The window ends before this place, which an earlier answer gave. Absent: at the newest.
        before: Option<String>,
        /// How many turns of each thread that are over; fewer when they are large. `history` says how to go on.
        limit: Limit,
    }

    /// Reads a thread: status, running turn, queue, pending requests, last outcome, incidents.
    GetThreadRead {
        /// The session.
        session_id: SessionId,
        /// The thread.
        thread_id: ThreadId,
    }

    /// Lists the sessions of the tenant, the newest first.
    ListSessions {
        ..
        /// Go on after this place: the `cursor` of the page before.
        after: Option<String>,
        /// How many at most.
        limit: Limit,
        /// Only those with this status.
        status: Option<SessionStatus>,
    }

    /// Reads which tools the caller can use here, and which not, and why.
    GetToolInventory {
        ..
        /// The session, whose policy counts. Absent: what the tenant allows.
        session_id: Option<SessionId>,
        /// The thread.
        thread_id: Option<ThreadId>,
        /// The turn: what was resolved for it.
        turn_id: Option<TurnId>,
        /// The agent: the session's own when absent.
        agent: Option<String>,
        /// The mode of the runtime that counts. There is one: `default`.
        mode: Option<String>,
    }

    /// Reads where things run: working directory, roots, limits, sandbox, active processes.
    GetExecutionEnvironment {
        /// The session.
        session_id: SessionId,
        ..
        /// The thread. Absent: all of them, or that of the turn.
        thread_id: Option<ThreadId>,
        /// A turn of the thread.
        turn_id: Option<TurnId>,
    }
}

impl Arguments for CreateSession {
    fn check(&self) -> Result<(), Error> {
        check::line("title", self.title.as_deref(), check::LINE_CHARS_MAX)?;
        check::name("agent", self.agent.as_deref())?;
        check::object("metadata", &self.metadata)
    }

    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "title": "Release notes", "metadata": { "team": "docs" } })
    }
}

impl Arguments for UpdateSession {
    fn check(&self) -> Result<(), Error> {
        check::line("title", self.title.as_deref(), check::LINE_CHARS_MAX)?;
        check::name("agent", self.agent.as_deref())?;
        if let Some(metadata) = &self.metadata {
            check::object("metadata", metadata)?;
        }
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "title": "Release notes, second draft" })
    }
}

impl Arguments for ArchiveSession {
    fn example() -> Value {
        json!({ "sessionId": "sess_demo" })
    }
}

impl Arguments for GetSession {
    fn check(&self) -> Result<(), Error> {
        check::token("before", self.before.as_deref())
    }

    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "limit": 20 })
    }
}

impl Arguments for GetThreadRead {
    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "threadId": "thrd_demo" })
    }
}

impl Arguments for ListSessions {
    fn check(&self) -> Result<(), Error> {
        check::token("after", self.after.as_deref())
    }

    fn example() -> Value {
        json!({ "status": "active", "limit": 20 })
    }
}

impl Arguments for GetToolInventory {
    fn check(&self) -> Result<(), Error> {
        check::name("agent", self.agent.as_deref())?;
        check::name("mode", self.mode.as_deref())
    }

    fn example() -> Value {
        json!({ "sessionId": "sess_demo" })
    }
}

impl Arguments for GetExecutionEnvironment {
    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "threadId": "thrd_demo" })
    }
}
