//! What holds of every feed, whatever happened (P2, P4, P11).

use std::collections::{BTreeMap, BTreeSet};

use cadre_cluster::sim::Violation;
use serde_json::Value;

use super::{said, shown, text};

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
pub fn check_feed(events: &[Value]) -> Vec<Violation> {
    let mut feed = FeedCheck::default();
    for event in events {
        feed.places(event);
        feed.entity(event);
        feed.turn(event);
        feed.cancelled(event);
    }
    for ((kind, id), life) in &feed.lives {
        if life.endings > life.again + 1 {
            let what = format!("{kind} {id} ended {} times", life.endings);
            feed.violations.push(Violation { promise: 11, what });
        }
    }
    feed.violations
}

#[derive(Default)]
struct FeedCheck<'a> {
    sequences: BTreeMap<&'a str, u64>,
    cursor: &'a str,
    lives: BTreeMap<(&'static str, &'a str), Life>,
    parents: Parents<'a>,
    violations: Vec<Violation>,
}

impl<'a> FeedCheck<'a> {
    fn expect(&mut self, promise: u8, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(Violation { promise, what: what() });
        }
    }

    /// Where an event stands, in the feed and in its stream.
    fn places(&mut self, event: &'a Value) {
        let before = std::mem::replace(&mut self.cursor, text(event, "cursor"));
        let rises = before < self.cursor;
        self.expect(4, rises, || format!("the cursor does not rise: {}", shown(event)));
        let sequence = event["sequence"].as_u64().unwrap_or_default();
        let before = self.sequences.insert(text(event, "streamId"), sequence);
        let follows = before.map_or(sequence <= 1, |before| sequence == before + 1);
        self.expect(2, follows, || format!("{sequence} follows {before:?}: {}", shown(event)));
    }

    /// The entity that says it.
    fn entity(&mut self, event: &'a Value) {
        self.parents.learn(event);
        let Some((kind, id)) = entity(event) else { return };
        let (class, status) = (text(event, "type"), said(event, "status"));
        let life = self.lives.entry((kind, id)).or_default();
        let begins_again = match kind {
            "subagent" => class == "subagent.status" && status == "running",
            "task" => class == "task.retrying" && text(event, "taskId") == id,
            _ => class == "job.started",
        };
        if begins_again {
            life.again += usize::from(std::mem::take(&mut life.over));
        }
        let was_over = life.over;
        if ends(kind, class) && (kind != "task" || text(event, "taskId") == id) {
            life.over = true;
            life.endings += 1;
        }
        self.expect(11, !was_over, || format!("{kind} {id} says something after its end: {}", shown(event)));
    }

    /// The turn that the fact is about: of a session, a subagent, an attempt or an item.
    fn turn(&mut self, event: &'a Value) {
        let (class, turn) = (text(event, "type"), text(event, "turnId"));
        if turn.is_empty() || class == "queue.changed" {
            return;
        }
        let family = class.split('.').next().unwrap_or_default();
        let of_turn = ["turn", "model", "tool", "action", "run"].contains(&family);
        let life = self.lives.entry(("turn", turn)).or_default();
        let was_over = life.over;
        if class == "turn.completed" || class == "turn.failed" {
            life.over = true;
            life.endings += 1;
        }
        self.expect(11, !(of_turn && was_over), || {
            format!("the turn {turn} says something after its end: {}", shown(event))
        });
    }

    /// Whatever was cancelled ends after everything below it. What was begun again by a command meanwhile is newer than
    /// the cancel.
    fn cancelled(&mut self, event: &'a Value) {
        let class = text(event, "type");
        let (kind, id) = match entity(event) {
            _ if class == "turn.failed" => ("turn", text(event, "turnId")),
            Some((kind, id)) if ends(kind, class) => (kind, id),
            _ => return,
        };
        if said(event, "status") != "cancelled" || self.parents.left_alone.contains(id) {
            return;
        }
        let goes_on: Vec<_> = self
            .parents
            .below(kind, id)
            .into_iter()
            .filter(|child| self.lives.get(child).is_some_and(|life| !life.over && life.again == 0))
            .collect();
        self.expect(11, goes_on.is_empty(), || {
            format!("{goes_on:?} go on after what they are part of was cancelled: {}", shown(event))
        });
    }
}

fn entity(event: &Value) -> Option<(&'static str, &str)> {
    let (kind, id) = text(event, "streamId").split_once(':')?;
    let kind = ["subagent", "task", "job"].into_iter().find(|known| *known == kind)?;
    Some((kind, id))
}

/// Whether a fact of that class is the last of such an entity.
pub(super) fn ends(kind: &str, class: &str) -> bool {
    match kind {
        "subagent" => matches!(class, "subagent.completed" | "subagent.failed" | "subagent.closed"),
        "task" => matches!(
            class,
            "task.completed" | "task.failed" | "task.cancelled" | "task.timed_out" | "task.lost"
        ),
        "job" => matches!(class, "job.completed" | "job.failed" | "job.cancelled"),
        _ => false,
    }
}

type Child<'a> = (&'static str, &'a str);

/// Who is below whom.
#[derive(Default)]
struct Parents<'a> {
    below: BTreeMap<&'a str, BTreeSet<Child<'a>>>,
    /// Tasks whose cancel was not to reach what is below them.
    left_alone: BTreeSet<&'a str>,
}

impl<'a> Parents<'a> {
    fn learn(&mut self, event: &'a Value) {
        match text(event, "type") {
            "subagent.spawned" => {
                let child = ("subagent", text(event, "subagentId"));
                let parents = ["parentSubagentId", "parentTurnId", "parentTaskId"];
                let parents: Vec<_> =
                    parents.into_iter().filter_map(|field| event["payload"][field].as_str()).collect();
                // The nearest one is enough: it is below the others.
                self.add(parents.first().copied(), child);
                self.add(event["payload"]["parentTurnId"].as_str(), child);
            }
            "task.created" => self.add(event["parentTaskId"].as_str(), ("task", text(event, "taskId"))),
            "task.delegated" => {
                let child = ("task", said(event, "childTaskId"));
                self.add(event["turnId"].as_str(), child);
            }
            "task.cancel_requested" => {
                let task = text(event, "taskId");
                if event["payload"]["propagate"] == true {
                    self.left_alone.remove(task);
                } else {
                    self.left_alone.insert(task);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, parent: Option<&'a str>, child: Child<'a>) {
        if let Some(parent) = parent {
            self.below.entry(parent).or_default().insert(child);
        }
    }

    /// Everybody below, but not what is below a task that leaves it alone.
    fn below(&self, _kind: &str, id: &str) -> BTreeSet<Child<'a>> {
        let mut found = BTreeSet::new();
        let mut open: Vec<Child<'a>> = self.below.get(id).into_iter().flatten().copied().collect();
        while let Some(child) = open.pop() {
            if found.insert(child) && !self.left_alone.contains(child.1) {
                open.extend(self.below.get(child.1).into_iter().flatten());
            }
        }
        found
    }
}
