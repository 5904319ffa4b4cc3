//! Whether a candidate is better than its baseline.
//!
//! The rule, in this order:
//!
//! 1. Without a rewarded trial on either side: `inconclusive`.
//! 2. The mean reward fell by 0.01 or more: `revert`.
//! 3. The share of trials that took too long rose by more than 0.05: `revert`.
//! 4. The mean reward rose by 0.01 or more: `promote`, unless the candidate's trials have all their evidence less often
//!    than the baseline's: then `inconclusive`, because what cannot be shown is not to be relied on.
//! 5. Otherwise: `inconclusive`.
//!
//! Trials without a reward do not count; the reason says how many there were. Gates of quality control are not known
//! to the runtime, so their regressions are not counted, and are not said to be none.

use serde::{Deserialize, Serialize};

use super::Trial;
use crate::fact::{id::TrialId, payload::Comparison};

/// Smaller differences of the mean reward are noise.
pub const REWARD_DELTA_MIN: f64 = 0.01;
/// One more trial in twenty that takes too long is too many.
pub const TIMEOUT_RATE_DELTA_MAX: f64 = 0.05;
/// Trials that a fact names on each side; the report has all of them.
const NAMED_MAX: usize = 200;

/// What a comparison looks at of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The trial.
    pub trial_id: TrialId,
    /// The task, as the data calls it.
    pub task_id: String,
    /// `running`, or how it ended.
    pub status: String,
    /// How good it was.
    pub reward: Option<f64>,
    /// Whether it took too long.
    pub timeout: bool,
    /// Whether it has all its evidence.
    pub evidence_complete: bool,
    /// How long it took.
    pub duration_ms: Option<u64>,
}

impl From<&Trial> for Row {
    fn from(trial: &Trial) -> Self {
        let result = trial.result.as_ref();
        Self {
            trial_id: trial.id.clone(),
            task_id: trial.spec.task_id.clone(),
            status: trial.status().to_owned(),
            reward: result.map(|result| result.reward.value),
            timeout: trial.status() == "timed_out",
            evidence_complete: result.is_some_and(|result| result.measured.evidence_complete),
            duration_ms: result.map(|result| result.ended.0.saturating_sub(trial.started.0)),
        }
    }
}

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Side {
    counted: usize,
    mean_reward: f64,
    timeout_rate: f64,
    evidence_rate: f64,
}

impl Side {
    fn of(rows: &[Row]) -> Option<Self> {
        let counted: Vec<_> = rows.iter().filter(|row| row.reward.is_some()).collect();
        let count = counted.len() as f64;
        (!counted.is_empty()).then(|| Self {
            counted: counted.len(),
            // Divided first: the sum of very large rewards must stay a number.
            mean_reward: counted.iter().filter_map(|row| row.reward).map(|reward| reward / count).sum(),
            timeout_rate: counted.iter().filter(|row| row.timeout).count() as f64 / count,
            evidence_rate: counted.iter().filter(|row| row.evidence_complete).count() as f64 / count,
        })
    }
}

/// How many trials counted on each side, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Trials of the baseline that counted.
    pub baseline: u32,
    /// Trials of the candidate that counted.
    pub candidate: u32,
    /// What follows.
    pub comparison: Comparison,
}

/// Compares two sides, by the rule above.
pub fn compare(baseline: &[Row], candidate: &[Row]) -> Outcome {
    let named = |rows: &[Row]| rows.iter().take(NAMED_MAX).map(|row| row.trial_id.clone()).collect();
    let mut comparison =
        Comparison { baseline: named(baseline), candidate: named(candidate), ..Comparison::default() };
    let (before, after) = (Side::of(baseline), Side::of(candidate));
    let (decision, mut reason) = match (before, after) {
        (Some(before), Some(after)) => {
            let reward = after.mean_reward - before.mean_reward;
            let timeouts = after.timeout_rate - before.timeout_rate;
            let complete =
                before.evidence_rate * before.counted as f64 + after.evidence_rate * after.counted as f64;
            comparison.mean_reward_delta = Some(reward).filter(|delta| delta.is_finite());
            comparison.timeout_rate_delta = Some(timeouts);
            comparison.evidence_completeness_rate = Some(complete / (before.counted + after.counted) as f64);
            decide(reward, timeouts, after.evidence_rate - before.evidence_rate)
        }
        (None, _) => ("inconclusive", "no trial of the baseline has a reward".to_owned()),
        (_, None) => ("inconclusive", "no trial of the candidate has a reward".to_owned()),
    };
    let counted = |side: Option<Side>| side.map_or(0, |side| side.counted);
    let left_out = baseline.len() + candidate.len() - counted(before) - counted(after);
    if left_out > 0 {
        reason.push_str(&format!("; {left_out} trials without a reward were left out"));
    }
    comparison.decision = Some(decision.into());
    comparison.reason = Some(reason);
    Outcome { baseline: counted(before) as u32, candidate: counted(after) as u32, comparison }
}

/// Differences of means are not exact: 0.11 - 0.1 is a little less than 0.01.
const INEXACT: f64 = 1e-9;

fn decide(reward: f64, timeouts: f64, evidence: f64) -> (&'static str, String) {
    if reward <= -REWARD_DELTA_MIN + INEXACT {
        ("revert", format!("the mean reward fell by {:.3}", -reward))
    } else if timeouts > TIMEOUT_RATE_DELTA_MAX + INEXACT {
        ("revert", format!("{:.0} more trials in a hundred took too long", timeouts * 100.0))
    } else if reward >= REWARD_DELTA_MIN - INEXACT && evidence < -INEXACT {
        let worse = -evidence * 100.0;
        (
            "inconclusive",
            format!("the mean reward rose by {reward:.3}, with evidence missing in {worse:.0} % more trials"),
        )
    } else if reward >= REWARD_DELTA_MIN - INEXACT {
        ("promote", format!("the mean reward rose by {reward:.3}"))
    } else {
        ("inconclusive", format!("the mean reward changed by {reward:.3}, less than {REWARD_DELTA_MIN}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rewards: &[Option<f64>], timeouts: usize, evidence: bool) -> Vec<Row> {
        let row = |(index, reward): (usize, &Option<f64>)| Row {
            trial_id: TrialId::parse(&format!("tria_{index}")).unwrap(),
            task_id: "task".into(),
            status: "completed".into(),
            reward: *reward,
            timeout: index < timeouts,
            evidence_complete: evidence,
            duration_ms: None,
        };
        rewards.iter().enumerate().map(row).collect()
    }

    fn decided(baseline: &[Row], candidate: &[Row]) -> String {
        compare(baseline, candidate).comparison.decision.unwrap()
    }

    #[test]
    fn a_reward_that_changed_by_just_a_hundredth_decides() {
        let (low, high) = (rows(&[Some(0.1)], 0, true), rows(&[Some(0.11)], 0, true));
        assert_eq!((decided(&low, &high), decided(&high, &low)), ("promote".into(), "revert".into()));
        assert_eq!(decided(&low, &rows(&[Some(0.1099)], 0, true)), "inconclusive");
    }

    #[test]
    fn each_line_of_the_rule_decides() {
        let low = rows(&[Some(0.2), Some(0.4)], 0, true);
        let high = rows(&[Some(0.6), Some(0.8)], 0, true);
        assert_eq!(decided(&low, &high), "promote");
        assert_eq!(decided(&high, &low), "revert");
        assert_eq!(decided(&low, &low), "inconclusive");
        assert_eq!(decided(&low, &rows(&[Some(0.6), Some(0.8)], 1, true)), "revert");
        assert_eq!(decided(&low, &rows(&[Some(0.6), Some(0.8)], 0, false)), "inconclusive");
        assert_eq!(decided(&low, &rows(&[None, None], 0, true)), "inconclusive");
        let outcome = compare(&low, &rows(&[Some(1.0), None], 0, true));
        assert_eq!((outcome.baseline, outcome.candidate), (2, 1));
        assert!((outcome.comparison.mean_reward_delta.unwrap() - 0.7).abs() < 1e-9);
        assert!(outcome.comparison.reason.unwrap().contains("1 trials without a reward"));
    }

    #[test]
    fn the_largest_rewards_give_no_number_that_is_none() {
        let most = rows(&[Some(f64::MAX), Some(f64::MAX)], 0, true);
        let least = rows(&[Some(f64::MIN), Some(f64::MIN)], 0, true);
        let outcome = compare(&least, &most);
        assert_eq!(outcome.comparison.mean_reward_delta, None);
        assert_eq!(outcome.comparison.decision.as_deref(), Some("promote"));
    }
}
