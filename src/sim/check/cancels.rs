//! P11: when a cancel is answered as done, nothing of that tree appears later, but for what a newer command has begun
//! again.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    super::{
        log::Told,
        remains::{Remains, Session},
    },
    Check, said, shown, text,
    tree::Tree,
};
use crate::control::result::Answer;

impl Check {
    pub(super) fn cancels(&mut self, remains: &Remains) {
        for session in remains.own() {
            let tree = Tree::of(&session.served);
            let again = Again::of(session, &remains.notes.told);
            for told in &remains.notes.told {
                let Ok(Answer { result, cursor }) = &told.answer else { continue };
                let (root, alone) = match told.name {
                    "interrupt_turn" => (text(result, "turnId"), false),
                    "cancel_task" => (told.arg("taskId"), told.args["propagate"] == false),
                    "close_subagent" => (told.arg("subagentId"), false),
                    "cancel_job" => (told.arg("jobId"), false),
                    _ => continue,
                };
                let is_done = !["idle", "cancelling"].contains(&text(result, "status"));
                if root.is_empty() || !is_done || alone {
                    continue;
                }
                let newer = again.newer(told);
                if newer.contains(root) {
                    continue;
                }
                // What had ended before is closed wherever the feed was then.
                let done = cursor.unwrap_or(told.until).to_string();
                let members = tree.all(root, |id| newer.contains(id));
                let late = session.served.iter().find(|event| {
                    text(event, "cursor") > done.as_str()
                        && whose(event).is_some_and(|id| members.contains(id))
                });
                if let Some(late) = late {
                    self.broken(
                        11,
                        format!("{} {root} was done at {done}, and then: {}", told.name, shown(late)),
                    );
                }
            }
        }
    }
}

/// Whom a fact shows to go on, if anybody.
fn whose(event: &Value) -> Option<&str> {
    let class = text(event, "type");
    // A summary stands for turns that are over.
    let looks_back = class.starts_with("evidence.") || class.starts_with("context.compaction.");
    if class == "queue.changed" || looks_back {
        return None;
    }
    let (kind, id) = text(event, "streamId").split_once(':')?;
    match kind {
        "session" => event["turnId"].as_str(),
        "item" => event["jobId"].as_str(),
        _ => Some(id),
    }
}

/// What was begun again, where in the feed, and when that was answered.
struct Again<'a> {
    begun: Vec<(&'a str, &'a str, Option<&'a Told>)>,
}

impl<'a> Again<'a> {
    fn of(session: &'a Session, told: &'a [Told]) -> Self {
        let commands: BTreeMap<&str, &Told> = told
            .iter()
            .filter(|told| ["resume_subagent", "retry_task"].contains(&told.name))
            .map(|told| (told.arg("reason"), told))
            .collect();
        let begun = session.served.iter().filter_map(|event| {
            let id = match text(event, "type") {
                "subagent.status" if said(event, "status") == "running" => text(event, "subagentId"),
                "task.retrying" if said(event, "reason") != "policy" => text(event, "taskId"),
                "job.started" => text(event, "jobId"),
                _ => return None,
            };
            Some((id, text(event, "cursor"), commands.get(said(event, "reason")).copied()))
        });
        Self { begun: begun.collect() }
    }

    /// What went on again by a command of which the cancel could not know: one that was not answered when the cancel was
    /// sent.
    fn newer(&self, cancel: &Told) -> BTreeSet<&'a str> {
        let since = cancel.since.to_string();
        self.begun
            .iter()
            .filter(|(_, at, told)| match told {
                Some(told) => told.until >= cancel.since,
                None => *at > since.as_str(),
            })
            .map(|(id, _, _)| *id)
            .collect()
    }
}
