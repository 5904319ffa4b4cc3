//! The measurements. Each runs in a process of its own (so that memory, CPU
//! and I/O counters are its own) and prints `name=value` lines.

use crate::{
    engines::{Engine, Result, open},
    load::{self, Batch, HOT, LAG, Pool, mix},
    meter::{self, Latencies, Meter},
};
use std::{
    io::Write,
    path::Path,
    time::{Duration, Instant},
};

/// Events, feeds and batch size of measurement B.
const FEEDS: u64 = 64;
const B_BATCH: u64 = 10_000;

fn put(name: &str, value: impl std::fmt::Display) {
    println!("{name}={value}");
}

fn key(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut key = Vec::new();
    write(&mut key);
    key
}

/// A: group commit of batches of `size` transactions for `seconds`.
pub fn group_commit(name: &str, size: u64, seconds: f64, dir: &Path) -> Result<()> {
    let pool = Pool::new();
    let mut engine = open(name, dir)?;
    let mut batch = Batch::default();
    batch.clear();
    (0..LAG).for_each(|n| batch.push(n, &pool));
    engine.commit(&mut batch)?;

    let mut latencies = Latencies::default();
    let (mut n, mut payload) = (LAG, 0);
    let meter = Meter::now();
    while meter.seconds() < seconds {
        batch.clear();
        (n..n + size).for_each(|n| batch.push(n, &pool));
        n += size;
        payload += batch.buf.len() as u64;
        let start = Instant::now();
        engine.commit(&mut batch)?;
        latencies.push(start.elapsed());
    }
    let (elapsed, cpu) = (meter.seconds(), meter.cpu());
    let done = (n - LAG) as f64;
    latencies.sort();
    put("tps", done / elapsed);
    put("syncs", meter.syncs() as f64 / elapsed);
    put("batches", latencies.len());
    put("p50", latencies.ms(0.5));
    put("p99", latencies.ms(0.99));
    put("p999", latencies.ms(0.999));
    put("max", latencies.ms(1.0));
    put("cpu", cpu / done * 1e5);
    put("amp", meter.written() as f64 / payload as f64);
    put("dev", meter.device_written() as f64 / payload as f64);
    put("per_tx", payload as f64 / done);
    put("disk", meter::disk_bytes(dir) as f64 / (1 << 20) as f64);
    put("rss", meter::rss_mib().1);
    put("note", engine.note());
    Ok(())
}

/// B, first process: load the events.
pub fn feeds_load(name: &str, events: u64, dir: &Path) -> Result<()> {
    let pool = Pool::new();
    let mut engine = open(name, dir)?;
    let mut batch = Batch::default();
    let meter = Meter::now();
    for (i, from) in (0..events).step_by(B_BATCH as usize).enumerate() {
        batch.clear();
        for n in from..(from + B_BATCH).min(events) {
            let value = pool.slice(n, 250);
            batch.set(true, |b| load::feed_key(b, n % FEEDS, n / FEEDS), value);
        }
        if i % 100 == 99 {
            engine.commit(&mut batch)?;
        } else {
            engine.commit_relaxed(&mut batch)?;
        }
    }
    batch.clear();
    batch.set(false, |b| load::state_key(b, 0), b"loaded");
    engine.commit(&mut batch)?;
    put("load_s", meter.seconds());
    put("load_cpu", meter.cpu());
    put("load_amp", meter.written() as f64 / (events as f64 * (250.0 + 42.0)));
    put("load_dev", meter.device_written() as f64 / (events as f64 * (250.0 + 42.0)));
    put("load_note", engine.note());
    let close = Instant::now();
    drop(engine);
    put("close_ms", close.elapsed().as_secs_f64() * 1e3);
    put("load_rss", meter::rss_mib().1);
    put("disk", meter::disk_bytes(dir) as f64 / (1 << 20) as f64);
    Ok(())
}

/// B, second process: reopen, first write, reads.
pub fn feeds_read(name: &str, events: u64, dir: &Path) -> Result<()> {
    meter::evict(dir);
    let mut engine = reopen(name, dir, "")?;
    let per_feed = events / FEEDS;
    let tail = |n| per_feed - 1_000 - mix(n) % 100;
    let anywhere = |n| mix(n) % (per_feed - 1_000);
    for (phase, seed) in [("cold", 0u64), ("warm", 0)] {
        let places: [(&str, &dyn Fn(u64) -> u64); 2] = [("range", &anywhere), ("tail", &tail)];
        for (what, place) in places {
            let mut latencies = Latencies::default();
            for n in seed..seed + 200 {
                let start = Instant::now();
                let count = range(&*engine, mix(n ^ 77) % FEEDS, place(n), 1_000)?;
                latencies.push(start.elapsed());
                if count != 1_000 {
                    return Err(format!("range gave {count}").into());
                }
            }
            latencies.sort();
            put(&format!("{phase}_{what}_p50"), latencies.ms(0.5));
            put(&format!("{phase}_{what}_p99"), latencies.ms(0.99));
        }
        let start = Instant::now();
        for n in 0..20_000 {
            let at = mix(n ^ 0xABCD) % events;
            let key = key(|b| load::feed_key(b, at % FEEDS, at / FEEDS));
            engine.get(&key)?.ok_or("lost event")?;
        }
        put(&format!("{phase}_get_us"), start.elapsed().as_secs_f64() * 1e6 / 2e4);
        put(&format!("{phase}_rss"), meter::rss_mib().0);
    }
    let start = Instant::now();
    let mut count = 0u64;
    engine.scan(b"feed/", b"feed0", &mut |_, _| {
        count += 1;
        true
    })?;
    if count < events {
        return Err(format!("full scan gave {count}").into());
    }
    put("full_scan_per_s", count as f64 / start.elapsed().as_secs_f64());
    put("full_rss", meter::rss_mib().0);
    // One durable commit, so that the database is not clean, and die.
    commit_one(&mut *engine)?;
    std::io::stdout().flush()?;
    die()
}

/// B, third process: reopen after the crash.
pub fn feeds_crashed(name: &str, dir: &Path) -> Result<()> {
    reopen(name, dir, "crash_").map(drop)
}

fn reopen(name: &str, dir: &Path, prefix: &str) -> Result<Box<dyn Engine>> {
    let start = Instant::now();
    let mut engine = open(name, dir)?;
    put(&format!("{prefix}open_ms"), start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    commit_one(&mut *engine)?;
    put(&format!("{prefix}first_write_ms"), start.elapsed().as_secs_f64() * 1e3);
    Ok(engine)
}

fn commit_one(engine: &mut dyn Engine) -> Result<()> {
    let mut batch = Batch::default();
    batch.clear();
    batch.set(false, |b| load::state_key(b, 1), b"first");
    engine.commit(&mut batch)
}

fn die() -> ! {
    // SAFETY: kills this very process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!()
}

fn range(engine: &dyn Engine, feed: u64, from: u64, limit: u64) -> Result<u64> {
    let low = key(|b| load::feed_key(b, feed, from));
    let high = key(|b| load::feed_key(b, feed + 1, 0));
    let (mut count, mut bytes) = (0, 0);
    engine.scan(&low, &high, &mut |_, value| {
        count += 1;
        bytes += value.len();
        count < limit
    })?;
    std::hint::black_box(bytes);
    Ok(count)
}

/// C: messages appended and consumed in order; scans of the nearly empty space.
pub fn queue(name: &str, messages: u64, size: u64, dir: &Path) -> Result<()> {
    let pool = Pool::new();
    let mut engine = open(name, dir)?;
    let mut batch = Batch::default();
    let (mut scans, mut commits) = (Latencies::default(), Latencies::default());
    let mut found = 0;
    let meter = Meter::now();
    for (i, from) in (0..messages).step_by(size as usize).enumerate() {
        batch.clear();
        for n in from..(from + size).min(messages) {
            batch.set(true, |b| load::inbox_key(b, n), pool.slice(n, 120));
            if n >= 2 * size {
                batch.unset(|b| load::inbox_key(b, n - 2 * size));
            }
        }
        let start = Instant::now();
        engine.commit(&mut batch)?;
        commits.push(start.elapsed());
        if i % 100 == 99 {
            let start = Instant::now();
            found = 0u64;
            engine.scan(b"inbox/", b"inbox0", &mut |_, _| {
                found += 1;
                true
            })?;
            scans.push(start.elapsed());
        }
    }
    put("seconds", meter.seconds());
    put("found", found);
    put("last_scan", scans.ms(1.0));
    scans.sort();
    commits.sort();
    put("scan_p50", scans.ms(0.5));
    put("scan_max", scans.ms(1.0));
    put("p50", commits.ms(0.5));
    put("p99", commits.ms(0.99));
    put("max", commits.ms(1.0));
    put("amp", meter.written() as f64 / (messages as f64 * 168.0));
    put("dev", meter.device_written() as f64 / (messages as f64 * 168.0));
    put("note", engine.note());
    Ok(())
}

/// E, the victim: acknowledges each batch on standard output until killed.
pub fn victim(name: &str, size: u64, dir: &Path) -> Result<()> {
    let pool = Pool::new();
    let mut engine = open(name, dir)?;
    let mut batch = Batch::default();
    let mut out = std::io::stdout().lock();
    for from in (0..).step_by(size as usize) {
        batch.clear();
        (from..from + size).for_each(|n| batch.push(n, &pool));
        engine.commit(&mut batch)?;
        writeln!(out, "{}", from + size)?;
        out.flush()?;
    }
    Ok(())
}

/// E, afterwards: transactions `0..acked` must be there, and whole ones only.
pub fn verify(name: &str, acked: u64, size: u64, dir: &Path) -> Result<()> {
    let start = Instant::now();
    let engine = open(name, dir)?;
    put("open_ms", start.elapsed().as_secs_f64() * 1e3);
    let pool = Pool::new();
    let (mut feed, mut wrong) = (0u64, 0u64);
    engine.scan(b"feed/", b"feed0", &mut |k, v| {
        let expected = key(|b| load::feed_key(b, 7, feed));
        wrong += u64::from(k != expected || v != pool.slice(feed + 1, 250));
        feed += 1;
        true
    })?;
    for n in 0..feed {
        let value = engine.get(&key(|b| load::idem_key(b, n)))?;
        wrong += u64::from(value.as_deref() != Some(pool.slice(n + 3, 60)));
    }
    let mut inbox = 0;
    engine.scan(b"inbox/", b"inbox0", &mut |_, _| {
        inbox += 1;
        true
    })?;
    let mut last = [None; HOT as usize];
    (0..feed).for_each(|n| last[(mix(n) % HOT) as usize] = Some(n));
    for (entity, n) in last.iter().enumerate() {
        let value = engine.get(&key(|b| load::state_key(b, entity as u64)))?;
        wrong += u64::from(value.as_deref() != n.map(|n| pool.slice(n, 400)));
    }
    wrong += u64::from(inbox != feed.min(LAG)) + u64::from(feed % size != 0);
    put("acked", acked);
    put("found", feed);
    put("wrong", wrong);
    put("ok", feed >= acked && wrong == 0);
    Ok(())
}

/// F: one sync fails with `EIO`. Does the engine refuse to go on?
pub fn sync_failure(name: &str, dir: &Path) -> Result<()> {
    let pool = Pool::new();
    let mut engine = open(name, dir)?;
    let mut batch = Batch::default();
    let mut commit = |engine: &mut dyn Engine, from: u64| {
        batch.clear();
        (from..from + 64).for_each(|n| batch.push(n, &pool));
        engine.commit(&mut batch)
    };
    for i in 0..10 {
        commit(&mut *engine, i * 64)?;
    }
    meter::fail_sync(0);
    let show = |result: Result<()>| result.map_or_else(|e| format!("{e:?}"), |()| "ok".into());
    put("failing", show(commit(&mut *engine, 640)));
    put("next", show(commit(&mut *engine, 704)));
    let read = engine.get(&key(|b| load::idem_key(b, 5)));
    put("read", read.map_or_else(|e| format!("{e:?}"), |v| v.is_some().to_string()));
    let seen = engine.get(&key(|b| load::idem_key(b, 641)));
    put("failed_visible", seen.is_ok_and(|v| v.is_some()));
    drop(engine);
    let mut engine = open(name, dir)?;
    let count = |engine: &dyn Engine| range(engine, 7, 0, u64::MAX);
    put("after_reopen", count(&*engine)?);
    let from = count(&*engine)?;
    put("write_again", show(commit(&mut *engine, from)));
    Ok(())
}

/// G: commits until the disk is full, then again after a pause in which the
/// caller may free space; prints what happened.
pub fn full_disk(name: &str, dir: &Path, pause: Duration) -> Result<()> {
    let pool = Pool::new();
    let mut engine = open(name, dir)?;
    let mut batch = Batch::default();
    let mut from = 0;
    let error = loop {
        batch.clear();
        (from..from + 256).for_each(|n| batch.push(n, &pool));
        match engine.commit(&mut batch) {
            Ok(()) => from += 256,
            Err(error) => break error,
        }
        if from > 4_000_000 {
            return Err("never full".into());
        }
    };
    put("full", format!("{error:?}"));
    put("acked", from);
    std::io::stdout().flush()?;
    std::thread::sleep(pause);
    let again = engine.commit(&mut batch);
    put("again", again.map_or_else(|e| format!("{e:?}"), |()| "ok".into()));
    Ok(())
}
