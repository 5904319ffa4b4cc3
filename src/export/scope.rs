//! Which facts an export is about.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::fact::{
    Event, Payload,
    id::{SubagentId, TaskId, ThreadId, TurnId},
};

/// What was asked for: all of a session, or what carries these ids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// Only this thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
    /// Only this turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// Only this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
}

impl Scope {
    /// Whether all of the session is meant.
    pub fn is_all(&self) -> bool {
        *self == Self::default()
    }
}

/// Looks at the facts of a session in their order and says which belong to a scope: those that carry all of its ids,
/// and everything below them. A task below the task, a subagent that was started there, and what those start, belong to
/// it as a whole.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    scope: Scope,
    /// Tasks that belong to it as a whole.
    pub tasks: BTreeSet<TaskId>,
    /// Subagents that belong to it as a whole.
    pub subagents: BTreeSet<SubagentId>,
    seen: Scope,
}

impl Selection {
    /// Of a scope.
    pub fn new(scope: Scope) -> Self {
        let tasks = scope.task_id.iter().filter(|_| scope.thread_id.is_none() && scope.turn_id.is_none());
        Self { tasks: tasks.cloned().collect(), scope, ..Self::default() }
    }

    /// The thread or turn that was asked for begins with this fact. When it is the own one of a subagent or of an attempt
    /// of a task, that belongs to it as a whole: its beginning and its end are told elsewhere than in the thread.
    pub fn begins_with(&mut self, first: &Event) {
        let (scope, ids) = (&self.scope, &first.fact.ids);
        let is_it = scope.thread_id.as_ref().is_none_or(|thread| ids.thread() == Some(thread))
            && scope.turn_id.as_ref().is_none_or(|turn| ids.turn() == Some(turn))
            && scope.task_id.as_ref().is_none_or(|task| ids.task() == Some(task));
        match &first.fact.payload {
            Payload::SubagentSpawned(_) if is_it => self.subagents.extend(ids.subagent().cloned()),
            Payload::TaskAttemptStarted(_) if is_it => self.tasks.extend(ids.task().cloned()),
            _ => {}
        }
    }

    /// What was asked for, with the thread of the turn.
    pub fn scope(&self) -> Scope {
        Scope {
            thread_id: self.scope.thread_id.clone().or_else(|| self.seen.thread_id.clone()),
            ..self.scope.clone()
        }
    }

    /// Whether the fact belongs to it.
    pub fn takes(&mut self, event: &Event) -> bool {
        if self.scope.is_all() {
            return true;
        }
        let ids = &event.fact.ids;
        let carries = self.carries(event);
        let below = ids.subagent().is_some_and(|subagent| self.subagents.contains(subagent))
            || [ids.task(), ids.parent_task(), ids.root_task()]
                .into_iter()
                .flatten()
                .any(|task| self.tasks.contains(task));
        let started = self.starts(event);
        if (below || started) && event.stream.starts_with("task:") {
            self.tasks.extend(ids.task().cloned());
        }
        if started || (below && event.stream.starts_with("subagent:")) {
            self.subagents.extend(ids.subagent().cloned());
        }
        carries || below || started
    }

    fn carries(&mut self, event: &Event) -> bool {
        let (scope, ids) = (&self.scope, &event.fact.ids);
        let thread = scope.thread_id.as_ref().is_none_or(|thread| ids.thread() == Some(thread));
        let turn = scope.turn_id.as_ref().is_none_or(|turn| ids.turn() == Some(turn));
        let task = scope.task_id.as_ref().is_none_or(|task| ids.task() == Some(task));
        let all = thread && turn && task;
        if all {
            self.seen.task_id = scope.task_id.clone().or(self.seen.task_id.take());
            self.seen.turn_id = scope.turn_id.clone().or(self.seen.turn_id.take());
            if scope.thread_id.is_some() || scope.turn_id.is_some() {
                self.seen.thread_id = self.seen.thread_id.take().or_else(|| ids.thread().cloned());
            }
        }
        all
    }

    /// Whether a subagent begins with it that something in the scope has started.
    fn starts(&self, event: &Event) -> bool {
        let Payload::SubagentSpawned(spawned) = &event.fact.payload else { return false };
        let scope = &self.scope;
        let child = spawned.parent_subagent_id.as_ref().is_some_and(|id| self.subagents.contains(id))
            || spawned.parent_task_id.as_ref().is_some_and(|id| self.tasks.contains(id));
        let in_thread =
            scope.thread_id.as_ref().is_none_or(|id| spawned.parent_thread_id.as_ref() == Some(id));
        let in_turn = scope.turn_id.as_ref().is_none_or(|id| spawned.parent_turn_id.as_ref() == Some(id));
        let in_task = scope.task_id.as_ref().is_none_or(|id| spawned.parent_task_id.as_ref() == Some(id));
        child || (in_thread && in_turn && in_task)
    }

    /// The id that was asked for and that no fact carries: what it is, its field, itself.
    pub fn unknown(&self) -> Option<(&'static str, &'static str, String)> {
        let (scope, seen) = (&self.scope, &self.seen);
        let any = seen.thread_id.is_some() || seen.turn_id.is_some() || seen.task_id.is_some();
        if any {
            return None;
        }
        if let Some(turn) = &scope.turn_id {
            return Some(("turn", "turnId", turn.to_string()));
        }
        if let Some(task) = &scope.task_id {
            return Some(("task", "taskId", task.to_string()));
        }
        scope.thread_id.as_ref().map(|thread| ("thread", "threadId", thread.to_string()))
    }
}
