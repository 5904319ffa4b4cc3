//! What a task has to do with others: it waits for some, and others wait for it.

use super::decide::Step;
use crate::{
    control::Error,
    entity::{Message, kind, records},
    fact::{
        id::TaskId,
        payload::{TaskBlocked, TaskDependencyUpdated},
        status::TaskStatus,
    },
    view::TaskView,
};

/// What an edge takes in a state.
const EDGE_BYTES_MAX: usize = 160;
/// The kind of edge that makes a task wait.
pub const BLOCKS: &str = "blocks";

impl Step<'_> {
    /// Waits for another task.
    pub(super) fn need(&mut self, need: TaskId, reason: Option<String>) {
        let to = self.draft.peer(kind::TASK, need.as_str());
        self.draft.send(to, Message::Watch { task: self.work.id.clone() });
        self.draft.set_record(records::edge(&need, &self.work.id), &[][..]);
        let updated = TaskDependencyUpdated {
            kind: BLOCKS.into(),
            target: need.clone(),
            status: Some("waiting".into()),
            reason,
            removed: false,
        };
        self.tell(updated);
        self.work.needs.insert(need, None);
        self.tell_blocked();
    }

    /// Whether something that it waits for has not completed.
    pub(super) fn is_blocked(&self) -> bool {
        self.work.needs.values().any(|status| *status != Some(TaskStatus::Completed))
    }

    pub(super) fn why_blocked(&self) -> String {
        let waits: Vec<String> = self
            .work
            .needs
            .iter()
            .filter(|(_, status)| **status != Some(TaskStatus::Completed))
            .map(|(task, status)| match status {
                None => format!("{task} has not ended"),
                Some(TaskStatus::Unknown) => format!("{task} does not exist yet"),
                Some(status) => format!("{task} is {status}"),
            })
            .collect();
        waits.join(", ")
    }

    pub(super) fn tell_blocked(&mut self) {
        if self.work.status != TaskStatus::Blocked {
            self.set_status(TaskStatus::Blocked);
        }
        let waits = |(_, status): &(&TaskId, &Option<TaskStatus>)| **status != Some(TaskStatus::Completed);
        let blocked = TaskBlocked {
            status: TaskStatus::Blocked,
            reason: self.why_blocked(),
            waiting_for: self.work.needs.iter().filter(waits).map(|(task, _)| task.clone()).collect(),
        };
        self.tell(blocked);
    }

    /// A task that it waits for has ended.
    pub(super) fn need_ended(&mut self, task: &TaskId, status: TaskStatus) {
        let Some(known) = self.work.needs.get_mut(task) else { return };
        if *known == Some(TaskStatus::Completed) {
            return;
        }
        *known = Some(status);
        let updated = TaskDependencyUpdated {
            kind: BLOCKS.into(),
            target: task.clone(),
            status: Some(status.as_str().into()),
            reason: None,
            removed: false,
        };
        if self.work.status.is_terminal() {
            return; // no fact follows the terminal one (P11)
        }
        self.tell(updated);
        self.unblock();
    }

    /// Something that it waited for is out of the way, or stands worse than before.
    pub(super) fn unblock(&mut self) {
        if self.work.status != TaskStatus::Blocked {
            return;
        }
        if self.is_blocked() {
            self.tell_blocked();
        } else {
            self.set_status(TaskStatus::Accepted);
            let accepted = crate::fact::payload::TaskAccepted {
                status: TaskStatus::Accepted,
                reason: Some("nothing blocks it any more".into()),
                by: None,
            };
            self.tell(accepted);
            self.go_on();
        }
    }

    pub(super) fn link(&mut self, kind: String, target: String, reason: Option<String>) -> Result<(), Error> {
        self.require_open("be linked")?;
        let other = TaskId::parse(&target).map_err(|error| Error::invalid("to", error.to_string()))?;
        if kind != BLOCKS {
            let updated = TaskDependencyUpdated { kind, target: other, status: None, reason, removed: false };
            self.tell(updated);
            return Ok(());
        }
        if self.work.needs.contains_key(&other) {
            return Ok(());
        }
        let startable = [TaskStatus::Draft, TaskStatus::Accepted, TaskStatus::Queued, TaskStatus::Blocked];
        self.require(&startable, "be blocked by another")?;
        let limit = self.draft.engine.limits.task_edges;
        if self.work.needs.len() >= limit {
            return Err(Error::rate_limited(60_000, format!("a task waits for at most {limit} others")));
        }
        if !self.draft.take_spare(EDGE_BYTES_MAX) {
            return Err(Error::rate_limited(60_000, "the task has too much going on to wait for another"));
        }
        self.need(other, reason);
        Ok(())
    }

    pub(super) fn unlink(
        &mut self,
        kind: &str,
        target: &str,
        reason: Option<String>,
        view: &TaskView,
    ) -> Result<(), Error> {
        self.require_open("be unlinked")?;
        let other = TaskId::parse(target).map_err(|error| Error::invalid("to", error.to_string()))?;
        if kind == BLOCKS {
            // Also one that a link has left behind of which nobody knows whether it was taken on.
            self.draft.clear_record(records::edge(&other, &self.work.id));
            if !self.work.needs.contains_key(&other) {
                return Ok(());
            }
        } else if !view.may_have(kind, target) {
            return Ok(());
        }
        let updated = TaskDependencyUpdated {
            kind: kind.to_owned(),
            target: other.clone(),
            status: None,
            reason,
            removed: true,
        };
        self.tell(updated);
        if self.work.needs.remove(&other).is_some() {
            let to = self.draft.peer(crate::entity::kind::TASK, other.as_str());
            self.draft.send(to, Message::Unwatch { task: self.work.id.clone() });
            self.unblock();
        }
        Ok(())
    }
}
