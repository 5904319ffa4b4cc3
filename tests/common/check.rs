//! What holds of every feed, whatever happened (P2, P4, P11): the rules are those of the simulation.

use serde_json::Value;

/// Holds a whole feed, from its beginning, against what is promised of all feeds.
pub fn check_feed(events: &[Value]) {
    let violations = cadre::sim::check_feed(events);
    assert!(violations.is_empty(), "the feed breaks promises: {violations:#?}");
}
