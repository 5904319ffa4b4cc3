//! How often what the checks are about has happened. A check of what never happens says nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    bank::{Fact, How, LEDGER},
    check::Remains,
    workload::Known,
};

/// Counts by name.
pub type Tally = BTreeMap<&'static str, u64>;

pub(super) fn tally(remains: &Remains) -> Tally {
    let mut tally = Tally::new();
    let mut count = |name, many: usize| *tally.entry(name).or_default() += many as u64;
    let mut ops = BTreeSet::new();
    for fact in remains.facts::<Fact>(LEDGER).into_iter().map(|recorded| recorded.fact) {
        count("reports of effects", usize::from(matches!(fact, Fact::NoticeReported { .. })));
        let (op, answers) = fact.op();
        count("keys used anew", usize::from(answers && !ops.insert(op.to_owned())));
        count("effects cancelled", usize::from(matches!(fact, Fact::NoticeCancelled { .. })));
        count("effects lost", usize::from(matches!(fact, Fact::NoticeEnded { how: How::Lost, .. })));
    }
    for kept in &remains.feeds {
        count("events trimmed", kept.appended.len() - kept.events.len());
    }
    for seen in &remains.readers {
        count("gaps told to readers", seen.gaps.len());
        let filtered = seen.reading.filter.is_some();
        count("events read by filter", if filtered { seen.events.len() } else { 0 });
    }
    for keyless in &remains.log.keyless {
        count("commands without a key", 1);
        count("commands of unknown outcome", usize::from(keyless.known == Known::Nothing));
    }
    count("answers in the client's process", remains.log.in_process as usize);
    count("dead letters", remains.dead_letters.len());
    tally
}
