//! The promises of the runtime under simulation: P1–P8, P10 and P11, with random commands to all entities.
//!
//! For each promise that the runtime can break by itself there is a way to break it on purpose, and a test here that
//! notices.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use cadre::{
    sabotage::Sabotage,
    sim::{Scenario, Tally, simulate},
};

/// Runs seeds and fails with the first that breaks a promise, saying how to run it again. What the checks are
/// about has to happen in some of them.
fn hold(seeds: impl IntoIterator<Item = u64>) {
    let mut tally = Tally::new();
    for seed in seeds {
        let verdict = simulate(seed, &Scenario::default());
        assert!(
            verdict.violations.is_empty(),
            "seed {seed} breaks promises: {:#?}\nrun it again: cargo run --release -p cadre-loadtest -- simulate --runtime --seed {seed}",
            verdict.violations
        );
        assert!(verdict.answers > 20 && verdict.events > 100, "seed {seed} did next to nothing: {verdict:?}");
        for (what, times) in verdict.tally {
            *tally.entry(what).or_default() += times;
        }
    }
    assert!(tally.values().all(|times| *times > 0), "something never happened: {tally:#?}");
}

// In parts, so that they run side by side.
#[test]
fn promises_hold_seeds_0_to_20() {
    hold(0..20);
}

#[test]
fn promises_hold_seeds_20_to_40() {
    hold(20..40);
}

#[test]
fn one_seed_gives_one_simulation() {
    for seed in [7, 4_711, u64::MAX - 1] {
        let (one, two) = (simulate(seed, &Scenario::default()), simulate(seed, &Scenario::default()));
        assert_eq!(one.trace, two.trace, "seed {seed}");
        assert_eq!(one.fingerprint, two.fingerprint, "seed {seed}");
        let other = simulate(seed + 1, &Scenario::default());
        assert_ne!(one.fingerprint, other.fingerprint, "another seed is another simulation");
    }
}

/// Breaks a promise on purpose; a check of that promise has to notice within a bounded number of seeds.
fn notice(sabotage: Sabotage, promise: u8) {
    const SEEDS: u64 = 120;
    let scenario = Scenario { sabotage: Some(sabotage), ..Scenario::default() };
    let noticed = (0..SEEDS).any(|seed| {
        simulate(seed, &scenario).violations.iter().any(|violation| violation.promise == promise)
    });
    assert!(noticed, "{sabotage:?} breaks P{promise}, and {SEEDS} seeds did not notice");
}

#[test]
fn p2_progress_that_is_answered_and_not_told_is_noticed() {
    notice(Sabotage::ProgressNotTold, 2);
}

#[test]
fn p3_a_key_that_is_not_passed_on_is_noticed() {
    notice(Sabotage::KeyNotPassedOn, 3);
}

#[test]
fn p3_ids_that_are_made_anew_are_noticed() {
    notice(Sabotage::IdsMadeAnew, 3);
}

#[test]
fn p4_a_page_that_is_cut_short_is_noticed() {
    notice(Sabotage::PageCutShort, 4);
}

#[test]
fn p5_a_change_that_is_not_told_is_noticed() {
    notice(Sabotage::ChangeNotTold, 5);
}

#[test]
fn p5_a_resume_that_is_not_counted_is_noticed() {
    notice(Sabotage::ResumeNotCounted, 5);
}

#[test]
fn p5_an_item_whose_end_is_not_kept_is_noticed() {
    notice(Sabotage::ItemEndNotKept, 5);
}

#[test]
fn p6_a_question_that_expires_early_is_noticed() {
    notice(Sabotage::QuestionExpiresEarly, 6);
}

#[test]
fn p7_a_queue_that_stands_still_is_noticed() {
    notice(Sabotage::QueueStandsStill, 7);
}

#[test]
fn p8_a_tenant_taken_for_another_is_noticed() {
    notice(Sabotage::TenantMixedUp, 8);
}

#[test]
fn p10_silence_taken_for_approval_is_noticed() {
    notice(Sabotage::ExpiredIsApproval, 10);
}

#[test]
fn p11_the_end_of_a_child_counted_twice_is_noticed() {
    notice(Sabotage::ChildEndCountedTwice, 11);
}

#[test]
fn p11_a_terminal_fact_told_twice_is_noticed() {
    notice(Sabotage::TerminalFactTwice, 11);
}

#[test]
fn p11_a_fact_after_the_terminal_one_is_noticed() {
    notice(Sabotage::LateFactAfterTerminal, 11);
}

#[test]
fn p11_a_cancel_that_forgets_a_child_is_noticed() {
    notice(Sabotage::CancelForgetsChild, 11);
}

#[test]
fn p11_a_resume_that_escapes_a_cancel_is_noticed() {
    notice(Sabotage::OrderForgotten, 11);
}

#[test]
fn p11_a_cancel_answered_early_is_noticed() {
    notice(Sabotage::CancelAnsweredEarly, 11);
}

#[test]
fn p11_a_failed_attempt_that_is_forgotten_is_noticed() {
    notice(Sabotage::FailedAttemptForgotten, 11);
}

#[test]
fn every_sabotage_has_a_test() {
    let source = include_str!("simulation.rs");
    for sabotage in Sabotage::ALL {
        assert!(source.contains(&format!("Sabotage::{sabotage:?},")), "{sabotage:?} has no test");
    }
}
