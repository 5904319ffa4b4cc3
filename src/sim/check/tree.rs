//! Who is part of what, over the whole of a feed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{said, text};

/// Turns, tasks, subagents and jobs of a session by their ids, and what each of them started.
#[derive(Default)]
pub(super) struct Tree<'a> {
    below: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Tree<'a> {
    pub fn of(events: &'a [Value]) -> Self {
        let (mut tree, mut delegated) = (Self::default(), BTreeSet::new());
        for event in events {
            let class = text(event, "type");
            let (turn, task, subagent) =
                (text(event, "turnId"), text(event, "taskId"), text(event, "subagentId"));
            match class {
                // Only the nearest: what goes on again takes what is below it along.
                "subagent.spawned" => {
                    let parents =
                        ["parentTurnId", "parentTaskId", "parentSubagentId"].map(|field| said(event, field));
                    let nearest = parents.into_iter().find(|parent| !parent.is_empty());
                    tree.add(nearest.unwrap_or_default(), subagent);
                }
                "task.created" if !delegated.contains(task) => tree.add(text(event, "parentTaskId"), task),
                "task.delegated" => {
                    delegated.insert(said(event, "childTaskId"));
                    tree.add(turn, said(event, "childTaskId"));
                }
                "task.attempt.started" => tree.add(task, turn),
                "turn.started" if text(event, "streamId").starts_with("subagent:") => {
                    tree.add(subagent, turn)
                }
                "turn.started" if text(event, "streamId").starts_with("item:") => {
                    tree.add(text(event, "jobId"), turn);
                }
                _ => {}
            }
        }
        tree
    }

    fn add(&mut self, parent: &'a str, child: &'a str) {
        if !parent.is_empty() && !child.is_empty() && parent != child {
            self.below.entry(parent).or_default().insert(child);
        }
    }

    /// It, and everything below it; `stop` says where not to go further.
    pub fn all(&self, root: &'a str, stop: impl Fn(&str) -> bool) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            if !stop(id) && found.insert(id) {
                open.extend(self.below.get(id).into_iter().flatten());
            }
        }
        found
    }
}
