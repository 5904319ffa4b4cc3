//! What holds of every feed, whatever happened (P2, P4, P11).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// How something stands, as far as the feed tells.
#[derive(Default)]
struct Life {
    /// Whether its last word so far is a terminal fact.
    over: bool,
    /// How often it has ended.
    endings: usize,
    /// How often it was begun again.
    again: usize,
}

/// Holds a whole feed, from its beginning, against what is promised of all feeds:
/// cursors rise, the facts of a stream are counted without a gap, everything ends once (once per attempt where it was
/// resumed or retried), nothing is said after the end, and whatever was cancelled ends after everything below it.
pub fn check_feed(events: &[Value]) {
    let mut sequences: BTreeMap<&str, u64> = BTreeMap::new();
    let mut cursors: Option<&str> = None;
    let mut lives: BTreeMap<(&'static str, &str), Life> = BTreeMap::new();
    let mut parents = Parents::default();
    for event in events {
        let cursor = event["cursor"].as_str().unwrap();
        assert!(cursors.is_none_or(|before| before < cursor), "P4: the cursor does not rise: {event:#}");
        cursors = Some(cursor);
        let stream = event["streamId"].as_str().unwrap();
        let sequence = event["sequence"].as_u64().unwrap();
        if let Some(before) = sequences.insert(stream, sequence) {
            assert_eq!(sequence, before + 1, "P2: a gap or a double in {stream}: {event:#}");
        } else {
            assert!(sequence <= 1, "P2: {stream} begins in the middle: {event:#}");
        }
        let (class, status) = (event["type"].as_str().unwrap(), event["payload"]["status"].as_str());
        let (kind, id) = stream.split_once(':').unwrap();
        parents.learn(event, class);
        // The entity itself.
        let entity = match kind {
            "subagent" => Some(("subagent", id)),
            "task" => Some(("task", id)),
            _ => None,
        };
        if let Some(key) = entity {
            let life = lives.entry(key).or_default();
            let begins_again = (class == "subagent.status" && status == Some("running"))
                || (class == "task.retrying" && event["taskId"] == id);
            if begins_again {
                life.again += usize::from(std::mem::take(&mut life.over));
            }
            assert!(!life.over, "P11: {stream} says something after its end: {event:#}");
            if ends(kind, class) && (kind != "task" || event["taskId"] == id) {
                life.over = true;
                life.endings += 1;
            }
        }
        // The turn that the fact is about: of a session, a subagent or an attempt.
        if let Some(turn) = event["turnId"].as_str().filter(|_| class != "queue.changed") {
            let of_turn =
                class.starts_with("turn.") || class.starts_with("model.") || class.starts_with("tool.");
            let life = lives.entry(("turn", turn)).or_default();
            if of_turn {
                assert!(!life.over, "P11: the turn {turn} says something after its end: {event:#}");
            }
            if class == "turn.completed" || class == "turn.failed" {
                life.over = true;
                life.endings += 1;
            }
        }
        if status == Some("cancelled") && (ends(kind, class) || class == "turn.failed") {
            for child in parents.below(kind, id, event, class) {
                let life = &lives[&child];
                assert!(
                    life.over,
                    "P11: {child:?} goes on after what it is part of was cancelled: {event:#}"
                );
            }
        }
    }
    for ((kind, id), life) in &lives {
        assert!(life.endings <= life.again + 1, "P11: {kind} {id} ended {} times", life.endings);
    }
}

fn ends(kind: &str, class: &str) -> bool {
    match kind {
        "subagent" => matches!(class, "subagent.completed" | "subagent.failed" | "subagent.closed"),
        "task" => matches!(
            class,
            "task.completed" | "task.failed" | "task.cancelled" | "task.timed_out" | "task.lost"
        ),
        _ => false,
    }
}

/// Who is below whom.
#[derive(Default)]
struct Parents {
    of_subagent: BTreeMap<String, BTreeSet<String>>,
    of_turn: BTreeMap<String, BTreeSet<String>>,
    of_task: BTreeMap<String, BTreeSet<String>>,
    names: BTreeMap<String, &'static str>,
}

impl Parents {
    fn learn(&mut self, event: &Value, class: &str) {
        if class != "subagent.spawned" {
            return;
        }
        let child = event["subagentId"].as_str().unwrap().to_owned();
        let payload = &event["payload"];
        let places = [
            (&mut self.of_subagent, "parentSubagentId"),
            (&mut self.of_turn, "parentTurnId"),
            (&mut self.of_task, "parentTaskId"),
        ];
        for (place, field) in places {
            if let Some(parent) = payload[field].as_str() {
                place.entry(parent.to_owned()).or_default().insert(child.clone());
            }
        }
        self.names.insert(child, "subagent");
    }

    fn below(&self, kind: &str, id: &str, event: &Value, class: &str) -> Vec<(&'static str, &str)> {
        let direct = if class == "turn.failed" {
            event["turnId"].as_str().and_then(|turn| self.of_turn.get(turn))
        } else if kind == "subagent" {
            self.of_subagent.get(id)
        } else {
            self.of_task.get(id)
        };
        let mut found = Vec::new();
        let mut open: Vec<&String> = direct.into_iter().flatten().collect();
        while let Some(child) = open.pop() {
            found.push(("subagent", child.as_str()));
            open.extend(self.of_subagent.get(child).into_iter().flatten());
        }
        found
    }
}
