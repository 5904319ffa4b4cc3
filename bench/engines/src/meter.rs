//! Process counters, sync counting and sync fault injection.
//!
//! `fsync` and `fdatasync` are interposed: the executable's own definitions
//! win over libc's, so every sync of every engine in this process is counted
//! (and can be made to fail).

use std::{
    ffi::{c_int, c_long},
    fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

static SYNCS: AtomicU64 = AtomicU64::new(0);
static FAIL_AT: AtomicU64 = AtomicU64::new(u64::MAX);

fn sync(number: c_long, fd: c_int) -> c_int {
    if SYNCS.fetch_add(1, Relaxed) == FAIL_AT.load(Relaxed) {
        // SAFETY: errno's location is valid for the calling thread.
        unsafe { *libc::__errno_location() = libc::EIO };
        return -1;
    }
    // SAFETY: a plain system call on a file descriptor.
    unsafe { libc::syscall(number, fd) as c_int }
}

// SAFETY: same contracts as the libc functions they stand in for.
#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync(libc::SYS_fdatasync, fd)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    sync(libc::SYS_fsync, fd)
}

/// Makes the sync after the next `after` ones fail with `EIO`, once.
pub fn fail_sync(after: u64) {
    FAIL_AT.store(SYNCS.load(Relaxed) + after, Relaxed);
}

/// A snapshot of this process' counters.
#[derive(Clone, Copy)]
pub struct Meter {
    at: Instant,
    cpu: f64,
    written: u64,
    device: u64,
    syncs: u64,
}

impl Meter {
    pub fn now() -> Meter {
        Meter {
            at: Instant::now(),
            cpu: cpu_seconds(),
            written: field("/proc/self/io", "write_bytes:"),
            device: device_bytes(),
            syncs: SYNCS.load(Relaxed),
        }
    }

    pub fn seconds(&self) -> f64 {
        self.at.elapsed().as_secs_f64()
    }

    pub fn cpu(&self) -> f64 {
        cpu_seconds() - self.cpu
    }

    pub fn written(&self) -> u64 {
        field("/proc/self/io", "write_bytes:") - self.written
    }

    /// Bytes the whole machine wrote to the disk of the working directory.
    pub fn device_written(&self) -> u64 {
        device_bytes() - self.device
    }

    pub fn syncs(&self) -> u64 {
        SYNCS.load(Relaxed) - self.syncs
    }
}

fn cpu_seconds() -> f64 {
    // SAFETY: getrusage fills the zeroed struct.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// The kernel's count for the disk of the working directory: everybody's
/// writes, but blocks rather than page-cache folios (which ext4 may make as
/// large as 1 MiB, and `/proc/self/io` counts whole).
fn device_bytes() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let dev = fs::metadata(".").map_or(0, |meta| meta.dev());
    let (major, minor) = (libc::major(dev), libc::minor(dev));
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat"));
    let sectors = text.ok().and_then(|text| text.split_whitespace().nth(6)?.parse::<u64>().ok());
    sectors.unwrap_or(0) * 512
}

/// Resident memory in MiB: (anonymous now, peak of everything).
pub fn rss_mib() -> (f64, f64) {
    let kib = |name| field("/proc/self/status", name) as f64 / 1024.0;
    (kib("RssAnon:"), kib("VmHWM:"))
}

/// Bytes allocated on disk under `path`.
pub fn disk_bytes(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = fs::metadata(path) else {
        return 0;
    };
    if !meta.is_dir() {
        return meta.blocks() * 512;
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| disk_bytes(&entry.path())).sum()
}

/// Drops the files under `path` from the page cache (best effort).
pub fn evict(path: &Path) {
    use std::os::fd::AsRawFd;
    let Ok(meta) = fs::metadata(path) else {
        return;
    };
    if meta.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| evict(&entry.path()));
    } else if let Ok(file) = fs::File::open(path) {
        file.sync_all().ok();
        // SAFETY: advice on an open file descriptor.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
}

/// Durations, for percentiles.
#[derive(Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    pub fn push(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn sort(&mut self) {
        self.0.sort_unstable();
    }

    /// The `q` quantile in milliseconds, of sorted latencies.
    pub fn ms(&self, q: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let at = (last as f64 * q).round() as usize;
        self.0.get(at).map_or(0.0, |d| d.as_secs_f64() * 1e3)
    }
}
