//! What this process has used of the machine.

use std::time::Duration;

use anyhow::Context;

/// The memory of this process, in bytes.
pub fn resident() -> anyhow::Result<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split(' ').nth(1).context("statm has a second field")?.parse()?;
    Ok(pages * 4096)
}

/// The processor time of all threads so far.
pub fn cpu_time() -> anyhow::Result<Duration> {
    /// What the kernel counts in, whatever its own tick is.
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, after_name) = stat.rsplit_once(')').context("stat names the process")?;
    let fields = after_name.split_whitespace().skip(11).take(2);
    let ticks = fields.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}
