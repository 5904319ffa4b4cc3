//! The tree of a session, folded from its events.

use std::collections::HashMap;

use serde_json::Value;

/// How something stands that was only named.
const UNKNOWN: &str = "unknown";

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A turn of a thread of the session.
    Turn,
    /// A task.
    Task,
    /// A subagent.
    Subagent,
    /// A job.
    Job,
    /// An item of a job.
    Item,
}

impl Kind {
    /// In words.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Task => "task",
            Self::Subagent => "subagent",
            Self::Job => "job",
            Self::Item => "item",
        }
    }
}

/// Something that runs, or ran.
#[derive(Debug)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Its id.
    pub id: String,
    /// How it stands.
    pub status: String,
    /// What people call it.
    pub label: String,
    /// What it started.
    pub children: Vec<usize>,
}

/// All of a session.
#[derive(Debug, Default)]
pub struct Tree {
    /// In the order in which they were first heard of.
    pub nodes: Vec<Node>,
    /// Those that nothing else started.
    pub roots: Vec<usize>,
    found: HashMap<(Kind, String), usize>,
    /// The turns in which tasks, subagents and items do their work: those are not shown.
    inner: HashMap<String, usize>,
}

impl Tree {
    /// Takes in an event.
    pub fn apply(&mut self, event: &Value) {
        let class = event["type"].as_str().unwrap_or("");
        let (family, what) = class.split_once('.').unwrap_or((class, ""));
        let id = |name: &str| event[name].as_str();
        let (turn, payload) = (id("turnId"), &event["payload"]);
        let parent_turn = payload["parentTurnId"].as_str();
        match family {
            "turn" => {
                let Some(turn) = turn else { return };
                match self.owner(event) {
                    Some(owner) => drop(self.inner.insert(turn.to_owned(), owner)),
                    None => self.stands(Kind::Turn, turn, None, event),
                }
            }
            "subagent" => {
                let Some(subagent) = id("subagentId") else { return };
                let above =
                    payload["parentSubagentId"].as_str().map(|id| self.node(Kind::Subagent, id, None));
                let above = above.or_else(|| parent_turn.map(|turn| self.turn(turn)));
                let above = above.or_else(|| {
                    payload["parentTaskId"].as_str().map(|task| self.node(Kind::Task, task, None))
                });
                self.stands(Kind::Subagent, subagent, above, event);
                if let Some(turn) = turn {
                    let node = self.node(Kind::Subagent, subagent, None);
                    self.inner.insert(turn.to_owned(), node);
                }
            }
            // What is said of attempts and edges is not about the task as a whole.
            "task" if !what.contains('.') => {
                let Some(task) = id("taskId") else { return };
                let above = id("parentTaskId").or(payload["parentTaskId"].as_str());
                let above = above.map(|task| self.node(Kind::Task, task, None));
                let is_new = !self.found.contains_key(&(Kind::Task, task.to_owned()));
                let above = above.or_else(|| match id("subagentId") {
                    Some(subagent) if is_new => Some(self.node(Kind::Subagent, subagent, None)),
                    _ => None,
                });
                let above = above.or_else(|| turn.filter(|_| is_new).map(|turn| self.turn(turn)));
                self.stands(Kind::Task, task, above, event);
            }
            "job" => {
                let Some(job) = id("jobId") else { return };
                match id("jobItemId") {
                    Some(item) => {
                        let above = self.node(Kind::Job, job, None);
                        self.stands(Kind::Item, &format!("{job}/{item}"), Some(above), event);
                    }
                    None => {
                        let above = id("taskId").map(|task| self.node(Kind::Task, task, None));
                        self.stands(Kind::Job, job, above, event);
                    }
                }
            }
            // A task that could not be made is heard of by nothing else.
            "tool" if what == "result" => {
                let structured = &payload["structured"];
                let Some(code) = structured["error"]["code"].as_str() else { return };
                for task in structured["notCompleted"].as_array().into_iter().flatten() {
                    let known = task.as_str().and_then(|id| self.found.get(&(Kind::Task, id.to_owned())));
                    if let Some(node) = known.map(|node| &mut self.nodes[*node])
                        && node.status == UNKNOWN
                    {
                        node.status = code.to_owned();
                    }
                }
            }
            _ => {}
        }
    }

    /// Whose inner turn an event is about.
    fn owner(&mut self, event: &Value) -> Option<usize> {
        let id = |name: &str| event[name].as_str();
        if let Some(subagent) = id("subagentId") {
            return Some(self.node(Kind::Subagent, subagent, None));
        }
        if let (Some(job), Some(item)) = (id("jobId"), id("jobItemId")) {
            let above = self.node(Kind::Job, job, None);
            return Some(self.node(Kind::Item, &format!("{job}/{item}"), Some(above)));
        }
        id("taskId").map(|task| self.node(Kind::Task, task, None))
    }

    /// The node that stands for a turn: what works in it, or the turn itself.
    fn turn(&mut self, turn: &str) -> usize {
        match self.inner.get(turn) {
            Some(node) => *node,
            None => self.node(Kind::Turn, turn, None),
        }
    }

    fn stands(&mut self, kind: Kind, id: &str, above: Option<usize>, event: &Value) {
        let node = self.node(kind, id, above);
        let payload = &event["payload"];
        let started = event["type"].as_str().is_some_and(|class| class.ends_with(".started"));
        let status = event["status"].as_str().or(payload["status"].as_str());
        let node = &mut self.nodes[node];
        if let Some(status) = status.or(started.then_some("running")) {
            node.status = status.to_owned();
        }
        let names = ["nickname", "title", "objective", "role", "instruction"];
        if let Some(label) = names.iter().find_map(|name| payload[name].as_str()) {
            node.label = label.to_owned();
        }
    }

    /// The node of that id, below `above` when it is new.
    fn node(&mut self, kind: Kind, id: &str, above: Option<usize>) -> usize {
        if let Some(node) = self.found.get(&(kind, id.to_owned())) {
            return *node;
        }
        let (node, status) = (self.nodes.len(), UNKNOWN.to_owned());
        self.nodes.push(Node { kind, id: id.to_owned(), status, label: String::new(), children: Vec::new() });
        self.found.insert((kind, id.to_owned()), node);
        match above {
            Some(above) => self.nodes[above].children.push(node),
            None => self.roots.push(node),
        }
        node
    }
}
