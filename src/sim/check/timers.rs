//! P6: a timer never fires early. Whoever sets it says until when, and whoever follows it says when that was, by the
//! same clock: the time of an entity never goes back.

use std::collections::BTreeMap;

use super::{super::remains::Session, Check, said, shown, text};

impl Check {
    pub(super) fn timers(&mut self, session: &Session) {
        let mut due: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        let mut clocks: BTreeMap<&str, &str> = BTreeMap::new();
        for event in &session.served {
            let (class, at) = (text(event, "type"), text(event, "timestamp"));
            let before = clocks.insert(text(event, "streamId"), at).unwrap_or_default();
            self.expect(6, before <= at, || format!("time goes back from {before}: {}", shown(event)));
            let (action, task) = (text(event, "actionId"), text(event, "taskId"));
            let turn = text(event, "turnId");
            match class {
                "action.required" if !said(event, "expiresAt").is_empty() => {
                    due.insert(("expires", action), said(event, "expiresAt"));
                }
                "run.status" if said(event, "phase") == "sleeping" => {
                    let title = said(event, "title");
                    due.insert(("sleeps", turn), title.rsplit(' ').next().unwrap_or_default());
                }
                "task.retrying" if !said(event, "nextAttemptAt").is_empty() => {
                    due.insert(("retries", task), said(event, "nextAttemptAt"));
                }
                "task.retrying" => drop(due.remove(&("retries", task))),
                "task.attempt.started" if !said(event, "deadlineAt").is_empty() => {
                    due.insert(("times out", task), said(event, "deadlineAt"));
                }
                _ => {}
            }
            let fired = match class {
                "action.resolved" if said(event, "status") == "expired" => due.get(&("expires", action)),
                "model.requested" | "turn.completed" => due.get(&("sleeps", turn)),
                "task.attempt.started" => due.get(&("retries", task)),
                "task.attempt.failed" if said(event, "status") == "timed_out" => {
                    due.get(&("times out", task))
                }
                _ => None,
            };
            let early = fired.is_some_and(|due| at < *due);
            self.expect(6, !early, || format!("before {fired:?}: {}", shown(event)));
        }
    }
}
