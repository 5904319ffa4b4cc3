//! P2: what was answered is in the feed, where the answer says. P3: the same key has one answer and one effect, and what
//! was refused had none.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    super::{
        log::Told,
        remains::{Remains, shown},
    },
    Check, said, text,
};
use crate::control::{Error, result::Answer};

/// Commands that answer when a tree is closed: how it ended may change, and with it the cursor, which is absent when nothing
/// was left to be done.
const CLOSING: [&str; 4] = ["interrupt_turn", "cancel_task", "close_subagent", "cancel_job"];
/// Commands that write nothing.
const READING: [&str; 1] = ["wait_subagents"];

impl Check {
    pub(super) fn told(&mut self, remains: &Remains) {
        let mut cursors: BTreeMap<&str, usize> = BTreeMap::new();
        let mut effects: BTreeMap<String, usize> = BTreeMap::new();
        for event in remains.own().flat_map(|session| &session.served) {
            *cursors.entry(text(event, "cursor")).or_default() += 1;
            if let Some(effect) = effect_of(event) {
                *effects.entry(effect).or_default() += 1;
            }
        }
        for told in remains.notes.told.iter().filter(|told| !told.key.starts_with("stranger")) {
            if READING.contains(&told.name) {
                continue;
            }
            self.cursor(told, &cursors);
            self.again(told);
            let Some((wanted, exactly)) = wanted(told) else { continue };
            let found = effects.get(&wanted).copied().unwrap_or_default();
            let expected = usize::from(told.answer.is_ok() && exactly);
            let promise = if found < expected { 2 } else { 3 };
            let holds = found == expected || !exactly && told.answer.is_ok() && found <= 1;
            self.expect(promise, holds, || {
                format!(
                    "{} {} left {found} facts: {wanted:?}, and was answered {}",
                    told.name,
                    told.args,
                    shown(&told.answer)
                )
            });
        }
    }

    fn cursor(&mut self, told: &Told, cursors: &BTreeMap<&str, usize>) {
        let Ok(Answer { cursor: Some(cursor), .. }) = &told.answer else { return };
        // A spawn by command that finds its child there answers with the end of the feed.
        if told.name == "spawn_subagent" {
            return;
        }
        let found = cursors.get(cursor.to_string().as_str()).copied().unwrap_or_default();
        self.expect(2, found == 1, || {
            format!("{} {} is said to be at {cursor}, where {found} facts are", told.name, told.args)
        });
    }

    fn again(&mut self, told: &Told) {
        let Some(again) = &told.again else { return };
        let same = essence(told.name, &told.answer) == essence(told.name, again);
        self.expect(3, same, || {
            let (one, two) = (shown(&told.answer), shown(again));
            format!("{} {} was answered {one} and then {two}", told.name, told.args)
        });
    }
}

/// What of an answer must be the same however often it is given.
fn essence(name: &str, answer: &Result<Answer, Error>) -> (Value, Option<String>) {
    match answer {
        Err(error) => (Value::from(error.code.as_str()), None),
        Ok(Answer { result, cursor }) => {
            let mut result = result.clone();
            let closing = CLOSING.contains(&name);
            if let Some(fields) = result.as_object_mut() {
                // The queue is told as it is now.
                fields.remove("queue");
                if closing {
                    fields.remove("status");
                }
            }
            let exact = !closing && name != "spawn_subagent";
            (result, cursor.filter(|_| exact).map(|cursor| cursor.to_string()))
        }
    }
}

/// The one thing that a fact shows to have been done, by a name of its own.
fn effect_of(event: &Value) -> Option<String> {
    Some(match text(event, "type") {
        "turn.submitted" => format!("submitted {}", event["payload"]["metadata"]["words"].as_str()?),
        "action.resolved" if said(event, "status") == "resolved" => {
            format!("resolved {} {}", text(event, "actionId"), said(event, "reason"))
        }
        "history.rollback.started" => format!("rolled back {}", said(event, "reason")),
        "context.compaction.started" => format!("summed up {}", said(event, "reason")),
        "task.created" => format!("task {}", said(event, "objective")),
        "task.progress" => format!("progress {}", said(event, "summary")),
        "task.paused" => format!("paused {}", said(event, "reason")),
        "task.retrying" => format!("retried {}", said(event, "reason")),
        "task.cancel_requested" => format!("cancelled {} {}", text(event, "taskId"), said(event, "reason")),
        "task.updated" if !said(event, "title").is_empty() => format!("updated {}", said(event, "title")),
        "task.attempt.failed" => format!("failed {}", event["payload"]["error"]["message"].as_str()?),
        "subagent.spawned" => format!("spawned {}", said(event, "role")),
        "subagent.status" => format!("resumed {}", said(event, "reason")),
        "subagent.input" => format!("told {}", event["payload"]["input"][0]["text"].as_str()?),
        "job.created" => format!("job {}", said(event, "instruction")),
        "session.updated" if !said(event, "title").is_empty() => format!("session {}", said(event, "title")),
        _ => return None,
    })
}

/// What a command leaves behind when it is done, and whether it always does; `false` where it may find that there is
/// nothing to do.
fn wanted(told: &Told) -> Option<(String, bool)> {
    let reason = told.arg("reason");
    Some(match told.name {
        "submit_turn" => {
            let steered = told.args["options"]["whenBusy"] == "steer";
            (format!("submitted {}", told.args["metadata"]["words"].as_str()?), !steered)
        }
        "respond_action" => (format!("resolved {} {reason}", told.arg("actionId")), true),
        // Going back to what is the last turn already changes nothing.
        "rollback_thread" => (format!("rolled back {reason}"), told.args["turns"].is_u64()),
        "compact_context" => (format!("summed up {reason}"), true),
        "create_task" => (format!("task {}", told.arg("objective")), true),
        "append_task_progress" => (format!("progress {}", told.arg("summary")), true),
        "pause_task" => (format!("paused {reason}"), true),
        "retry_task" => (format!("retried {reason}"), true),
        "cancel_task" => (format!("cancelled {} {reason}", told.arg("taskId")), false),
        "update_task" => (format!("updated {}", told.arg("title")), true),
        "fail_task" => (format!("failed {}", told.args["error"]["message"].as_str()?), false),
        "spawn_subagent" => (format!("spawned {}", told.arg("role")), true),
        "resume_subagent" => (format!("resumed {reason}"), true),
        "send_subagent_input" => (format!("told {}", told.args["input"][0]["text"].as_str()?), true),
        "create_job" => (format!("job {}", told.arg("instruction")), true),
        "update_session" => (format!("session {}", told.arg("title")), true),
        _ => return None,
    })
}
