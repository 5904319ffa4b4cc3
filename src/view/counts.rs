//! How many things stand how.

use std::collections::BTreeMap;

use super::declare::views;
use crate::fact::status::{JobStatus, SubagentStatus, TaskStatus};

/// How many things have each status, by its word. Counters that entities change one by one may pass through zero and,
/// read between two of them, below it: what is served leaves those out.
pub type Counts = BTreeMap<String, i64>;

/// Counts one more, or one less.
pub(super) fn add(counts: &mut Counts, word: &str, by: i64) {
    let count = counts.entry(word.to_owned()).or_default();
    *count += by;
    if *count == 0 {
        counts.remove(word);
    }
}

pub(super) fn sum(counts: &Counts, words: impl Iterator<Item = &'static str>) -> u64 {
    words.filter_map(|word| counts.get(word)).map(|count| u64::try_from(*count).unwrap_or(0)).sum()
}

fn tidy(counts: &Counts) -> Counts {
    counts.iter().filter(|(_, count)| **count > 0).map(|(word, count)| (word.clone(), *count)).collect()
}

views! {
    /// How many tasks stand how.
    #[derive(Default)]
    TaskSummary {
        /// All.
        total: u64,
        /// Neither ended nor drafts.
        active: u64,
        /// Waiting or blocked; they are active too.
        waiting: u64,
        /// Completed.
        completed: u64,
        /// Failed or timed out.
        failed: u64,
        /// Cancelled.
        cancelled: u64,
        /// Lost.
        lost: u64,
        /// By status.
        by_status: Counts,
    }

    /// How many subagents stand how.
    #[derive(Default)]
    SubagentCounts {
        /// All.
        total: u64,
        /// Not ended.
        active: u64,
        /// By status.
        by_status: Counts,
    }

    /// How many jobs stand how.
    #[derive(Default)]
    JobCounts {
        /// All.
        total: u64,
        /// Not ended.
        active: u64,
        /// By status.
        by_status: Counts,
    }
}

impl From<&Counts> for TaskSummary {
    fn from(counts: &Counts) -> Self {
        let of = |holds: fn(TaskStatus) -> bool| {
            sum(counts, TaskStatus::ALL.iter().filter(|status| holds(**status)).map(|status| status.as_str()))
        };
        use TaskStatus as S;
        Self {
            total: of(|_| true),
            active: of(|status| !status.is_terminal() && status != S::Draft),
            waiting: of(|status| {
                matches!(status, S::WaitingInput | S::WaitingPermission | S::WaitingResource | S::Blocked)
            }),
            completed: of(|status| status == S::Completed),
            failed: of(|status| matches!(status, S::Failed | S::TimedOut)),
            cancelled: of(|status| status == S::Cancelled),
            lost: of(|status| status == S::Lost),
            by_status: tidy(counts),
        }
    }
}

impl From<&Counts> for SubagentCounts {
    fn from(counts: &Counts) -> Self {
        let all = || SubagentStatus::ALL.iter();
        Self {
            total: sum(counts, all().map(|status| status.as_str())),
            active: sum(counts, all().filter(|status| !status.is_terminal()).map(|status| status.as_str())),
            by_status: tidy(counts),
        }
    }
}

impl From<&Counts> for JobCounts {
    fn from(counts: &Counts) -> Self {
        let all = || JobStatus::ALL.iter();
        Self {
            total: sum(counts, all().map(|status| status.as_str())),
            active: sum(counts, all().filter(|status| !status.is_terminal()).map(|status| status.as_str())),
            by_status: tidy(counts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_are_not_above_zero_are_left_out() {
        let mut counts = Counts::new();
        for word in ["running", "running", "completed", "timed_out", "blocked", "draft", "lost"] {
            add(&mut counts, word, 1);
        }
        add(&mut counts, "running", -1);
        add(&mut counts, "queued", -1);
        let summary = TaskSummary::from(&counts);
        assert_eq!((summary.total, summary.active, summary.waiting), (6, 2, 1));
        assert_eq!((summary.completed, summary.failed, summary.lost), (1, 1, 1));
        assert!(!summary.by_status.contains_key("queued"));
    }
}
