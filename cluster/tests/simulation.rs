//! The promises of the substrate under simulation: P1–P7, P9 and P11.
//!
//! For each promise there is a way to break it on purpose, and a test here that notices.

use std::ops::Range;

use cadre_cluster::{
    sabotage::Sabotage,
    sim::{Scenario, Tally, simulate},
};

/// Runs seeds and fails with the first that breaks a promise, saying how to run it again. What the checks are
/// about has to happen in some of them.
fn hold(seeds: Range<u64>) {
    let mut tally = Tally::new();
    for seed in seeds {
        let verdict = simulate(seed, &Scenario::default());
        assert!(
            verdict.violations.is_empty(),
            "seed {seed} breaks promises: {:#?}\nrun it again: cargo run --release -p cadre-loadtest -- simulate --seed {seed}",
            verdict.violations
        );
        assert!(verdict.answers > 50 && verdict.events > 50, "seed {seed} did next to nothing: {verdict:?}");
        for (what, times) in verdict.tally {
            *tally.entry(what).or_default() += times;
        }
    }
    assert!(tally.values().all(|times| *times > 0), "something never happened: {tally:#?}");
}

// In parts, so that they run side by side.
#[test]
fn promises_hold_seeds_0_to_100() {
    hold(0..100);
}

#[test]
fn promises_hold_seeds_100_to_200() {
    hold(100..200);
}

#[test]
fn promises_hold_seeds_200_to_300() {
    hold(200..300);
}

#[test]
fn promises_hold_seeds_300_to_400() {
    hold(300..400);
}

#[test]
fn one_seed_gives_one_simulation() {
    for seed in [7, 40, 1_234, 77_777, 1_000_007, u64::MAX - 1] {
        let (one, two) = (simulate(seed, &Scenario::default()), simulate(seed, &Scenario::default()));
        assert_eq!(one.trace, two.trace, "seed {seed}");
        assert_eq!(one.fingerprint, two.fingerprint, "seed {seed}");
        let other = simulate(seed + 1, &Scenario::default());
        assert_ne!(one.fingerprint, other.fingerprint, "another seed is another simulation");
    }
}

/// Breaks a promise on purpose; a check of that promise has to notice within a bounded number of seeds.
fn notice(sabotage: Sabotage, promise: u8) {
    const SEEDS: u64 = 300;
    let scenario = Scenario { sabotage: Some(sabotage), ..Scenario::default() };
    let noticed = (0..SEEDS).any(|seed| {
        simulate(seed, &scenario).violations.iter().any(|violation| violation.promise == promise)
    });
    assert!(noticed, "{sabotage:?} breaks P{promise}, and {SEEDS} seeds did not notice");
}

#[test]
fn p1_a_missing_fence_check_is_noticed() {
    notice(Sabotage::FenceOff, 1);
}

#[test]
fn p2_an_answer_before_the_commit_is_noticed() {
    notice(Sabotage::AnswerBeforeCommit, 2);
}

#[test]
fn p2_an_unknown_commit_taken_for_failed_is_noticed() {
    notice(Sabotage::UnknownIsFailed, 2);
}

#[test]
fn p2_a_report_taken_for_durable_before_its_commit_is_noticed() {
    notice(Sabotage::ReportBeforeCommit, 2);
}

#[test]
fn p3_an_unrecorded_answer_is_noticed() {
    notice(Sabotage::AnswerNotRecorded, 3);
}

#[test]
fn p3_a_key_forgotten_early_is_noticed() {
    notice(Sabotage::KeyForgottenEarly, 3);
}

#[test]
fn p3_a_command_without_a_key_sent_twice_is_noticed() {
    notice(Sabotage::KeylessSentAgain, 3);
}

#[test]
fn p4_a_doorbell_taken_for_the_truth_is_noticed() {
    notice(Sabotage::DoorbellIsTruth, 4);
}

#[test]
fn p4_a_snapshot_with_the_cursor_of_another_read_is_noticed() {
    notice(Sabotage::SnapshotCursorFromAnotherRead, 4);
}

#[test]
fn p4_an_event_that_is_not_indexed_is_noticed() {
    notice(Sabotage::EventNotIndexed, 4);
}

#[test]
fn p4_a_trim_without_a_mark_is_noticed() {
    notice(Sabotage::TrimNotMarked, 4);
}

#[test]
fn p4_an_index_that_is_not_trimmed_is_noticed() {
    notice(Sabotage::IndexNotTrimmed, 4);
}

#[test]
fn p5_a_change_without_a_fact_is_noticed() {
    notice(Sabotage::StateWithoutFact, 5);
}

#[test]
fn p6_a_message_not_consumed_with_its_step_is_noticed() {
    notice(Sabotage::InboxNotConsumed, 6);
}

#[test]
fn p6_a_cancelled_timer_that_fires_is_noticed() {
    notice(Sabotage::CancelledTimerFires, 6);
}

#[test]
fn p6_a_timer_that_fires_early_is_noticed() {
    notice(Sabotage::TimerFiresEarly, 6);
}

#[test]
fn p6_an_input_put_aside_without_a_dead_letter_is_noticed() {
    notice(Sabotage::DeadLetterForgotten, 6);
}

#[test]
fn p6_an_input_put_aside_twice_is_noticed() {
    notice(Sabotage::DeadLetterTwice, 6);
}

#[test]
fn p7_work_that_nobody_looks_for_is_noticed() {
    notice(Sabotage::NoPeriodicLook, 7);
}

#[test]
fn p7_forgotten_effects_are_noticed() {
    notice(Sabotage::EffectsNotRedriven, 7);
}

#[test]
fn p9_a_queue_without_a_bound_is_noticed() {
    notice(Sabotage::AdmissionOff, 9);
}

#[test]
fn p9_keys_that_are_never_forgotten_are_noticed() {
    notice(Sabotage::KeysNotForgotten, 9);
}

#[test]
fn p11_a_cancel_answered_before_the_tree_is_closed_is_noticed() {
    notice(Sabotage::CancelAnsweredEarly, 11);
}

#[test]
fn p11_a_cancelled_effect_that_ends_is_noticed() {
    notice(Sabotage::CancelledEffectEnds, 11);
}

#[test]
fn p11_a_report_after_the_cancellation_is_noticed() {
    notice(Sabotage::LateReportCounts, 11);
}

#[test]
fn p11_a_join_that_fires_twice_is_noticed() {
    notice(Sabotage::JoinFiresTwice, 11);
}

#[test]
fn every_sabotage_has_a_test() {
    let source = concat!(include_str!("simulation.rs"), include_str!("fairness.rs"));
    for sabotage in Sabotage::ALL {
        let named = [',', ')'].map(|end| source.contains(&format!("Sabotage::{sabotage:?}{end}")));
        assert!(named.contains(&true), "{sabotage:?} has no test");
    }
}
