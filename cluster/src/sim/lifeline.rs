//! The line between a simulated node and the world: cut it and the node is dead, hold it and the node sleeps.
//!
//! A dead process is one whose actions have no effect any more. The simulated store and bus pass through the
//! line before and after every action; on a cut line they never return, on a held one they wait. So a crash
//! can happen between any two actions, and between an action's effect and its answer, without the code under
//! test knowing of it.

use std::{
    future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use super::Dice;

/// Where an action stands when it passes the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Nothing has happened yet.
    Before,
    /// It has taken effect, the node does not know yet.
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Alive,
    Held,
    Cut,
}

/// One node's line. Clones are the same line.
#[derive(Debug, Clone)]
pub struct Lifeline(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    name: String,
    condition: watch::Sender<Condition>,
    crash_odds: Mutex<Option<(f64, Dice)>>,
    actions: AtomicU64,
    crashed_by_chance: AtomicBool,
}

impl Lifeline {
    /// A line for the node of that name.
    pub fn new(name: &str) -> Self {
        Self(Arc::new(Inner {
            name: name.to_owned(),
            condition: watch::Sender::new(Condition::Alive),
            crash_odds: Mutex::default(),
            actions: AtomicU64::new(0),
            crashed_by_chance: AtomicBool::new(false),
        }))
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Passes the line: at once when the node is alive, later when it is held, never when it is cut.
    pub async fn pass(&self, moment: Moment) {
        self.0.actions.fetch_add(1, Ordering::Relaxed);
        if self.draws_a_crash() {
            tracing::debug!(node = self.0.name, ?moment, "crash drawn");
            self.0.crashed_by_chance.store(true, Ordering::Relaxed);
            self.cut();
        }
        let mut condition = self.0.condition.subscribe();
        loop {
            match *condition.borrow_and_update() {
                Condition::Alive => return,
                Condition::Held => {}
                Condition::Cut => break,
            }
            if condition.changed().await.is_err() {
                break;
            }
        }
        future::pending().await
    }

    /// Kills the node.
    pub fn cut(&self) {
        self.0.condition.send_replace(Condition::Cut);
    }

    /// Puts the node to sleep until [`Self::release`].
    pub fn hold(&self) {
        self.0.condition.send_if_modified(|condition| {
            let alive = *condition == Condition::Alive;
            if alive {
                *condition = Condition::Held;
            }
            alive
        });
    }

    /// Wakes the node.
    pub fn release(&self) {
        self.0.condition.send_if_modified(|condition| {
            let held = *condition == Condition::Held;
            if held {
                *condition = Condition::Alive;
            }
            held
        });
    }

    /// From now on every action kills the node with this probability.
    pub fn crash_by_chance(&self, odds: f64, dice: Dice) {
        *self.0.crash_odds.lock().unwrap_or_else(PoisonError::into_inner) = Some((odds, dice));
    }

    /// No more crashes by chance.
    pub fn be_safe(&self) {
        *self.0.crash_odds.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the node is dead.
    pub fn is_cut(&self) -> bool {
        *self.0.condition.borrow() == Condition::Cut
    }

    /// Waits for the node's death.
    pub async fn cut_happened(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.condition.subscribe().wait_for(|condition| *condition == Condition::Cut).await;
    }

    fn draws_a_crash(&self) -> bool {
        let odds = self.0.crash_odds.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_cut() && odds.as_ref().is_some_and(|(odds, dice)| dice.chance(*odds))
    }
}
