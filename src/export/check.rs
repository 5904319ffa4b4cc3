//! Promises that can be checked from facts alone.

use std::collections::HashMap;

#[cfg(test)]
mod tests;

use super::class::{OfTurn, of_turn};
use crate::fact::{
    Event, Payload,
    id::{ActionId, CallId, TaskId, TurnId},
    payload::VerificationOutcome,
};

/// Looks at facts one by one, and says at the end which promises were kept.
///
/// Sequences are checked over all facts of the session, everything else over those that were selected: a promise about
/// a turn can be checked without the turns beside it.
#[derive(Debug, Clone, Default)]
pub struct Checks {
    streams: HashMap<Box<str>, u64>,
    sequence_faults: Faults,
    turns: HashMap<TurnId, Turn>,
    tasks: HashMap<TaskId, bool>,
    actions: HashMap<ActionId, Action>,
    calls: HashMap<CallId, (TurnId, bool)>,
    end_faults: Faults,
    late_faults: Faults,
    action_faults: Faults,
}

#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    begun: bool,
    ends: u32,
}

#[derive(Debug, Clone)]
struct Action {
    turn: Option<TurnId>,
    resolved: bool,
}

/// How many faults there are, and the first in words.
#[derive(Debug, Clone, Default)]
struct Faults {
    count: u64,
    first: Option<String>,
}

impl Faults {
    fn add(&mut self, words: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(words);
    }

    fn add_if(&mut self, is_fault: bool, words: impl FnOnce() -> String) {
        if is_fault {
            self.add(words);
        }
    }

    fn outcome(&self, name: &str, fine: String) -> VerificationOutcome {
        let (status, detail) = match &self.first {
            None => ("passed", fine),
            Some(first) if self.count == 1 => ("failed", first.clone()),
            Some(first) => ("failed", format!("{first}, and {} more", self.count - 1)),
        };
        VerificationOutcome {
            name: name.into(),
            status: status.into(),
            detail: Some(detail),
            evidence_ref: None,
        }
    }
}

impl Checks {
    /// Takes in a fact of the session, selected or not.
    pub fn see(&mut self, event: &Event, trimmed: bool) {
        let Event { stream, sequence, cursor, .. } = event;
        match self.streams.get_mut(stream.as_str()) {
            Some(last) => {
                if *sequence != *last + 1 {
                    let last = *last;
                    self.sequence_faults
                        .add(|| format!("{stream} goes from {last} to {sequence} at {cursor}"));
                }
                *last = *sequence;
            }
            None => {
                // What was trimmed took the beginning of streams with it.
                if *sequence != 1 && !trimmed {
                    self.sequence_faults.add(|| format!("{stream} begins with {sequence} at {cursor}"));
                }
                self.streams.insert(stream.as_str().into(), *sequence);
            }
        }
    }

    /// Takes in a fact that was selected.
    pub fn take(&mut self, event: &Event) {
        let (ids, class) = (&event.fact.ids, event.fact.event_type());
        if let Some(turn) = ids.turn() {
            let seen = self.turns.entry(turn.clone()).or_default();
            match &event.fact.payload {
                Payload::TurnCompleted(_) | Payload::TurnFailed(_) => {
                    seen.begun = true;
                    seen.ends += 1;
                    if seen.ends > 1 {
                        self.end_faults.add(|| format!("turn {turn} ends again at {}", event.cursor));
                    }
                }
                Payload::TurnSubmitted(_) | Payload::TurnStarted(_) => {
                    seen.begun = true;
                    if seen.ends > 0 {
                        self.late_faults.add(|| format!("{class} after the end of {turn}"));
                    }
                }
                _ if seen.ends > 0 && of_turn(class) == OfTurn::Work => {
                    self.late_faults.add(|| format!("{class} after the end of {turn} at {}", event.cursor));
                }
                _ => {}
            }
            if let Some(call) = ids.call() {
                match &event.fact.payload {
                    Payload::ToolStarted(_) => drop(self.calls.insert(call.clone(), (turn.clone(), false))),
                    Payload::ToolResult(_) => drop(self.calls.insert(call.clone(), (turn.clone(), true))),
                    Payload::ToolFailed(failed) if !failed.will_retry => {
                        self.calls.insert(call.clone(), (turn.clone(), true));
                    }
                    _ => {}
                }
            }
        }
        self.decision(event);
        self.task(event);
    }

    fn decision(&mut self, event: &Event) {
        let ids = &event.fact.ids;
        let Some(action) = ids.action() else { return };
        match &event.fact.payload {
            Payload::ActionRequired(_) => {
                self.actions.insert(action.clone(), Action { turn: ids.turn().cloned(), resolved: false });
            }
            Payload::ActionResolved(_) => match self.actions.get_mut(action) {
                Some(asked) if asked.resolved => {
                    self.action_faults.add(|| format!("{action} was resolved twice"));
                }
                Some(asked) => asked.resolved = true,
                None => self.action_faults.add(|| format!("{action} was resolved and never asked for")),
            },
            _ => {}
        }
    }

    fn task(&mut self, event: &Event) {
        let Some(task) = event.fact.ids.task() else { return };
        // What others say of a task may come at any time: it is about them.
        let own = event.stream.strip_prefix("task:") == Some(task.as_str());
        let over = self.tasks.entry(task.clone()).or_default();
        let class = event.fact.event_type();
        match &event.fact.payload {
            Payload::TaskCompleted(_)
            | Payload::TaskFailed(_)
            | Payload::TaskCancelled(_)
            | Payload::TaskTimedOut(_)
            | Payload::TaskLost(_) => {
                let ended_before = std::mem::replace(over, true);
                self.end_faults
                    .add_if(ended_before, || format!("task {task} ends again at {}", event.cursor));
            }
            // Only a command opens a task again, and this is how that is told.
            Payload::TaskRetrying(_) => *over = false,
            Payload::TaskArchived(_) => {}
            _ if own && *over => {
                self.late_faults.add(|| format!("{class} after the end of {task} at {}", event.cursor));
            }
            _ => {}
        }
    }

    /// How many turns have not ended.
    pub fn open_turns(&self) -> usize {
        self.turns.values().filter(|turn| turn.begun && turn.ends == 0).count()
    }

    /// What was found. When history was `trimmed`, what rests on all of it is not known.
    pub fn outcomes(&self, trimmed: bool) -> Vec<VerificationOutcome> {
        let ended = |turn: &TurnId| self.turns.get(turn).is_some_and(|turn| turn.ends > 0);
        let mut action_faults = self.action_faults.clone();
        let mut pending = 0;
        for (id, action) in self.actions.iter().filter(|(_, action)| !action.resolved) {
            pending += 1;
            if action.turn.as_ref().is_some_and(ended) {
                action_faults.add(|| format!("{id} is waited for by a turn that has ended"));
            }
        }
        let mut call_faults = Faults::default();
        for (call, (turn, _)) in self.calls.iter().filter(|(_, (turn, over))| !over && ended(turn)) {
            call_faults.add(|| format!("{call} has no outcome, and its turn {turn} has ended"));
        }
        let turns = self.turns.values().filter(|turn| turn.begun).count();
        let open = self.open_turns();
        let mut outcomes = vec![
            self.sequence_faults.outcome("sequences_are_gapless", format!("{} streams", self.streams.len())),
            self.end_faults.outcome("ends_are_told_once", format!("{turns} turns, {open} of them open")),
            self.late_faults.outcome("nothing_follows_an_end", format!("{} tasks", self.tasks.len())),
            action_faults.outcome(
                "decisions_are_resolved_or_pending",
                format!("{} asked for, {pending} pending", self.actions.len()),
            ),
            call_faults.outcome("tool_calls_have_an_outcome", format!("{} calls", self.calls.len())),
        ];
        if trimmed {
            for outcome in outcomes.iter_mut().filter(|outcome| outcome.status == "passed") {
                outcome.status = "unknown".into();
                outcome.detail = Some("a part of the history is no longer kept".into());
            }
        }
        outcomes
    }
}
