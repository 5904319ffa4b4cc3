//! Our own log in front of a base engine.
//!
//! A commit writes one checksummed record to a write-ahead log, syncs it and
//! applies it to an ordered overlay in memory. When a log segment is full, the
//! overlay is frozen and a second thread writes its net changes to the base in
//! one durable transaction, then renames the segment to be the one after the
//! next. Reused segments need no metadata write per sync; a record names its
//! segment, so what an earlier use left behind is not taken for a record.

use super::{Engine, Result, Visit};
use crate::load::{Batch, HEADER};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    iter::Peekable,
    ops::Bound,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A checkpoint starts when this much was logged.
const SEGMENT: u64 = 32 << 20;
/// Commits wait for the running checkpoint when this much was logged.
const LIMIT: u64 = 8 * SEGMENT;

/// A key's latest state; `value: None` is a clear.
pub struct Entry {
    pub value: Option<Box<[u8]>>,
    /// Not in the frozen overlay nor in the base.
    fresh: bool,
}

pub type Overlay = BTreeMap<Box<[u8]>, Entry>;

/// What the base must do.
pub trait Base: Send + Sync + 'static {
    /// Writes the overlay durably, in one transaction.
    fn apply(&self, overlay: &Overlay) -> Result<()>;
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    fn scan(&self, low: &[u8], high: &[u8], visit: Visit) -> Result<()>;
}

struct Shared<B> {
    base: B,
    dir: PathBuf,
    active: RwLock<Overlay>,
    frozen: RwLock<Option<Arc<Overlay>>>,
    busy: AtomicBool,
    failed: Mutex<Option<String>>,
    checkpoints: AtomicU64,
    checkpoint_ms: AtomicU64,
    slowest_ms: AtomicU64,
}

pub struct Own<B: Base> {
    shared: Arc<Shared<B>>,
    log: File,
    segment: u64,
    logged: u64,
    waited: Duration,
    poisoned: bool,
    jobs: Option<mpsc::Sender<u64>>,
    worker: Option<JoinHandle<()>>,
}

fn segment_path(dir: &Path, segment: u64) -> PathBuf {
    dir.join(format!("{segment:020}.log"))
}

/// A segment full of zeros.
fn create_segment(dir: &Path, segment: u64) -> Result<()> {
    let file = File::create(segment_path(dir, segment))?;
    let zeros = vec![0; 1 << 20];
    for at in (0..SEGMENT + (SEGMENT >> 2)).step_by(zeros.len()) {
        file.write_all_at(&zeros, at)?;
    }
    file.sync_all()?;
    Ok(File::open(dir)?.sync_all()?)
}

/// `known`: nothing of this batch can be in the base yet, so a key that was written once needs no clear there.
fn apply(overlay: &mut Overlay, batch: &Batch, known: bool) {
    for op in &batch.ops {
        let key = batch.key(op);
        match batch.value(op) {
            Some(value) => {
                let entry = Entry { value: Some(value.into()), fresh: known && op.unique };
                overlay.insert(key.into(), entry);
            }
            None if overlay.get(key).is_some_and(|entry| entry.fresh) => {
                overlay.remove(key);
            }
            None => {
                let entry = Entry { value: None, fresh: false };
                overlay.insert(key.into(), entry);
            }
        }
    }
}

/// Reads the records of `segment`; they end at the first invalid one.
fn replay(path: &Path, segment: u64, overlay: &mut Overlay) -> Result<()> {
    let bytes = fs::read(path)?;
    let mut rest = &bytes[..];
    while rest.len() >= HEADER {
        let len = u32::from_le_bytes(rest[..4].try_into()?) as usize;
        let crc = u32::from_le_bytes(rest[4..8].try_into()?);
        let owner = u64::from_le_bytes(rest[8..16].try_into()?);
        if owner != segment || rest.len() < HEADER + len {
            break;
        }
        if crc32fast::hash(&rest[8..HEADER + len]) != crc {
            break;
        }
        // A crash may have come between the base's commit and the segment's reuse.
        apply(overlay, &Batch::decode(&rest[HEADER..HEADER + len]), false);
        rest = &rest[HEADER + len..];
    }
    Ok(())
}

impl<B: Base> Own<B> {
    pub fn open(dir: &Path, base: B) -> Result<Own<B>> {
        let mut segments = Vec::new();
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "log") {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                segments.push((name.parse::<u64>()?, path.clone()));
            }
        }
        segments.sort();
        let mut overlay = Overlay::new();
        for (segment, path) in &segments {
            replay(path, *segment, &mut overlay)?;
        }
        // What was replayed goes to the base at once: simple, and bounded.
        base.apply(&overlay)?;
        let segment = segments.last().map_or(1, |(last, _)| last + 1);
        create_segment(dir, segment)?;
        create_segment(dir, segment + 1)?;
        for (_, path) in &segments {
            fs::remove_file(path)?;
        }
        let log = File::options().write(true).open(segment_path(dir, segment))?;
        let shared = Arc::new(Shared {
            base,
            dir: dir.to_owned(),
            active: RwLock::default(),
            frozen: RwLock::default(),
            busy: AtomicBool::new(false),
            failed: Mutex::default(),
            checkpoints: AtomicU64::new(0),
            checkpoint_ms: AtomicU64::new(0),
            slowest_ms: AtomicU64::new(0),
        });
        let (jobs, inbox) = mpsc::channel();
        let worker = std::thread::spawn({
            let shared = shared.clone();
            move || {
                for segment in inbox {
                    if let Err(error) = shared.checkpoint(segment) {
                        // Stays busy: there is no segment to go on with.
                        *shared.failed.lock().unwrap() = Some(error.to_string());
                        break;
                    }
                }
            }
        });
        Ok(Own {
            shared,
            log,
            segment,
            logged: 0,
            waited: Duration::ZERO,
            poisoned: false,
            jobs: Some(jobs),
            worker: Some(worker),
        })
    }

    fn log(&mut self, batch: &mut Batch) -> Result<()> {
        let len = (batch.buf.len() - HEADER) as u32;
        batch.buf[..4].copy_from_slice(&len.to_le_bytes());
        batch.buf[8..16].copy_from_slice(&self.segment.to_le_bytes());
        let crc = crc32fast::hash(&batch.buf[8..]);
        batch.buf[4..8].copy_from_slice(&crc.to_le_bytes());
        self.log.write_all_at(&batch.buf, self.logged)?;
        self.log.sync_data()?;
        self.logged += batch.buf.len() as u64;
        Ok(())
    }

    /// Freezes the overlay and goes on with the next segment.
    fn freeze(&mut self) -> Result<()> {
        let next = File::options().write(true).open(segment_path(&self.shared.dir, self.segment + 1))?;
        {
            let mut active = self.shared.active.write().unwrap();
            let full = Arc::new(std::mem::take(&mut *active));
            *self.shared.frozen.write().unwrap() = Some(full);
        }
        self.shared.busy.store(true, Ordering::Release);
        if let Some(jobs) = &self.jobs {
            jobs.send(self.segment)?;
        }
        self.log = next;
        self.segment += 1;
        self.logged = 0;
        Ok(())
    }
}

impl<B: Base> Shared<B> {
    fn checkpoint(&self, segment: u64) -> Result<()> {
        let start = Instant::now();
        let frozen = self.frozen.read().unwrap().clone();
        if let Some(overlay) = &frozen {
            self.base.apply(overlay)?;
        }
        *self.frozen.write().unwrap() = None;
        let reused = segment_path(&self.dir, segment + 2);
        fs::rename(segment_path(&self.dir, segment), reused)?;
        File::open(&self.dir)?.sync_all()?;
        let ms = start.elapsed().as_millis() as u64;
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.checkpoint_ms.fetch_add(ms, Ordering::Relaxed);
        self.slowest_ms.fetch_max(ms, Ordering::Relaxed);
        self.busy.store(false, Ordering::Release);
        drop(frozen);
        Ok(())
    }
}

impl<B: Base> Engine for Own<B> {
    fn commit(&mut self, batch: &mut Batch) -> Result<()> {
        if self.poisoned {
            return Err("poisoned by an earlier failure".into());
        }
        if let Some(error) = self.shared.failed.lock().unwrap().clone() {
            return Err(format!("checkpoint failed: {error}").into());
        }
        if let Err(error) = self.log(batch) {
            self.poisoned = true;
            return Err(error);
        }
        apply(&mut self.shared.active.write().unwrap(), batch, true);
        if self.logged >= SEGMENT {
            let start = Instant::now();
            while self.logged >= LIMIT
                && self.shared.busy.load(Ordering::Acquire)
                && self.shared.failed.lock().unwrap().is_none()
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.waited += start.elapsed();
            if !self.shared.busy.load(Ordering::Acquire) {
                self.freeze()?;
            }
        }
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = |entry: &Entry| entry.value.as_ref().map(|value| value.to_vec());
        if let Some(entry) = self.shared.active.read().unwrap().get(key) {
            return Ok(found(entry));
        }
        let frozen = self.shared.frozen.read().unwrap().clone();
        if let Some(entry) = frozen.as_ref().and_then(|overlay| overlay.get(key)) {
            return Ok(found(entry));
        }
        self.shared.base.get(key)
    }

    fn scan(&self, low: &[u8], high: &[u8], visit: Visit) -> Result<()> {
        let active = self.shared.active.read().unwrap();
        let frozen = self.shared.frozen.read().unwrap().clone();
        let empty = Overlay::new();
        let bounds = (Bound::Included(low), Bound::Excluded(high));
        let mut over = Merge {
            new: active.range::<[u8], _>(bounds).peekable(),
            old: frozen.as_deref().unwrap_or(&empty).range::<[u8], _>(bounds).peekable(),
        }
        .peekable();
        let mut go = true;
        self.shared.base.scan(low, high, &mut |key, value| {
            while let Some((k, entry)) = over.next_if(|(k, _)| ***k < *key) {
                if let Some(v) = &entry.value
                    && !visit(k, v)
                {
                    go = false;
                    return false;
                }
            }
            go = match over.next_if(|(k, _)| ***k == *key) {
                Some((k, entry)) => entry.value.as_ref().is_none_or(|v| visit(k, v)),
                None => visit(key, value),
            };
            go
        })?;
        while go && let Some((key, entry)) = over.next() {
            go = entry.value.as_ref().is_none_or(|value| visit(key, value));
        }
        Ok(())
    }

    fn note(&self) -> String {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let count = load(&self.shared.checkpoints);
        let mean = load(&self.shared.checkpoint_ms) / count.max(1);
        let slowest = load(&self.shared.slowest_ms);
        let waited = self.waited.as_millis();
        format!("{count} checkpoints, mean {mean} ms, max {slowest} ms; waited {waited} ms")
    }
}

impl<B: Base> Drop for Own<B> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(worker) = self.worker.take() {
            worker.join().ok();
        }
    }
}

type Pair<'a> = (&'a Box<[u8]>, &'a Entry);

/// Two overlays in key order, the newer one winning.
struct Merge<I: Iterator> {
    new: Peekable<I>,
    old: Peekable<I>,
}

impl<'a, I: Iterator<Item = Pair<'a>>> Iterator for Merge<I> {
    type Item = Pair<'a>;

    fn next(&mut self) -> Option<Pair<'a>> {
        let Some((new, _)) = self.new.peek() else {
            return self.old.next();
        };
        if let Some(old) = self.old.next_if(|(old, _)| old < new) {
            return Some(old);
        }
        let new = *new;
        self.old.next_if(|(old, _)| *old == new);
        self.new.next()
    }
}
