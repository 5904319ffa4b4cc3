//! The line between a simulated node and the world: cut it and the node is dead, hold it and the node sleeps.
//!
//! A dead process is one whose actions have no effect any more. The simulated store and bus pass through the
//! line before and after every action; on a cut line they never return, on a held one they wait. So a crash
//! can happen between any two actions, and between an action's effect and its answer, without the code under
//! test knowing of it.

use std::{
    future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

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
    condition: Mutex<Condition>,
    /// Wakes its waiters in the order they came. A watch channel would not: it spreads them at random.
    changed: Notify,
    crash_odds: Mutex<Option<(f64, Dice)>>,
}

impl Lifeline {
    /// A line for the node of that name.
    pub fn new(name: &str) -> Self {
        Self(Arc::new(Inner {
            name: name.to_owned(),
            condition: Mutex::new(Condition::Alive),
            changed: Notify::new(),
            crash_odds: Mutex::default(),
        }))
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Passes the line: at once when the node is alive, later when it is held, never when it is cut.
    pub async fn pass(&self, moment: Moment) {
        if self.draws_a_crash() {
            tracing::debug!(node = self.0.name, ?moment, "crash drawn");
            self.cut();
        }
        loop {
            let changed = self.0.changed.notified();
            match *self.condition() {
                Condition::Alive => return,
                Condition::Held => {}
                Condition::Cut => break,
            }
            changed.await;
        }
        future::pending().await
    }

    /// Kills the node.
    pub fn cut(&self) {
        *self.condition() = Condition::Cut;
        self.0.changed.notify_waiters();
    }

    /// Puts the node to sleep until [`Self::release`].
    pub fn hold(&self) {
        self.turn(Condition::Alive, Condition::Held);
    }

    /// Wakes the node.
    pub fn release(&self) {
        self.turn(Condition::Held, Condition::Alive);
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
        *self.condition() == Condition::Cut
    }

    /// Waits for the node's death.
    pub async fn cut_happened(&self) {
        loop {
            let changed = self.0.changed.notified();
            if self.is_cut() {
                return;
            }
            changed.await;
        }
    }

    fn turn(&self, from: Condition, to: Condition) {
        let mut condition = self.condition();
        if *condition == from {
            *condition = to;
            self.0.changed.notify_waiters();
        }
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.0.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draws_a_crash(&self) -> bool {
        let odds = self.0.crash_odds.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_cut() && odds.as_ref().is_some_and(|(odds, dice)| dice.chance(*odds))
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiters_go_on_in_the_order_they_came() {
        let (line, gone_on) = (Lifeline::new("node"), Arc::new(Mutex::new(Vec::new())));
        line.hold();
        let mut waiters = JoinSet::new();
        for n in 0..50 {
            let (line, gone_on) = (line.clone(), gone_on.clone());
            waiters.spawn(async move {
                line.pass(Moment::Before).await;
                gone_on.lock().unwrap().push(n);
            });
        }
        tokio::task::yield_now().await;
        line.release();
        waiters.join_all().await;
        assert_eq!(*gone_on.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_line_cannot_be_released_or_held() {
        let line = Lifeline::new("node");
        line.cut();
        line.release();
        assert!(line.is_cut());
        line.hold();
        line.cut_happened().await;
    }
}
