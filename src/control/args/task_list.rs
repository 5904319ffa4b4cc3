//! Tasks: which there are, and what they have to do with each other.

use serde_json::{Value, json};

use super::{declare::arguments, limit::Limit};
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::{
        id::{SessionId, TaskId},
        status::TaskStatus,
    },
};

arguments! {
    /// Reads a task: what it is, how it stands, its attempts and edges.
    GetTask {
        /// The task.
        task_id: TaskId,
    }

    /// Lists tasks by their ids, the last one first: of ids that Cadre made that is the newest. Ids that callers bring are
    /// among them as text.
    ListTasks {
        ..
        /// Only those of this session.
        session_id: Option<SessionId>,
        /// Only those with this status.
        status: Option<TaskStatus>,
        /// Only the parts of this task.
        parent_task_id: Option<TaskId>,
        /// Go on after this place: the `cursor` of the page before.
        after: Option<String>,
        /// How many at most.
        limit: Limit,
    }

    /// Adds an edge between two tasks. With `depends_on` the first waits for the second; an edge that would close a
    /// circle is a conflict. Other kinds are kept for whoever reads them.
    LinkTasks {
        /// The task that the edge belongs to.
        from: TaskId,
        /// The other end.
        to: TaskId,
        /// What the edge means: `depends_on`, `parent`, `source`, …
        kind: String,
        ..
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }

    /// Removes an edge between two tasks. When there is none, nothing happens.
    UnlinkTasks {
        /// The task that the edge belongs to.
        from: TaskId,
        /// The other end.
        to: TaskId,
        /// What the edge means.
        kind: String,
        ..
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }
}

/// The kind of edge whose first end waits for the second.
pub const DEPENDS_ON: &str = "depends_on";

impl Arguments for GetTask {
    fn example() -> Value {
        json!({ "taskId": "task_notes" })
    }
}

impl Arguments for ListTasks {
    fn check(&self) -> Result<(), Error> {
        check::token("after", self.after.as_deref())
    }

    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "status": "running", "limit": 20 })
    }
}

macro_rules! edges {
    ($($name:ident),+) => {$(
        impl Arguments for $name {
            fn check(&self) -> Result<(), Error> {
                check::not_itself("to", self.from == self.to)?;
                check::name("kind", Some(&self.kind))?;
                check::reason(&self.reason)
            }

            fn example() -> Value {
                json!({ "from": "task_notes", "to": "task_changelog", "kind": DEPENDS_ON })
            }
        }
    )+};
}

edges!(LinkTasks, UnlinkTasks);
