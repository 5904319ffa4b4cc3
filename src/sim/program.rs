//! What runs on the simulated nodes: the whole runtime.

use std::time::Duration;

use cadre_cluster::{
    host::StartError,
    sim::{Place, Program},
};

use crate::{
    blob::Retention,
    fact::Publisher,
    runtime::{Runtime, Settings},
};

/// The runtime, as `cadre dev` starts it.
pub(super) struct Agents;

impl Program for Agents {
    type Running = Runtime;

    async fn start(&self, place: Place) -> Result<Runtime, StartError> {
        let settings = Settings {
            host: place.host,
            publisher: Publisher::new("cadre_sim"),
            deadline: Duration::from_secs(10),
            // Nothing expires in the time that a simulation takes, so nobody looks.
            retention: Retention::default().swept_every(Retention::SWEEP_MAX).expect("it is a possible time"),
        };
        Runtime::start(settings, place.store, place.bus, place.clock, place.seed).await
    }

    async fn drain(&self, runtime: Runtime) {
        runtime.stop().await;
    }

    async fn bury(&self, runtime: Runtime) {
        runtime.kill().await;
    }
}
