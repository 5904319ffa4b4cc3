//! Readers of feeds: each follows at one node and then at another, begins again anywhere behind what it has seen, and
//! keeps a log that has to equal the feed in the end (P4).

use std::time::Duration;

use cadre_cluster::sim::Dice;
use tokio::{sync::watch, time::Instant};

use super::{door::Door, known::Known};
use crate::{
    fact::{Cursor, Event, id::SessionId},
    runtime::{Caller, EventFilter},
};

/// What a reader saw.
#[derive(Debug)]
pub(super) struct Seen {
    pub session: SessionId,
    pub filter: EventFilter,
    pub events: Vec<Event>,
    /// Where it stood.
    cursor: Cursor,
}

/// One reader.
pub(super) struct Reader {
    pub caller: Caller,
    pub door: Door,
    pub dice: Dice,
    pub known: Known,
    pub session: SessionId,
    pub filter: EventFilter,
    /// When to stop, once somebody says so.
    pub stop_at: watch::Receiver<Option<Instant>>,
}

impl Reader {
    /// Follows until told to stop.
    pub async fn follow(self) -> Seen {
        let mut seen = Seen {
            session: self.session.clone(),
            filter: self.filter.clone(),
            events: Vec::new(),
            cursor: Cursor::START,
        };
        while !self.is_over() {
            self.step_back(&mut seen);
            let (runtime, lifeline) = self.door.enter().await;
            let mut feed = runtime.follow(&self.caller, &self.session, seen.cursor, self.filter.clone());
            let reconnect = Instant::now() + Duration::from_millis(self.dice.between(100..=6_000));
            while !self.is_over() && !lifeline.is_cut() && Instant::now() < reconnect {
                let until = reconnect.min(Instant::now() + Duration::from_millis(500));
                match tokio::time::timeout_at(until, feed.next()).await {
                    Ok(Ok(page)) => {
                        page.events.iter().for_each(|event| self.known.learn(event));
                        seen.cursor = page.cursor;
                        seen.events.extend(page.events);
                    }
                    Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
                    Err(_) => {}
                }
            }
        }
        seen
    }

    /// Forgets some of what it saw, sometimes, and goes on behind the rest: every cursor is as good as the last.
    fn step_back(&self, seen: &mut Seen) {
        let is_ending = self.stop_at.borrow().is_some();
        if is_ending || seen.events.is_empty() || !self.dice.chance(0.3) {
            return;
        }
        let keep = self.dice.between(0..=seen.events.len() as u64 - 1) as usize;
        seen.events.truncate(keep + 1);
        seen.cursor = seen.events[keep].cursor;
    }

    fn is_over(&self) -> bool {
        self.stop_at.borrow().is_some_and(|at| Instant::now() >= at)
    }
}
