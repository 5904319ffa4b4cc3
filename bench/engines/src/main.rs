//! Embedded key-value engines under a transactional actor store's load.
//!
//! `engines [--dir DIR] [--only adcefb] [--rounds N] [--secs S] [--events N]`
//! runs the measurements and prints Markdown tables: A group commit, B feeds,
//! C queue, D the own log's long run (its A and C are in those tables),
//! E kill -9, F a failing sync. `engines cell …` is one measurement, in a
//! process of its own.

mod cells;
mod engines;
mod load;
mod meter;

use engines::Result;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const A_ENGINES: [&str; 8] =
    ["raw", "raw-falloc", "raw-zeroed", "fjall", "redb", "redb-2pc", "own-redb", "own-fjall"];
const SIZES: [u64; 5] = [1, 16, 64, 256, 1024];
const LONG: [(&str, u64); 2] = [("256", 256), ("1024", 1024)];

type Row = BTreeMap<String, String>;

struct Options {
    dir: PathBuf,
    only: String,
    rounds: usize,
    secs: f64,
    long: f64,
    events: u64,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "cell") {
        return cell(&args[1..]);
    }
    let mut options = Options {
        dir: "data".into(),
        only: "adcefb".into(),
        rounds: 3,
        secs: 1.5,
        long: 8.0,
        events: 10_000_000,
    };
    for pair in args.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("{} needs a value", pair[0]).into());
        };
        match name.as_str() {
            "--dir" => options.dir = value.into(),
            "--only" => options.only = value.clone(),
            "--rounds" => options.rounds = value.parse()?,
            "--secs" => options.secs = value.parse()?,
            "--long" => options.long = value.parse()?,
            "--events" => options.events = value.parse()?,
            _ => return Err(format!("unknown option {name}").into()),
        }
    }
    let start = Instant::now();
    for which in options.only.chars() {
        match which {
            'a' => group_commit(&options)?,
            'b' => feeds(&options)?,
            'c' => queue(&options)?,
            'd' => long_run(&options)?,
            'e' => kills(&options)?,
            'f' => sync_failures(&options)?,
            _ => return Err(format!("no measurement {which}").into()),
        }
    }
    println!("\nWhole run: {:.0} s.", start.elapsed().as_secs_f64());
    Ok(())
}

/// One measurement, in this process.
fn cell(args: &[String]) -> Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["a", name, dir, size, secs] => {
            cells::group_commit(name, size.parse()?, secs.parse()?, Path::new(dir))
        }
        ["b-load", name, dir, events] => cells::feeds_load(name, events.parse()?, Path::new(dir)),
        ["b-read", name, dir, events] => cells::feeds_read(name, events.parse()?, Path::new(dir)),
        ["b-crashed", name, dir] => cells::feeds_crashed(name, Path::new(dir)),
        ["c", name, dir, messages, size] => {
            cells::queue(name, messages.parse()?, size.parse()?, Path::new(dir))
        }
        ["victim", name, dir, size] => cells::victim(name, size.parse()?, Path::new(dir)),
        ["verify", name, dir, acked, size] => {
            cells::verify(name, acked.parse()?, size.parse()?, Path::new(dir))
        }
        ["sync-failure", name, dir] => cells::sync_failure(name, Path::new(dir)),
        ["full-disk", name, dir, pause] => {
            let pause = Duration::from_secs(pause.parse()?);
            cells::full_disk(name, Path::new(dir), pause)
        }
        _ => Err("unknown cell".into()),
    }
}

fn command(kind: &str, name: &str, dir: &Path, rest: &[String]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["cell", kind, name]).arg(dir).args(rest);
    Ok(command)
}

/// Runs a cell in a process of its own and reads its lines.
fn run(kind: &str, name: &str, dir: &Path, rest: &[String]) -> Result<Row> {
    let output = command(kind, name, dir, rest)?.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let row: Row = pairs.map(|(k, v)| (k.into(), v.into())).collect();
    eprintln!("{kind} {name} {rest:?} {row:?}");
    if !output.status.success() && kind != "b-read" {
        println!("\n{kind} {name} {rest:?}: {}", output.status);
    }
    Ok(row)
}

/// An empty directory for one engine.
fn fresh(options: &Options, name: &str) -> Result<PathBuf> {
    let dir = options.dir.join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn number(row: &Row, name: &str) -> f64 {
    let value = row.get(name).and_then(|value| value.parse().ok());
    value.unwrap_or(f64::NAN)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn show(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

const A_COLUMNS: [&str; 10] = ["tps", "syncs", "p50", "p99", "max", "cpu", "disk", "amp", "dev", "rss"];
const A_TITLE: &str = "| engine | ×raw | tx/s | syncs/s | p50 ms | p99 ms | max ms | CPU s/100k tx | disk MiB | write amp (proc) | write amp (device) | peak RSS MiB |\n|---|---|---|---|---|---|---|---|---|---|---|---|";

fn a_table(rounds: &[BTreeMap<&str, Row>], names: &[&str]) {
    println!("{A_TITLE}");
    for name in names {
        let all = |f: &dyn Fn(&BTreeMap<&str, Row>) -> f64| median(rounds.iter().map(f).collect());
        let ratio = all(&|round| number(&round[name], "tps") / number(&round["raw"], "tps"));
        let columns = A_COLUMNS.map(|column| show(all(&|round| number(&round[name], column))));
        println!("| {name} | {ratio:.2} | {} |", columns.join(" | "));
    }
}

fn a_round<'a>(options: &Options, names: &[&'a str], size: u64, secs: f64) -> Result<BTreeMap<&'a str, Row>> {
    let mut round = BTreeMap::new();
    for name in names {
        let dir = fresh(options, name)?;
        let rest = [size.to_string(), secs.to_string()];
        round.insert(*name, run("a", name, &dir, &rest)?);
        fs::remove_dir_all(&dir)?;
    }
    Ok(round)
}

fn group_commit(options: &Options) -> Result<()> {
    let mut results: BTreeMap<u64, Vec<_>> = BTreeMap::new();
    for _ in 0..options.rounds {
        for size in SIZES {
            let round = a_round(options, &A_ENGINES, size, options.secs)?;
            results.entry(size).or_default().push(round);
        }
    }
    for (size, rounds) in &results {
        let (count, secs) = (options.rounds, options.secs);
        println!("\n### A: {size} transactions per commit (medians of {count} × {secs} s)\n");
        a_table(rounds, &A_ENGINES);
    }
    Ok(())
}

fn long_run(options: &Options) -> Result<()> {
    let names = ["raw", "fjall", "redb", "own-redb", "own-fjall"];
    for (title, size) in LONG {
        let round = a_round(options, &names, size, options.long)?;
        println!("\n### A/D, long: {title} transactions per commit, {} s\n", options.long);
        a_table(std::slice::from_ref(&round), &names);
        for name in names {
            let text = |field| round[name].get(field).cloned().unwrap_or_default();
            println!("\n{name}: p99.9 {} ms; {}", text("p999"), text("note"));
        }
    }
    Ok(())
}

fn feeds(options: &Options) -> Result<()> {
    let names = ["fjall", "redb"];
    let events = options.events.to_string();
    let mut rows = Vec::new();
    for name in names {
        let dir = fresh(options, name)?;
        let mut row = run("b-load", name, &dir, std::slice::from_ref(&events))?;
        row.extend(run("b-read", name, &dir, std::slice::from_ref(&events))?);
        row.extend(run("b-crashed", name, &dir, &[])?);
        rows.push(row);
        fs::remove_dir_all(&dir)?;
    }
    println!("\n### B: {events} events of 250 B in 64 feeds\n");
    println!("| | {} |\n|---|---|---|", names.join(" | "));
    let fields = [
        ("load, s", "load_s"),
        ("load, CPU s", "load_cpu"),
        ("load, write amplification", "load_amp"),
        ("… at the device", "load_dev"),
        ("load, peak RSS MiB", "load_rss"),
        ("close, ms", "close_ms"),
        ("disk, MiB", "disk"),
        ("open (clean, evicted), ms", "open_ms"),
        ("first write after it, ms", "first_write_ms"),
        ("open after kill -9, ms", "crash_open_ms"),
        ("first write after that, ms", "crash_first_write_ms"),
        ("cold random range of 1,000, p50 ms", "cold_range_p50"),
        ("… p99 ms", "cold_range_p99"),
        ("cold tail range of 1,000, p50 ms", "cold_tail_p50"),
        ("… p99 ms", "cold_tail_p99"),
        ("warm random range of 1,000, p50 ms", "warm_range_p50"),
        ("… p99 ms", "warm_range_p99"),
        ("warm tail range of 1,000, p50 ms", "warm_tail_p50"),
        ("… p99 ms", "warm_tail_p99"),
        ("cold point get, µs", "cold_get_us"),
        ("warm point get, µs", "warm_get_us"),
        ("full scan, events/s", "full_scan_per_s"),
        ("anonymous RSS after warm reads, MiB", "warm_rss"),
        ("anonymous RSS after full scan, MiB", "full_rss"),
    ];
    for (title, field) in fields {
        let values: Vec<_> = rows.iter().map(|row| show(number(row, field))).collect();
        println!("| {title} | {} |", values.join(" | "));
    }
    Ok(())
}

fn queue(options: &Options) -> Result<()> {
    let names = ["fjall", "fjall-8m", "fjall-weak", "redb", "own-redb", "own-fjall"];
    println!("\n### C: 200,000 messages, batches of 64, a scan every 100 batches\n");
    println!(
        "| engine | total s | scan p50 ms | scan last ms | scan max ms | commit p50 ms | p99 ms | max ms | write amp (proc) | (device) | found | notes |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    );
    for name in names {
        let dir = fresh(options, name)?;
        let row = run("c", name, &dir, &["200000".into(), "64".into()])?;
        let fields =
            ["seconds", "scan_p50", "last_scan", "scan_max", "p50", "p99", "max", "amp", "dev", "found"];
        let values = fields.map(|field| show(number(&row, field)));
        let note = row.get("note").cloned().unwrap_or_default();
        println!("| {name} | {} | {note} |", values.join(" | "));
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

fn kills(options: &Options) -> Result<()> {
    println!("\n### E: kill -9 during A (batches of 64)\n");
    println!("| engine | acknowledged | found | wrong | reopen ms | ok |\n|---|---|---|---|---|---|");
    for name in ["fjall", "redb", "redb-2pc", "own-redb", "own-fjall"] {
        let dir = fresh(options, name)?;
        let mut child = command("victim", name, &dir, &["64".into()])?.stdout(Stdio::piped()).spawn()?;
        let start = Instant::now();
        let out = BufReader::new(child.stdout.take().ok_or("no output")?);
        let (mut acked, mut killed) = (0u64, false);
        for line in out.lines() {
            acked = line?.parse()?;
            if !killed && start.elapsed() > Duration::from_millis(2_500) {
                child.kill()?;
                killed = true;
            }
        }
        child.wait()?;
        let row = run("verify", name, &dir, &[acked.to_string(), "64".into()])?;
        let text = |field| row.get(field).cloned().unwrap_or("—".into());
        println!(
            "| {name} | {acked} | {} | {} | {} | {} |",
            text("found"),
            text("wrong"),
            show(number(&row, "open_ms")),
            text("ok")
        );
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

fn sync_failures(options: &Options) -> Result<()> {
    println!("\n### F: one sync fails with EIO (640 transactions before it)\n");
    println!(
        "| engine | that commit | the next commit | reads | failed batch visible | found after reopening | commit then |\n|---|---|---|---|---|---|---|"
    );
    for name in ["fjall", "redb", "own-redb", "own-fjall"] {
        let dir = fresh(options, name)?;
        let row = run("sync-failure", name, &dir, &[])?;
        let fields = ["failing", "next", "read", "failed_visible", "after_reopen", "write_again"];
        let values = fields.map(|field| row.get(field).cloned().unwrap_or("—".into()));
        println!("| {name} | {} |", values.join(" | "));
        fs::remove_dir_all(&dir)?;
    }
    Ok(())
}
