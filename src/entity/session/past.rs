//! Which turns of a thread later ones see, by their numbers: not those that were taken back, nor those that a summary
//! stands for.

use serde::{Deserialize, Serialize};

use crate::{exec::History, fact::id::ThreadId, view::ThreadView};

/// What has become of the turns of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Turns that were taken back, from one to another, the newest last. Between two of these lies a turn that was not,
    /// so of more than a run looks back on the first are forgotten.
    gone: Vec<(u64, u64)>,
    /// Up to which turns summaries stand, the one that counts last.
    summed: Vec<u64>,
}

impl Past {
    /// All turns after `to`, of so many, were taken back, and so many summaries stand after it.
    pub(super) fn take_back(&mut self, to: u64, turns: u64, summaries: usize) {
        self.gone.retain(|(first, _)| *first <= to);
        if self.gone.len() as u64 > History::TURNS_MAX {
            self.gone.remove(0);
        }
        self.gone.push((to + 1, turns));
        self.summed.retain(|upto| *upto <= to);
        self.summed.drain(..self.summed.len().saturating_sub(summaries));
    }

    /// A summary stands for the turns up to this one.
    pub(super) fn sum_up(&mut self, upto: u64) {
        self.summed.retain(|other| *other != upto);
        if self.summed.len() >= ThreadView::BOUNDARIES_MAX {
            self.summed.remove(0);
        }
        self.summed.push(upto);
    }

    /// What the next turn of a thread sees in which so many are over. Nothing when there is nothing to see.
    pub(super) fn seen(&self, thread: &ThreadId, turns: u64) -> Option<History> {
        let summed = self.summed.last().copied().unwrap_or(0);
        let (mut upto, mut left, mut spans) = (turns, History::TURNS_MAX, Vec::new());
        // The beginning ends it as a last gap would.
        for (first, last) in self.gone.iter().rev().copied().chain([(0, 0)]) {
            let from = (last + 1).max(summed + 1).max((upto + 1).saturating_sub(left));
            if from <= upto {
                spans.push((from, upto));
                left -= upto + 1 - from;
            }
            upto = upto.min(first.saturating_sub(1));
        }
        spans.reverse();
        let summed = (summed > 0).then_some(summed);
        (summed.is_some() || !spans.is_empty()).then(|| History { thread: thread.clone(), summed, spans })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fact::id::Id;

    fn seen(past: &Past, turns: u64) -> (Option<u64>, Vec<(u64, u64)>) {
        past.seen(&ThreadId::with_suffix("a"), turns)
            .map_or((None, Vec::new()), |seen| (seen.summed, seen.spans))
    }

    #[test]
    fn turns_are_seen_unless_they_are_too_far_back_taken_back_or_summed_up() {
        let mut past = Past::default();
        assert_eq!(past.seen(&ThreadId::with_suffix("a"), 0), None);
        assert_eq!(seen(&past, 3), (None, vec![(1, 3)]));
        assert_eq!(seen(&past, 40), (None, vec![(9, 40)]));
        past.take_back(3, 5, 0);
        assert_eq!(seen(&past, 5), (None, vec![(1, 3)]));
        assert_eq!(seen(&past, 7), (None, vec![(1, 3), (6, 7)]));
        past.sum_up(2);
        assert_eq!(seen(&past, 7), (Some(2), vec![(3, 3), (6, 7)]));
        past.sum_up(7);
        assert_eq!(seen(&past, 7), (Some(7), vec![]));
        past.take_back(6, 7, 1);
        assert_eq!(seen(&past, 8), (Some(2), vec![(3, 3), (6, 6), (8, 8)]));
        past.take_back(0, 8, 0);
        assert_eq!(past.seen(&ThreadId::with_suffix("a"), 8), None);
    }

    proptest! {
        /// Against a list of all turns that are left.
        #[test]
        fn p9_however_often_turns_are_taken_back_the_last_ones_are_known(
            steps in prop::collection::vec((1_u64..6, 0_usize..8), 1..200)
        ) {
            let (mut past, mut left, mut turns) = (Past::default(), Vec::new(), 0);
            for (more, back) in steps {
                for _ in 0..more {
                    turns += 1;
                    left.push(turns);
                }
                if back > 0 {
                    left.truncate(left.len().saturating_sub(back));
                    past.take_back(left.last().copied().unwrap_or(0), turns, 0);
                }
                let known: Vec<u64> = seen(&past, turns).1.into_iter().flat_map(|(from, to)| from..=to).collect();
                let last = left.len().saturating_sub(History::TURNS_MAX as usize);
                prop_assert_eq!(&known, &left[last..]);
                prop_assert!(past.gone.len() as u64 <= History::TURNS_MAX + 1);
            }
        }
    }
}
