//! What was measured, as a table for people and as JSON for programs.

use std::fmt::Write;

use serde::Serialize;

/// One line of the table.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Half of the latencies were below this, in microseconds.
    pub p50_us: Option<f64>,
    /// All but one in a hundred were below this, in microseconds.
    pub p99_us: Option<f64>,
    /// What it is compared with.
    pub baseline: Option<String>,
    /// The baseline's figure.
    pub baseline_value: Option<f64>,
    /// The figure divided by the baseline's.
    pub ratio: Option<f64>,
    /// Anything else worth knowing.
    pub note: String,
    /// What we aim for, and whether it was reached.
    pub target: Option<Target>,
}

/// An aim.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    /// In words.
    pub aim: String,
    /// Whether it was reached.
    pub reached: bool,
}

impl Row {
    /// A figure.
    pub fn new(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self {
            what: what.into(),
            value,
            unit,
            p50_us: None,
            p99_us: None,
            baseline: None,
            baseline_value: None,
            ratio: None,
            note: String::new(),
            target: None,
        }
    }

    /// Next to a baseline of the same run.
    pub fn against(mut self, baseline: impl Into<String>, value: f64) -> Self {
        self.baseline = Some(baseline.into());
        self.baseline_value = Some(value);
        self.ratio = Some(self.value / value);
        self
    }

    /// With latencies.
    pub fn latency(mut self, latencies: &hdrhistogram::Histogram<u64>) -> Self {
        self.p50_us = Some(latencies.value_at_quantile(0.5) as f64 / 1e3);
        self.p99_us = Some(latencies.value_at_quantile(0.99) as f64 / 1e3);
        self
    }

    /// With a remark.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// With an aim.
    pub fn target(mut self, aim: impl Into<String>, reached: bool) -> Self {
        self.target = Some(Target { aim: aim.into(), reached });
        self
    }
}

/// All that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Adds a line, and shows it at once.
    pub fn add(&mut self, row: Row) {
        eprintln!("  {}: {} {}", row.what, figure(row.value), row.unit);
        self.rows.push(row);
    }

    /// Markdown.
    pub fn table(&self) -> String {
        let mut table = String::from(
            "\n| what | figure | p50 / p99 µs | baseline in the same run | ratio | aim | note |\n|---|--:|--:|---|--:|---|---|\n",
        );
        for row in &self.rows {
            let latency = match (row.p50_us, row.p99_us) {
                (Some(p50), Some(p99)) => format!("{p50:.0} / {p99:.0}"),
                _ => String::new(),
            };
            let baseline = match (&row.baseline, row.baseline_value) {
                (Some(name), Some(value)) => format!("{name}: {}", figure(value)),
                _ => String::new(),
            };
            let ratio = row.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
            let aim = row.target.as_ref().map_or(String::new(), |target| {
                format!("{} {}", target.aim, if target.reached { "✓" } else { "✗" })
            });
            let figure = figure(row.value);
            // Writing to a string does not fail.
            let _ = writeln!(
                table,
                "| {} | {figure} {} | {latency} | {baseline} | {ratio} | {aim} | {} |",
                row.what, row.unit, row.note
            );
        }
        table
    }

    /// JSON.
    pub fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }
}

fn figure(value: f64) -> String {
    if value >= 10_000.0 {
        let whole = (value.round() as u64).to_string();
        let mut grouped = String::new();
        for (index, digit) in whole.chars().enumerate() {
            if index > 0 && (whole.len() - index).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        grouped
    } else if value >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
