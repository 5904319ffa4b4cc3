//! The simulated store does what every store has to do.

use cadre_cluster::{
    sim::{Dice, Lifeline},
    store::{
        CommitError, Store,
        conformance::{Claim, Outcome},
        simulated::{Faults, SimStore},
    },
};

fn simulated(seed: u64, faults: Faults) -> Store {
    let sim = SimStore::new(Dice::new(seed));
    sim.set_faults(faults);
    sim.connect(Lifeline::new("node"))
}

fn on_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without I/O starts").block_on(future)
}

mod without_faults {
    use super::*;

    fn run(name: &str, claim: Claim) {
        on_virtual_time(async {
            let store = simulated(1, Faults::none());
            claim(&store, format!("{name}/").as_bytes()).await.expect("the store was without faults");
        });
    }

    cadre_cluster::store_conformance!(run);
}

mod with_latency {
    use super::*;

    /// The faults that lengthen, shorten and reorder, but refuse nothing.
    fn slow() -> Faults {
        let rough = Faults::rough();
        Faults {
            read_latency: rough.read_latency,
            commit_latency: rough.commit_latency,
            short_page: rough.short_page,
            ..Faults::none()
        }
    }

    fn run(name: &str, claim: Claim) {
        for seed in 0..4 {
            on_virtual_time(async {
                let store = simulated(seed, slow());
                claim(&store, format!("{name}/").as_bytes()).await.expect("the store refuses nothing");
            });
        }
    }

    cadre_cluster::store_conformance!(run);
}

mod with_rough_faults {
    use super::*;

    fn run(name: &str, claim: Claim) {
        for seed in 0..4 {
            on_virtual_time(async {
                let store = simulated(seed, Faults::rough());
                undisturbed(name, claim, &store).await.expect("a claim that can be put when all goes well");
            });
        }
    }

    /// Puts the claim until nothing disturbs it, each time where nothing late can interfere.
    async fn undisturbed(name: &str, claim: Claim, store: &Store) -> Outcome {
        let mut last = Ok(());
        for round in 0..1_000 {
            last = claim(store, format!("{name}/{round}/").as_bytes()).await;
            match &last {
                Ok(()) => break,
                Err(CommitError::Failed(_) | CommitError::Full { .. }) => break,
                Err(_) => {}
            }
        }
        last
    }

    cadre_cluster::store_conformance!(run);
}

#[test]
fn all_claims_hold_side_by_side_in_one_store() {
    on_virtual_time(async {
        let store = simulated(1, Faults::none());
        cadre_cluster::store::conformance::all(&store, b"all/").await.expect("the store was without faults");
    });
}
