//! How often what the checks are about has happened. A check of what never happens says nothing.

use std::collections::BTreeMap;

use super::{
    bank::{Fact, How},
    check::Remains,
    record::Recorded,
};

/// Counts by name.
pub type Tally = BTreeMap<&'static str, u64>;

pub(super) fn tally(remains: &Remains) -> Tally {
    let mut tally = Tally::new();
    let mut count = |name, many: usize| *tally.entry(name).or_default() += many as u64;
    for event in &remains.ledger {
        let fact = Recorded::<Fact>::read(event).fact;
        count("reports of effects", usize::from(matches!(fact, Fact::NoticeReported { .. })));
        count("effects cancelled", usize::from(matches!(fact, Fact::NoticeCancelled { .. })));
        count("effects lost", usize::from(matches!(fact, Fact::NoticeEnded { how: How::Lost, .. })));
    }
    count("dead letters", remains.dead_letters.len());
    tally
}
