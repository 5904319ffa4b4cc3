//! Counters and gauges as a node reports them, added up over all tests of a program.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

#[derive(Debug, Clone, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

/// The tally of this program, in force from the first call on.
pub fn tally() -> &'static Tally {
    static TALLY: OnceLock<Tally> = OnceLock::new();
    TALLY.get_or_init(|| {
        let tally = Tally::default();
        metrics::set_global_recorder(tally.clone()).expect("nobody else records");
        tally
    })
}

impl Tally {
    /// A gauge with all its labels.
    pub fn gauge(&self, gauge: &str) -> f64 {
        f64::from_bits(self.of(gauge))
    }

    /// A counter with all its labels: `name{label=value}`.
    pub fn of(&self, counter: &str) -> u64 {
        self.0.lock().unwrap().get(counter).map_or(0, |counter| counter.load(Ordering::SeqCst))
    }

    fn entry(&self, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        self.0.lock().unwrap().entry(name).or_default().clone()
    }
}

impl Recorder for Tally {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.entry(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.entry(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
