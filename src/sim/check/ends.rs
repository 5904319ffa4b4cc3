//! P7: when faults stop and every question is answered, everything has ended, or says what it waits for.

use std::collections::BTreeMap;

use super::{super::remains::Session, Check, shown, text};

const OVER: [&str; 5] = ["completed", "failed", "timed_out", "lost", "cancelled"];

impl Check {
    pub(super) fn ends(&mut self, session: &Session) {
        let is_over = |status: &str| OVER.contains(&status);
        let mut turns: BTreeMap<&str, (bool, &serde_json::Value)> = BTreeMap::new();
        for event in &session.served {
            let turn = text(event, "turnId");
            match text(event, "type") {
                "turn.submitted" | "turn.started" => {
                    turns.entry(turn).or_insert((false, event));
                }
                "turn.completed" | "turn.failed" => {
                    if let Some((over, _)) = turns.get_mut(turn) {
                        *over = true;
                    }
                }
                _ => {}
            }
        }
        for (_, (over, event)) in turns {
            self.expect(7, over, || format!("a turn does not end: {}", shown(event)));
        }
        for subagent in &session.subagents {
            let status = text(subagent, "status");
            self.expect(7, is_over(status), || format!("a subagent does not end: {subagent}"));
        }
        for (job, items) in &session.jobs {
            self.expect(7, is_over(text(job, "status")), || format!("a job does not end: {job}"));
            for item in items.iter().filter(|item| item["status"] == "running") {
                self.broken(7, format!("an item does not end: {item}"));
            }
        }
        let statuses: BTreeMap<&str, &str> =
            session.tasks.iter().map(|task| (text(task, "taskId"), text(task, "status"))).collect();
        for task in &session.tasks {
            let waits: Vec<&str> =
                task["waitingFor"].as_array().into_iter().flatten().filter_map(|id| id.as_str()).collect();
            // Those of other sessions cannot be looked up here.
            let in_vain = |id: &&str| statuses.get(id).is_none_or(|status| *status != "completed");
            let blocked = text(task, "status") == "blocked" && !waits.is_empty() && waits.iter().all(in_vain);
            let goes_on = |part: &serde_json::Value| {
                part["parentTaskId"] == task["taskId"] && !is_over(text(part, "status"))
            };
            let parts = text(task, "status") == "waiting_resource" && session.tasks.iter().any(goes_on);
            let says = blocked || parts;
            self.expect(7, is_over(text(task, "status")) || says, || format!("a task does not end: {task}"));
        }
        for thread in session.snapshot["threads"].as_array().into_iter().flatten() {
            self.expect(7, !is_busy(thread), || format!("a thread is busy: {thread}"));
        }
    }
}

/// Whether a turn of a thread runs or waits.
fn is_busy(thread: &serde_json::Value) -> bool {
    !thread["activeTurnId"].is_null() || thread["queuedTurns"].as_array().is_some_and(|q| !q.is_empty())
}

#[cfg(test)]
mod tests {
    use cadre_cluster::clock::Timestamp;

    use super::*;
    use crate::{
        fact::{
            Class, Fact, Id,
            id::{ThreadId, TurnId},
            payload::{TurnCompleted, TurnStarted, TurnSubmitted},
            scope::TurnScope,
            status::TurnStatus,
        },
        view::{SessionView, snapshot::ThreadRead},
    };

    /// A thread as it is served after one more fact of its turn.
    fn then<C: Class<Scope = TurnScope>>(view: &mut SessionView, payload: C) -> serde_json::Value {
        let turn = TurnScope { thread: ThreadId::with_suffix("1"), turn: TurnId::with_suffix("1") };
        view.apply(&Fact::new(Timestamp(1), turn, payload));
        serde_json::to_value(ThreadRead::of(view, &view.threads[0], None)).unwrap()
    }

    #[test]
    fn a_thread_is_busy_while_its_turn_waits_or_runs_and_not_after_it() {
        let mut view = SessionView::default();
        let queued = TurnSubmitted { status: TurnStatus::Queued, ..Default::default() };
        assert!(is_busy(&then(&mut view, queued)));
        assert!(is_busy(&then(&mut view, TurnStarted::default())));
        let over = TurnCompleted { status: TurnStatus::Completed, ..Default::default() };
        assert!(!is_busy(&then(&mut view, over)));
    }
}
