//! How often what the checks are about has happened. A check of what never happens says nothing.

use cadre_cluster::sim::Tally;

use super::remains::Remains;

/// What has to happen in some of the simulations, each a class of facts.
const CLASSES: [&str; 20] = [
    "turn.completed",
    "turn.failed",
    "queue.changed",
    "model.delta",
    "tool.failed",
    "output.spilled",
    "history.rollback.completed",
    "context.compaction.completed",
    "action.required",
    "action.resolved",
    "task.completed",
    "task.cancelled",
    "task.retrying",
    "task.blocked",
    "task.timed_out",
    "subagent.completed",
    "subagent.closed",
    "job.completed",
    "job.cancelled",
    "job.item.failed",
];

/// Counts it.
pub(super) fn tally(remains: &Remains) -> Tally {
    let mut tally: Tally = CLASSES.iter().map(|class| (*class, 0)).collect();
    for event in remains.own().flat_map(|session| &session.events) {
        if let Some(count) = tally.get_mut(event.fact.event_type().as_str()) {
            *count += 1;
        }
    }
    let mut count = |name, many: usize| *tally.entry(name).or_default() += many as u64;
    let told = &remains.notes.told;
    count("commands answered", told.iter().filter(|told| told.answer.is_ok()).count());
    count("commands refused", told.iter().filter(|told| told.answer.is_err()).count());
    count("commands answered twice", told.iter().filter(|told| told.again.is_some()).count());
    count("commands of unknown outcome", remains.notes.unknown as usize);
    count("replays in the middle", remains.notes.replays as usize);
    count("strangers refused", remains.notes.refused_strangers as usize);
    let expired = |value: &&serde_json::Value| {
        value["type"] == "action.resolved" && value["payload"]["status"] == "expired"
    };
    count("questions expired", remains.own().flat_map(|session| &session.served).filter(expired).count());
    let lost = |value: &&serde_json::Value| value["payload"]["status"] == "lost";
    count("lost", remains.own().flat_map(|session| &session.served).filter(lost).count());
    tally
}
