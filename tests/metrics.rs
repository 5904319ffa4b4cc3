//! What operators are told of metrics is what a server really shows.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
#[path = "common/server.rs"]
mod server;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use common::turn;
use serde_json::json;
use server::Server;

const PAGE: &str = include_str!("../docs/operations.md");

/// Name and labels of every metric that the page has in a table.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let code =
        |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let rows = PAGE.lines().filter(|line| line.starts_with("| `cadre_"));
    let read = |row: &str| {
        let cells: Vec<_> = row.split('|').collect();
        let name = code(cells[1]).remove(0);
        (name, code(cells[2]).into_iter().collect())
    };
    rows.map(read).collect()
}

/// The names that stand in calls of `counter!`, `gauge!` and `histogram!`.
fn written(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            written(&path, names);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        for metric in ["counter!(", "gauge!(", "histogram!("] {
            for (at, _) in text.match_indices(metric) {
                let name = text[at..].split('"').nth(1).unwrap();
                names.insert(name.to_owned());
            }
        }
    }
}

#[test]
fn every_metric_of_the_sources_is_documented_and_nothing_else_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut names = BTreeSet::new();
    for folder in ["src", "cluster/src"] {
        written(&root.join(folder), &mut names);
    }
    assert!(names.len() > 50 && names.iter().all(|name| name.starts_with("cadre_")), "{names:?}");
    let documented: BTreeSet<_> = documented().into_keys().collect();
    assert_eq!(names, documented, "docs/operations.md against the sources");
}

#[test]
fn what_a_server_shows_is_what_is_documented() {
    cadre::http::install_metrics();
    let server = Server::start();
    let script = json!([
        { "say": "hello" },
        { "usage": { "inputTokens": 100, "outputTokens": 20, "costUsd": 0.01 } },
        { "tool": "sleep", "args": { "ms": 5 } },
        { "tool": "big", "args": { "bytes": 100_000 } },
        { "spawn": { "count": 2, "script": [{ "say": "me too" }], "join": "all" } }
    ]);
    let (status, answer) = server.call("submit_turn", &turn("s", script));
    assert_eq!(status, 200, "{answer}");
    let id = answer["result"]["turnId"].as_str().unwrap();
    server.tokio.block_on(server.rig.turn_over("s", id));
    let documented = documented();
    let text = server.get_text("/metrics").1;
    let mut shown = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("cadre_")) {
        let (name, labels) = line.split_once([' ', '{']).unwrap();
        let parts = ["_bucket", "_sum", "_count"];
        let whole = parts
            .iter()
            .find_map(|part| name.strip_suffix(part))
            .filter(|name| documented.contains_key(*name));
        let name = whole.unwrap_or(name);
        let known = documented.get(name).unwrap_or_else(|| panic!("{name} is not documented"));
        let labels = if line.contains('{') { labels.split('}').next().unwrap() } else { "" };
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let label = label.split('=').next().unwrap();
            assert!(
                known.contains(label) || ["le", "quantile"].contains(&label),
                "{name} has {label}: {line}"
            );
        }
        shown.insert(name.to_owned());
    }
    // What the design asks for (§11) is there after one turn.
    for name in [
        "cadre_host_group_commit_seconds",
        "cadre_host_group_steps",
        "cadre_host_steps_waiting",
        "cadre_placement_claims_total",
        "cadre_placement_shards_owned",
        "cadre_host_entities_live",
        "cadre_host_inputs_waiting",
        "cadre_host_inboxes_waiting",
        "cadre_host_effect_seconds",
        "cadre_turns_total",
        "cadre_subagents_total",
        "cadre_tokens_total",
        "cadre_cost_microdollars_total",
        "cadre_store_commit_seconds",
        "cadre_commands_total",
        "cadre_http_requests_total",
    ] {
        assert!(shown.contains(name), "{name} is not shown:\n{text}");
    }
    let tokens = text.lines().find(|line| line.starts_with("cadre_tokens_total") && line.contains("input"));
    assert!(tokens.is_some_and(|line| line.contains("tenant=\"local\"")), "{tokens:?}");
    server.stop();
}
