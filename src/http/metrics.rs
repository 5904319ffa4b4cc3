//! What is counted, kept for whoever scrapes it.

use std::{future::Future, sync::OnceLock, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Seconds: from a step in memory to a deadline.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];
/// Histograms keep every sample until somebody adds them up.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Starts counting, once for the process. What happened before is not counted, so the first thing a server does.
pub fn install() {
    handle();
}

fn handle() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let builder = PrometheusBuilder::new();
        let builder = builder.set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &BUCKETS);
        let recorder = builder.expect("there are buckets").build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("somebody else counts already: /metrics stays empty");
        }
        handle
    })
}

/// As Prometheus reads it.
pub(super) fn render() -> String {
    handle().render()
}

/// Adds up, for ever.
pub(super) fn upkeep() -> impl Future<Output = ()> {
    let handle = handle();
    async move {
        loop {
            tokio::time::sleep(UPKEEP_EVERY).await;
            handle.run_upkeep();
        }
    }
}
