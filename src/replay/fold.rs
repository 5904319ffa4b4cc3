//! Folding a case.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::{Differences, ReplayCase, Report, Verdict};
use crate::{
    export::Span,
    fact::id::ItemId,
    view::{ItemView, ReadModels, SessionSnapshot, TurnView, Window, snapshot::Publisher},
};

/// What of a turn depends on the turns beside it, so that a part of a session does not tell it: its number, what is
/// shed when many run at once, and that it was taken back.
const TOLD_BY_THE_WHOLE: [&str; 5] = ["number", "steps", "text", "outputRefs", "rolledBackAt"];

/// Folds the events of a case and compares what that gives with what was served, field by field.
pub fn fold(case: &ReplayCase) -> Report {
    let mut models = ReadModels::new(case.session_id.clone());
    let mut span = Span::default();
    let mut out_of_order = 0;
    let mut last = None;
    for event in &case.events {
        span.take(event);
        // The order of a feed is that of its cursors: events out of it were moved, or are twice there.
        if last.is_some_and(|last| event.cursor <= last) || event.cursor > case.cursor {
            out_of_order += 1;
        }
        last = Some(event.cursor);
        models.apply_traced(&event.stream, &event.fact, event.trace.as_ref());
    }
    let mut differences = Differences::default();
    let trimmed = case.known_gaps.iter().find(|gap| gap.what == "history");
    if trimmed.is_none() {
        compare(case, &models, &mut differences);
    }
    let open = models.session.threads.iter().map(|thread| thread.turns.len()).sum::<usize>();
    let verdict = match (trimmed, differences.total, out_of_order) {
        (Some(_), _, _) => Verdict::Incomparable,
        // Equal to nothing is not equal.
        (None, 0, 0) if differences.compared == 0 => Verdict::Incomparable,
        (None, 0, 0) => Verdict::Equal,
        (None, _, _) => Verdict::Different,
    };
    Report {
        session_id: case.session_id.clone(),
        verdict,
        span,
        out_of_order,
        turns: models.turns.values().map(Vec::len).sum::<usize>() + open,
        tasks: models.tasks.len(),
        subagents: models.subagents.len(),
        jobs: models.jobs.len(),
        items: models.items.len(),
        unknown: models.unknown,
        omitted: case.models.omitted.clone(),
        gaps: case.known_gaps.clone(),
        differences,
    }
}

fn compare(case: &ReplayCase, models: &ReadModels, differences: &mut Differences) {
    let served = &case.models;
    if let Some(snapshot) = &served.snapshot {
        let publisher =
            Publisher { runtime_id: case.runtime_id.clone(), schema_version: case.schema_version.clone() };
        let asked = served.window;
        let window =
            Window { turns: asked.turns, tasks: asked.tasks, jobs: asked.jobs, subagents: asked.subagents };
        let parts = models.parts(publisher, window, Some(case.cursor));
        let folded = parts.map(|parts| json(&SessionSnapshot::assemble(parts)));
        differences.compare("snapshot", Some(snapshot), folded.as_ref());
    }
    let whole = case.scope.is_all();
    for (thread, turns) in &served.turns {
        let folded = models.turns.iter().find(|(id, _)| id.as_str() == thread);
        let folded = folded.map(|(_, turns)| turns.as_slice()).unwrap_or_default();
        compare_turns(&format!("turns.{thread}"), turns, folded, whole, differences);
    }
    by_id("tasks", &served.tasks, models.tasks.iter(), recorded_all(case, "tasks"), differences);
    by_id(
        "subagents",
        &served.subagents,
        models.subagents.iter(),
        recorded_all(case, "subagents"),
        differences,
    );
    if let Some(jobs) = &served.jobs {
        by_id("jobs", jobs, models.jobs.iter(), recorded_all(case, "jobs"), differences);
    }
    if let Some(items) = &served.items {
        let all = recorded_all(case, "jobs") && recorded_all(case, "items");
        compare_items(items, models, all, differences);
    }
}

/// Compares the items of each job by their ids. The turn of an item is its own entity's, and served as a thread.
fn compare_items(
    served: &BTreeMap<String, Vec<Value>>,
    models: &ReadModels,
    all: bool,
    differences: &mut Differences,
) {
    let mut folded: BTreeMap<&str, Vec<(&ItemId, ItemView)>> = BTreeMap::new();
    for ((job, item), view) in &models.items {
        let job = job.as_ref().map(AsRef::as_ref).unwrap_or_default();
        folded.entry(job).or_default().push((item, ItemView { turn: None, ..view.clone() }));
    }
    let jobs: BTreeSet<&str> = served.keys().map(String::as_str).chain(folded.keys().copied()).collect();
    for job in jobs {
        let recorded = served.get(job).map(Vec::as_slice).unwrap_or_default();
        let id = |item: &Value| item["itemId"].as_str().unwrap_or_default().to_owned();
        let recorded: BTreeMap<_, _> = recorded.iter().map(|item| (id(item), item.clone())).collect();
        let folded = folded.get(job).map(Vec::as_slice).unwrap_or_default();
        let folded = folded.iter().map(|(id, view)| (*id, view));
        by_id(&format!("items.{job}"), &recorded, folded, all, differences);
    }
}

/// Whether everything of a kind was recorded: only then is more of it a difference.
fn recorded_all(case: &ReplayCase, kind: &str) -> bool {
    case.scope.is_all() && case.models.omitted.get(kind).is_none_or(|omitted| *omitted == 0)
}

/// Compares views by their ids: those that were recorded, and when all were, those that were not.
fn by_id<'a, I: AsRef<str> + 'a, V: Serialize + 'a>(
    kind: &str,
    served: &BTreeMap<String, Value>,
    folded: impl Iterator<Item = (&'a I, &'a V)>,
    all: bool,
    differences: &mut Differences,
) {
    let mut missing: BTreeMap<&str, &Value> = served.iter().map(|(id, view)| (id.as_str(), view)).collect();
    for (id, view) in folded {
        let path = format!("{kind}.{}", id.as_ref());
        match missing.remove(id.as_ref()) {
            Some(expected) => differences.compare(&path, Some(expected), Some(&json(view))),
            None if all => differences.compare(&path, None, Some(&json(view))),
            None => {}
        }
    }
    for (id, view) in missing {
        differences.compare(&format!("{kind}.{id}"), Some(view), None);
    }
}

/// Compares the turns of a thread by their ids: the last ones were recorded.
fn compare_turns(path: &str, served: &[Value], folded: &[TurnView], whole: bool, found: &mut Differences) {
    for expected in served {
        let id = expected["turnId"].as_str().unwrap_or_default();
        let path = format!("{path}.{id}");
        let got = folded.iter().rev().find(|turn| turn.turn_id.as_str() == id).map(json);
        if whole {
            found.compare(&path, Some(expected), got.as_ref());
            continue;
        }
        // A turn for which there was no room at first was told of from its end alone.
        if expected.get("submittedAt").is_some() {
            found.compare(&path, Some(&alone(expected.clone())), got.map(alone).as_ref());
        }
    }
    if whole && served.len() < folded.len() && served.len() < crate::export::Listed::<Value>::ENTRIES_MAX {
        let (expected, got) = (Value::from(served.len()), Value::from(folded.len()));
        found.compare(&format!("{path}.length"), Some(&expected), Some(&got));
    }
}

/// A turn without what depends on others.
fn alone(mut turn: Value) -> Value {
    if let Some(fields) = turn.as_object_mut() {
        TOLD_BY_THE_WHOLE.iter().for_each(|name| drop(fields.remove(*name)));
    }
    turn
}

fn json(view: &impl Serialize) -> Value {
    serde_json::to_value(view).expect("views serialize into memory without fail")
}
