//! The tree as text and as JSON.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::{Value, json};

use super::fold::{Kind, Tree};
use crate::cli::line;

/// More brothers of one kind than this are counted instead of listed, with all that is below them.
const LISTED_MAX: usize = 12;

/// As people read it.
pub fn text(session: &str, tree: &Tree) -> String {
    let mut out = format!("{session}\n");
    draw(tree, &tree.roots, "", &mut out);
    out
}

/// One line of a drawing, with what is drawn below it.
enum Entry {
    Node(usize),
    Many(Kind, Vec<usize>),
}

fn draw(tree: &Tree, nodes: &[usize], indent: &str, out: &mut String) {
    let mut entries = Vec::new();
    for (kind, some) in by_kind(tree, nodes) {
        if some.len() > LISTED_MAX {
            entries.push(Entry::Many(kind, some));
        } else {
            entries.extend(some.into_iter().map(Entry::Node));
        }
    }
    let last = entries.len().saturating_sub(1);
    for (index, entry) in entries.iter().enumerate() {
        let (branch, below) = if index == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let below = format!("{indent}{below}");
        match entry {
            Entry::Node(node) => {
                let node = &tree.nodes[*node];
                let text =
                    format!("{} {} {} {}", node.kind.word(), node.id, node.status, line::cut(&node.label));
                let _ = writeln!(out, "{indent}{branch}{}", text.trim_end());
                draw(tree, &node.children, &below, out);
            }
            Entry::Many(kind, some) => {
                let _ = writeln!(out, "{indent}{branch}{}", counted(tree, *kind, some));
                levels(tree, some, &below, out);
            }
        }
    }
}

/// What is below many nodes, each level as a whole.
fn levels(tree: &Tree, nodes: &[usize], indent: &str, out: &mut String) {
    let below: Vec<usize> = nodes.iter().flat_map(|node| &tree.nodes[*node].children).copied().collect();
    if below.is_empty() {
        return;
    }
    for (kind, some) in by_kind(tree, &below) {
        let _ = writeln!(out, "{indent}└─ {}", counted(tree, kind, &some));
    }
    levels(tree, &below, &format!("{indent}   "), out);
}

fn by_kind(tree: &Tree, nodes: &[usize]) -> BTreeMap<Kind, Vec<usize>> {
    let mut kinds = BTreeMap::<Kind, Vec<usize>>::new();
    for node in nodes {
        kinds.entry(tree.nodes[*node].kind).or_default().push(*node);
    }
    kinds
}

/// `1200 subagents: 1000 completed, 200 running`
fn counted(tree: &Tree, kind: Kind, nodes: &[usize]) -> String {
    let statuses: Vec<_> =
        statuses(tree, nodes).iter().map(|(status, count)| format!("{count} {status}")).collect();
    let plural = if nodes.len() == 1 { "" } else { "s" };
    format!("{} {}{plural}: {}", nodes.len(), kind.word(), statuses.join(", "))
}

fn statuses<'a>(tree: &'a Tree, nodes: &[usize]) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for node in nodes {
        *counts.entry(tree.nodes[*node].status.as_str()).or_default() += 1;
    }
    counts
}

/// As programs read it: every node, and how many there are of each status.
pub fn json(session: &str, tree: &Tree) -> Value {
    let mut counts = serde_json::Map::new();
    let all: Vec<usize> = (0..tree.nodes.len()).collect();
    for (kind, some) in by_kind(tree, &all) {
        counts.insert(kind.word().to_owned(), json!(statuses(tree, &some)));
    }
    let nodes: Vec<Value> = tree.roots.iter().map(|node| nested(tree, *node)).collect();
    json!({ "sessionId": session, "counts": counts, "nodes": nodes })
}

fn nested(tree: &Tree, node: usize) -> Value {
    let node = &tree.nodes[node];
    let children: Vec<Value> = node.children.iter().map(|child| nested(tree, *child)).collect();
    json!({ "kind": node.kind.word(), "id": node.id, "status": node.status, "label": node.label, "children": children })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spawned(tree: &mut Tree, id: &str, parent: Value, status: &str) {
        let mut payload = parent;
        payload["status"] = status.into();
        tree.apply(&json!({ "type": "subagent.spawned", "subagentId": id, "turnId": format!("turn_of_{id}"),
            "payload": payload }));
    }

    #[test]
    fn children_are_below_what_started_them_and_many_are_counted_by_level() {
        let mut tree = Tree::default();
        tree.apply(
            &json!({ "type": "turn.submitted", "turnId": "turn_1", "payload": { "status": "accepted" } }),
        );
        tree.apply(&json!({ "type": "turn.started", "turnId": "turn_1", "payload": {} }));
        spawned(&mut tree, "sub_a", json!({ "parentTurnId": "turn_1", "role": "scout" }), "completed");
        // The turn in which a subagent works is the subagent.
        let inner = json!({ "type": "turn.started", "turnId": "turn_of_sub_a", "subagentId": "sub_a", "payload": {} });
        tree.apply(&inner);
        spawned(&mut tree, "sub_b", json!({ "parentTurnId": "turn_of_sub_a" }), "running");
        assert_eq!(
            text("sess_1", &tree),
            "sess_1\n└─ turn turn_1 running\n   └─ subagent sub_a completed scout\n      └─ subagent sub_b running\n"
        );
        for number in 0..1_000 {
            let status = if number % 4 == 0 { "failed" } else { "completed" };
            spawned(&mut tree, &format!("sub_{number}"), json!({ "parentTurnId": "turn_1" }), status);
        }
        assert_eq!(
            text("sess_1", &tree),
            "sess_1\n└─ turn turn_1 running\n   └─ 1001 subagents: 751 completed, 250 failed\n      \
             └─ 1 subagent: 1 running\n"
        );
        assert_eq!(json("sess_1", &tree)["counts"]["subagent"]["completed"], 751);
    }
}
