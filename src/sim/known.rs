//! What everybody outside knows of: ids that commands were answered with, and those that readers saw.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cadre_cluster::sim::Dice;

use crate::fact::{Event, Payload};

/// The sessions that all clients share.
pub(super) const SESSIONS: [&str; 3] = ["sess_a", "sess_b", "sess_c"];

/// A list that all clients and readers of one simulation share.
#[derive(Clone, Default)]
pub(super) struct Known(Arc<Mutex<Ids>>);

/// Ids, each with the session that it belongs to.
#[derive(Default)]
pub(super) struct Ids {
    seen: BTreeSet<String>,
    pub turns: Vec<Turn>,
    pub tasks: Vec<(String, String)>,
    pub subagents: Vec<(String, String)>,
    pub jobs: Vec<String>,
    pub items: Vec<(String, String)>,
    pub actions: Vec<Action>,
    numbers: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub session: String,
    pub thread: String,
    pub turn: String,
}

#[derive(Debug, Clone)]
pub(super) struct Action {
    pub id: String,
    pub decisions: Vec<String>,
}

impl Known {
    /// A number that nobody else has.
    pub fn number(&self) -> u64 {
        let mut ids = self.ids();
        ids.numbers += 1;
        ids.numbers
    }

    /// One of a list, most likely one of the last: what is old has ended.
    pub fn pick<T: Clone>(&self, dice: &Dice, list: impl FnOnce(&Ids) -> &Vec<T>) -> Option<T> {
        let ids = self.ids();
        let list = list(&ids);
        let from = if dice.chance(0.7) { list.len().saturating_sub(6) } else { 0 };
        (!list.is_empty()).then(|| dice.pick(&list[from..]).clone())
    }

    /// Takes over the ids of an event.
    pub fn learn(&self, event: &Event) {
        let (session, ids) = (event.session.to_string(), &event.fact.ids);
        let mut known = self.ids();
        match &event.fact.payload {
            Payload::TurnSubmitted(_) => {
                let (Some(thread), Some(turn)) = (ids.thread(), ids.turn()) else { return };
                known.add_turn(&session, thread.as_str(), turn.as_str());
            }
            Payload::TaskCreated(_) => {
                let Some(task) = ids.task() else { return };
                known.add_task(&session, task.as_str());
            }
            Payload::SubagentSpawned(_) => {
                let Some(subagent) = ids.subagent() else { return };
                known.add_subagent(&session, subagent.as_str());
            }
            Payload::JobCreated(_) => {
                let Some(job) = ids.job() else { return };
                known.add_job(job.as_str());
            }
            Payload::JobItemStarted(_) => {
                let (Some(job), Some(item)) = (ids.job(), ids.item()) else { return };
                if known.is_new(&format!("{job}/{item}")) {
                    known.items.push((job.to_string(), item.to_string()));
                }
            }
            Payload::ActionRequired(required) => {
                let Some(action) = ids.action() else { return };
                if known.is_new(action.as_str()) {
                    let decisions = required.decisions.clone();
                    known.actions.push(Action { id: action.to_string(), decisions });
                }
            }
            _ => {}
        }
    }

    pub fn ids(&self) -> MutexGuard<'_, Ids> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ids {
    fn is_new(&mut self, id: &str) -> bool {
        self.seen.insert(id.to_owned())
    }

    pub fn add_turn(&mut self, session: &str, thread: &str, turn: &str) {
        if self.is_new(turn) {
            let (session, thread, turn) = (session.to_owned(), thread.to_owned(), turn.to_owned());
            self.turns.push(Turn { session, thread, turn });
        }
    }

    pub fn add_task(&mut self, session: &str, task: &str) {
        if self.is_new(task) {
            self.tasks.push((session.to_owned(), task.to_owned()));
        }
    }

    pub fn add_subagent(&mut self, session: &str, subagent: &str) {
        if self.is_new(subagent) {
            self.subagents.push((session.to_owned(), subagent.to_owned()));
        }
    }

    pub fn add_job(&mut self, job: &str) {
        if self.is_new(job) {
            self.jobs.push(job.to_owned());
        }
    }
}
