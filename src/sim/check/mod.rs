//! The promises, checked on what is served, what was read and what clients were told.

mod actions;
mod attempts;
mod cancels;
mod ends;
mod feed;
mod joins;
mod readers;
mod served;
mod strangers;
mod timers;
mod told;
mod tree;

use cadre_cluster::sim::Violation;
use serde_json::Value;

pub use self::feed::check_feed;
use super::remains::Remains;

/// All violations.
pub(super) fn check(remains: &Remains) -> Vec<Violation> {
    let mut check = Check { violations: Vec::new() };
    for intruder in &remains.intruders {
        check.broken(1, intruder.clone());
    }
    for (promise, what) in &remains.notes.broken {
        check.broken(*promise, what.clone());
    }
    check.told(remains);
    check.readers(remains);
    check.strangers(remains);
    check.cancels(remains);
    for session in &remains.sessions {
        check.violations.extend(check_feed(&session.served));
        check.served(session);
        check.ends(session);
        check.actions(session);
        check.attempts(session);
        check.joins(session, remains);
        check.timers(session);
    }
    for letter in &remains.dead_letters {
        check.broken(6, format!("put aside: {letter}"));
    }
    for stuck in &remains.stuck {
        check.broken(7, format!("{stuck} does not come to an end"));
    }
    for left in remains.leftovers.iter().take(5) {
        check.broken(7, format!("left to do: {left}"));
    }
    check.violations
}

struct Check {
    violations: Vec<Violation>,
}

impl Check {
    fn broken(&mut self, promise: u8, what: String) {
        self.violations.push(Violation { promise, what });
    }

    fn expect(&mut self, promise: u8, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken(promise, what());
        }
    }
}

/// A field of an event that is text, or an empty one.
fn text<'a>(event: &'a Value, field: &str) -> &'a str {
    event[field].as_str().unwrap_or_default()
}

/// A field of an event's payload that is text, or an empty one.
fn said<'a>(event: &'a Value, field: &str) -> &'a str {
    event["payload"][field].as_str().unwrap_or_default()
}

/// An event, in few words.
fn shown(event: &Value) -> String {
    let (class, stream, at) = (text(event, "type"), text(event, "streamId"), text(event, "timestamp"));
    let cursor = text(event, "cursor");
    format!("{class} of {stream} at {at} ({cursor}): {}", event["payload"])
}
