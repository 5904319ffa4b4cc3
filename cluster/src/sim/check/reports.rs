//! What effects report while they run.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::{
        bank::{Fact, How, Report},
        record::Recorded,
    },
    Check,
};

/// What is known of one notice so far.
#[derive(Default)]
struct Known {
    last: Option<Report>,
    over: bool,
}

impl Check {
    /// P6: the reports of a run are there in order and once each, and never behind those of a later run. P11: none
    /// follows the end or the cancellation. P2: one that is said to be durable is.
    pub(super) fn reports(&mut self, durable: &[Report], ledger: &[Recorded<Fact>]) {
        let mut notices: BTreeMap<&str, Known> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for recorded in ledger {
            match &recorded.fact {
                Fact::NoticeReported { op, report } => {
                    let known = notices.entry(op).or_default();
                    seen.insert((report.run, report.number));
                    self.expect(11, !known.over, || format!("{op} is over, and then reported {report:?}"));
                    let last = known.last.replace(*report);
                    self.expect(6, follows(last, *report), || {
                        format!("{op} reported {report:?} after {last:?}")
                    });
                }
                Fact::NoticeEnded { op, how } => {
                    let known = notices.entry(op).or_default();
                    known.over = true;
                    let (How::Done { last }, reported) = (how, known.last) else { continue };
                    let all = if last.number == 0 {
                        reported.is_none_or(|reported| reported.run != last.run)
                    } else {
                        reported == Some(*last)
                    };
                    self.expect(6, all, || {
                        format!("{op} ended at {last:?}, its last report is {reported:?}")
                    });
                }
                Fact::NoticeCancelled { notice, .. } => notices.entry(notice).or_default().over = true,
                _ => {}
            }
        }
        for report in durable {
            let known = seen.contains(&(report.run, report.number));
            self.expect(2, known, || format!("{report:?} is said to be durable and is not there"));
        }
    }
}

/// Whether `next` may be the report after `last` of the same effect.
fn follows(last: Option<Report>, next: Report) -> bool {
    match last {
        Some(last) if last.run == next.run => next.number == last.number + 1 && next.attempt == last.attempt,
        Some(last) => next.number == 1 && next.run > last.run && next.attempt >= last.attempt,
        None => next.number == 1,
    }
}
