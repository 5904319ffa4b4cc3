//! `cadre-loadtest simulate`: as many seeds of the deterministic simulation as you like.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use anyhow::{Context, bail};
use cadre::{sabotage::Sabotage as RuntimeSabotage, sim as runtime};
use cadre_cluster::{
    sabotage::Sabotage,
    sim::{Scenario, Tally, Verdict, simulate},
};
use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

/// Runs the deterministic simulation of the substrate, or with `--runtime` of the whole runtime: several nodes, clients
/// and readers on a simulated store and bus, under crashes, partitions, clock skew and unknown commit results. Exits
/// with 1 when a promise is broken, and says which seed broke it.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Simulate sessions, tasks, subagents and jobs, instead of what they stand on.
    #[arg(long)]
    runtime: bool,
    /// Run this one seed, and print what happened.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Run so many seeds.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Start with this seed.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// On so many threads, one simulation each; by default one per core.
    #[arg(long)]
    threads: Option<usize>,
    /// Break a promise on purpose, to see that the checks notice: one of the names of `Sabotage`.
    #[arg(long)]
    sabotage: Option<String>,
}

/// A simulation to run with any seed.
type Simulation = Box<dyn Fn(u64) -> Verdict + Sync>;

/// Runs what was asked for.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let name = args.sabotage.as_deref();
    let simulation: Simulation = if args.runtime {
        let sabotage = name.map(|name| parse_sabotage(name, &RuntimeSabotage::ALL)).transpose()?;
        let scenario = runtime::Scenario { sabotage, ..runtime::Scenario::default() };
        Box::new(move |seed| runtime::simulate(seed, &scenario))
    } else {
        let sabotage = name.map(|name| parse_sabotage(name, &Sabotage::ALL)).transpose()?;
        let scenario = Scenario { sabotage, ..Scenario::default() };
        Box::new(move |seed| simulate(seed, &scenario))
    };
    match args.seed {
        Some(seed) => run_one(args, seed, &simulation),
        None => run_many(args, &simulation),
    }
}

fn parse_sabotage<S: Copy + Debug>(name: &str, all: &[S]) -> anyhow::Result<S> {
    let known = || all.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ");
    all.iter()
        .copied()
        .find(|one| format!("{one:?}").eq_ignore_ascii_case(name))
        .with_context(|| format!("no sabotage is called {name}; there are {}", known()))
}

fn run_one(args: &Args, seed: u64, simulation: &Simulation) -> anyhow::Result<()> {
    let verdict = simulation(seed);
    for line in &verdict.trace {
        println!("{line}");
    }
    println!(
        "seed {seed}: {} commits, {} answers, {} events, fingerprint {:016x}",
        verdict.commits, verdict.answers, verdict.events, verdict.fingerprint
    );
    print_tally(&verdict.tally);
    report(args, &[verdict])
}

fn run_many(args: &Args, simulation: &Simulation) -> anyhow::Result<()> {
    let threads = args.threads.or_else(|| thread::available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let end = args.from + args.seeds;
    let next = AtomicU64::new(args.from);
    let (commits, answers) = (AtomicU64::new(0), AtomicU64::new(0));
    let (broken, tally) = (Mutex::new(Vec::new()), Mutex::new(Tally::new()));
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {msg}")?;
    let progress = ProgressBar::new(args.seeds).with_style(style);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let verdict = simulation(seed);
                    commits.fetch_add(verdict.commits, Ordering::Relaxed);
                    answers.fetch_add(verdict.answers as u64, Ordering::Relaxed);
                    add(&tally, &verdict.tally);
                    let mut broken = broken.lock().unwrap_or_else(PoisonError::into_inner);
                    if !verdict.violations.is_empty() {
                        broken.push(verdict);
                    }
                    progress.set_message(format!("{} broken", broken.len()));
                    progress.inc(1);
                }
            });
        }
    });
    progress.finish();
    println!(
        "seeds {}..{end}: {} commits, {} answers",
        args.from,
        commits.into_inner(),
        answers.into_inner()
    );
    print_tally(&tally.into_inner().unwrap_or_else(PoisonError::into_inner));
    report(args, &broken.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn add(sum: &Mutex<Tally>, tally: &Tally) {
    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
    for (what, times) in tally {
        *sum.entry(what).or_default() += times;
    }
}

fn print_tally(tally: &Tally) {
    for (what, times) in tally {
        println!("{times:>10} {what}");
    }
}

fn report(args: &Args, verdicts: &[Verdict]) -> anyhow::Result<()> {
    let mut by_promise: BTreeMap<u8, usize> = BTreeMap::new();
    let mut seeds = Vec::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.violations.is_empty()) {
        seeds.push(verdict.seed);
        for violation in &verdict.violations {
            *by_promise.entry(violation.promise).or_default() += 1;
        }
        for violation in verdict.violations.iter().take(5) {
            println!("seed {} breaks P{}: {}", verdict.seed, violation.promise, violation.what);
        }
    }
    if seeds.is_empty() {
        println!("every promise held");
        return Ok(());
    }
    seeds.sort_unstable();
    println!("violations by promise: {by_promise:?}");
    let which = if args.runtime { "--runtime " } else { "" };
    bail!(
        "{} seeds broke a promise: {seeds:?}\nrun one again: simulate {which}--seed {}",
        seeds.len(),
        seeds[0]
    );
}
