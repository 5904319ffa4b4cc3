//! The raw baseline: append a buffer, fdatasync, again.

use std::{
    fs::File,
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

/// What a raw loop did.
#[derive(Debug, Clone, Copy)]
pub struct Raw {
    /// Records made durable per second.
    pub records: f64,
    /// Half of the syncs took less than this.
    pub sync_us: f64,
}

/// Appends batches of `batch` records of `bytes` bytes, one fdatasync each, for `duration`.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn append_and_sync(dir: &Path, batch: usize, bytes: usize, duration: Duration) -> anyhow::Result<Raw> {
    let path = dir.join("raw");
    let mut file = File::create(&path)?;
    let buffer = vec![0xab; batch.max(1) * bytes];
    let mut syncs = hdrhistogram::Histogram::<u64>::new(3)?;
    let began = Instant::now();
    while began.elapsed() < duration {
        let start = Instant::now();
        file.write_all(&buffer)?;
        file.sync_data()?;
        syncs.record(start.elapsed().as_nanos() as u64)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    drop(file);
    std::fs::remove_file(&path)?;
    Ok(Raw {
        records: syncs.len() as f64 * batch.max(1) as f64 / seconds,
        sync_us: syncs.value_at_quantile(0.5) as f64 / 1e3,
    })
}
