//! Subagents: children with threads of their own.

use serde_json::{Value, json};

use super::{budget::RunBudget, declare::arguments, input, limit::Limit, parent::ParentId};
use crate::{
    control::{check, command::Arguments, error::Error, words::words},
    fact::{
        Part,
        id::{SessionId, SubagentId, TaskId, ThreadId, TurnId},
        payload::Object,
        status::SubagentStatus,
    },
};

words! {
    /// How many have to end before a wait ends.
    WaitMode {
        /// All of them.
        All = "all",
        /// The first of them.
        Any = "any",
    }
}

arguments! {
    /// Makes a subagent: an agent with a thread of its own that works for a turn, a task or another subagent, and ends
    /// with it.
    SpawnSubagent {
        /// The session.
        session_id: SessionId,
        /// What it is asked, in parts: at least one, at most 1 MiB in all.
        #[serde(deserialize_with = "input::parts")]
        input: Vec<Part>,
        ..
        /// The id that it shall have. The same id with the same arguments is the same subagent.
        subagent_id: Option<SubagentId>,
        /// The thread that it works for.
        thread_id: Option<ThreadId>,
        /// The turn that it works for: interrupting that ends it.
        turn_id: Option<TurnId>,
        /// The task that it works for: cancelling that ends it.
        task_id: Option<TaskId>,
        /// The subagent that it works for: closing that ends it.
        parent_subagent_id: Option<SubagentId>,
        /// What it is for: `reviewer`, …
        role: Option<String>,
        /// What people call it.
        nickname: Option<String>,
        /// Who it is: the session's agent when absent.
        agent: Option<String>,
        /// What it shares with its parent: `none`, `workspace`, …
        isolation: Option<String>,
        /// Which models it may use, at most 16 KiB as JSON.
        model_policy: Option<Object>,
        /// How long it may take, in milliseconds, at most 30 days.
        deadline_ms: Option<u64>,
        /// What each attempt may use up: at least one bound. It can only lower what the parent and the node allow.
        budget: Option<RunBudget>,
    }

    /// Tells a subagent that runs something more: it hears that at its next step. What it has not heard yet is bounded to
    /// 16 KiB. One that is over can be told something with `resume_subagent`.
    SendSubagentInput {
        /// The subagent.
        subagent_id: SubagentId,
        /// What it is told, in parts: at least one, at most 1 MiB in all.
        #[serde(deserialize_with = "input::parts")]
        input: Vec<Part>,
    }

    /// Waits until subagents have ended. When the time is over first, the answer has `timedOut: true` and tells how
    /// they stand. Either `subagentIds` or `parentId` must be there, not both.
    WaitSubagents {
        /// How many have to end: `all` or `any`.
        mode: WaitMode,
        /// How long to wait, in milliseconds, at most 30 days.
        timeout_ms: u64,
        ..
        /// The subagents: at most 1,000, none twice.
        subagent_ids: Option<Vec<SubagentId>>,
        /// The direct children of this subagent, task or turn, however many they are; when several have the id, of the
        /// first of these.
        parent_id: Option<ParentId>,
        /// The session. It has to be named with a turn that a subagent, a task's attempt or a job's item runs, and with
        /// one whose id turns of several sessions have.
        session_id: Option<SessionId>,
    }

    /// Starts a new attempt of a subagent that failed, timed out, was closed or lost. A completed one is a conflict.
    ResumeSubagent {
        /// The subagent.
        subagent_id: SubagentId,
        ..
        /// What it is told, in parts. Absent: what it was asked first.
        #[serde(deserialize_with = "input::parts")]
        input: Vec<Part>,
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }

    /// Ends a subagent and its children. Answers when all of them are closed, or with `cancelling` when that takes
    /// longer than the caller waits.
    CloseSubagent {
        /// The subagent.
        subagent_id: SubagentId,
        ..
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }

    /// Lists the subagents of a session, parents before their children and those of one parent by their ids: those that
    /// Cadre made the oldest first. Ids that callers bring are among them as text.
    ListSubagents {
        /// The session.
        session_id: SessionId,
        ..
        /// Only the children of this subagent, task or turn; when several have the id, of the first of these.
        parent_id: Option<ParentId>,
        /// Only those with this status.
        status: Option<SubagentStatus>,
        /// How many generations: 1 is only the children. Absent: all.
        depth: Option<u32>,
        /// Go on after this place: the `cursor` of the page before.
        after: Option<String>,
        /// How many at most.
        limit: Limit,
    }
}

impl Arguments for SpawnSubagent {
    fn check(&self) -> Result<(), Error> {
        check::input("input", &self.input)?;
        if self.subagent_id.is_some() {
            check::not_itself("parentSubagentId", self.parent_subagent_id == self.subagent_id)?;
        }
        check::name("role", self.role.as_deref())?;
        check::name("nickname", self.nickname.as_deref())?;
        check::name("agent", self.agent.as_deref())?;
        check::name("isolation", self.isolation.as_deref())?;
        check::json("modelPolicy", &self.model_policy, check::OBJECT_BYTES_MAX)?;
        self.budget.map_or(Ok(()), |budget| budget.check("budget"))?;
        check::range("deadlineMs", self.deadline_ms, check::WAIT_MS)
    }

    fn example() -> Value {
        json!({
            "sessionId": "sess_demo",
            "turnId": "turn_1",
            "role": "reviewer",
            "input": [{ "type": "text", "text": "Review the draft" }],
            "deadlineMs": 300_000,
        })
    }
}

impl Arguments for SendSubagentInput {
    fn check(&self) -> Result<(), Error> {
        check::input("input", &self.input)
    }

    fn example() -> Value {
        json!({ "subagentId": "sub_1", "input": [{ "type": "text", "text": "Look at the dates, too" }] })
    }
}

impl Arguments for WaitSubagents {
    fn check(&self) -> Result<(), Error> {
        check::exactly_one(&[
            ("subagentIds", self.subagent_ids.is_some()),
            ("parentId", self.parent_id.is_some()),
        ])?;
        if let Some(ids) = &self.subagent_ids {
            check::count("subagentIds", ids.len(), 1..=check::WAITED_MAX)?;
            check::distinct("subagentIds", ids)?;
        }
        check::range("timeoutMs", Some(self.timeout_ms), check::WAIT_MS)
    }

    fn example() -> Value {
        json!({ "subagentIds": ["sub_1", "sub_2"], "mode": "all", "timeoutMs": 30_000 })
    }
}

impl Arguments for ResumeSubagent {
    fn check(&self) -> Result<(), Error> {
        check::optional_input("input", &self.input)?;
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({ "subagentId": "sub_1", "reason": "the provider is back" })
    }
}

impl Arguments for CloseSubagent {
    fn check(&self) -> Result<(), Error> {
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({ "subagentId": "sub_1", "reason": "no longer needed" })
    }
}

impl Arguments for ListSubagents {
    fn check(&self) -> Result<(), Error> {
        check::range("depth", self.depth, check::DEPTH)?;
        check::token("after", self.after.as_deref())
    }

    fn example() -> Value {
        json!({ "sessionId": "sess_demo", "parentId": "turn_1", "depth": 1 })
    }
}
