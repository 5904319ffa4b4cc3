//! The promises of the substrate under simulation: P1–P7, P9 and P11.

use cadre_cluster::sim::{Scenario, simulate};

/// Runs seeds and fails with the first that breaks a promise, saying how to run it again.
fn hold(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let verdict = simulate(seed, &Scenario::default());
        assert!(
            verdict.violations.is_empty(),
            "seed {seed} breaks promises: {:#?}\nrun it again: cargo run --release -p cadre-loadtest -- simulate --seed {seed}",
            verdict.violations
        );
    }
}

#[test]
fn promises_hold_first() {
    hold(0..1);
}
