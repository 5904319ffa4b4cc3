//! P11: a join fires once, after everybody that it waits for has ended, and its tally is that of the children's own facts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    super::remains::{Remains, Session},
    Check,
    feed::ends,
    said, shown, text,
};

/// The children of a turn that its script started, and all their endings: one that is resumed ends more than once.
#[derive(Default)]
struct Family {
    ended: BTreeMap<&'static str, u64>,
    /// What the joins that wait for all have told so far.
    joined: BTreeMap<&'static str, u64>,
}

const WORDS: [(&str, &str); 5] = [
    ("completed", "completed"),
    ("failed", "failed"),
    ("cancelled", "cancelled"),
    ("timed_out", "timedOut"),
    ("lost", "lost"),
];

impl Check {
    pub(super) fn joins(&mut self, session: &Session, remains: &Remains) {
        let commanded: BTreeSet<&str> = remains
            .notes
            .told
            .iter()
            .filter(|told| told.name == "spawn_subagent")
            .filter_map(|told| told.result()?["subagentId"].as_str())
            .collect();
        let mut families: BTreeMap<&str, Family> = BTreeMap::new();
        let mut parents: BTreeMap<&str, &str> = BTreeMap::new();
        let mut over: BTreeSet<&str> = BTreeSet::new();
        let mut calls: BTreeSet<&str> = BTreeSet::new();
        for event in &session.served {
            let (class, turn, subagent) =
                (text(event, "type"), text(event, "turnId"), text(event, "subagentId"));
            match class {
                "subagent.spawned" if !commanded.contains(subagent) => {
                    parents.insert(subagent, said(event, "parentTurnId"));
                }
                _ if ends("subagent", class) => {
                    let Some(parent) = parents.get(subagent) else { continue };
                    let word = WORDS.iter().find(|(word, _)| *word == said(event, "status"));
                    if let Some((word, _)) = word {
                        *families.entry(parent).or_default().ended.entry(word).or_default() += 1;
                    }
                }
                _ if ends("task", class) => {
                    over.insert(text(event, "taskId"));
                }
                "tool.result" if ["spawn_subagents", "create_task"].contains(&said(event, "name")) => {
                    let once = calls.insert(text(event, "toolCallId"));
                    self.expect(11, once, || format!("a join fires again: {}", shown(event)));
                    let tally = &event["payload"]["structured"];
                    let family = families.entry(turn).or_default();
                    let wrong = match tally["taskId"].as_str() {
                        Some(task) => {
                            (total(tally) > 0 && !over.contains(task)).then(|| format!("{task} goes on"))
                        }
                        None => family.join(tally),
                    };
                    self.expect(11, wrong.is_none(), || {
                        format!("a join fires and {}: {}", wrong.unwrap_or_default(), shown(event))
                    });
                }
                _ => {}
            }
        }
    }
}

impl Family {
    /// Takes in what a join tells; what is wrong with it, if anything.
    fn join(&mut self, tally: &Value) -> Option<String> {
        let started = tally["started"].as_u64().unwrap_or_default();
        if total(tally) > started {
            return Some(format!("{} of {started} have ended", total(tally)));
        }
        for (word, field) in WORDS {
            let told = self.joined.entry(word).or_default();
            *told += tally[field].as_u64().unwrap_or_default();
            let ended = self.ended.get(word).copied().unwrap_or_default();
            if *told > ended {
                return Some(format!("told of {told} {word} children in all, of whom {ended} have said so"));
            }
        }
        None
    }
}

fn total(tally: &Value) -> u64 {
    WORDS.iter().map(|(_, field)| tally[*field].as_u64().unwrap_or_default()).sum()
}
