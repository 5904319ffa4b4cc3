//! `cadre-loadtest bench`: micro-benchmarks of the substrate, each next to a raw baseline in the same run.

mod counter;
#[cfg(feature = "fdb")]
mod fdb;
mod feed;
mod memory;
mod messages;
mod process;
mod raw;
mod report;
mod steps;
mod store;
mod tail;

use std::{path::PathBuf, time::Duration};

use clap::{Args as ClapArgs, ValueEnum};

use self::report::Report;

/// Measures the substrate on this machine: commits, steps, activations, messages, feeds, memory. Every rate stands
/// next to a raw baseline (append + fsync, NATS request/reply) measured in the same run; compare the ratios,
/// not the rates, between machines.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Only these parts; all when none is named.
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// How long each measurement lasts, in seconds.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// How large the largest feed is.
    #[arg(long, default_value_t = 10_000_000)]
    feed_events: u64,
    /// Where to put data; a folder that is removed afterwards.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Also write the results as JSON to this file.
    #[arg(long, default_value = "target/bench.json")]
    json: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Memory per live and per sleeping entity.
    Memory,
    /// Commits of the store.
    Store,
    /// Durable steps and activations of entities.
    Steps,
    /// Messages between entities, on one node and on two.
    Messages,
    /// Feeds of growing size, and tails that follow them.
    Feed,
    /// Steps on the FoundationDB cluster that FDB_CLUSTER_FILE names.
    #[cfg(feature = "fdb")]
    Fdb,
}

impl Part {
    const ALL: [Self; 5] = [Self::Memory, Self::Store, Self::Steps, Self::Messages, Self::Feed];
}

/// Where and how long to measure.
struct Bench {
    dir: tempfile::TempDir,
    duration: Duration,
    feed_events: u64,
    report: Report,
}

/// Runs what was asked for, prints a table and writes JSON.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let parts = if args.parts.is_empty() { Part::ALL.to_vec() } else { args.parts.clone() };
    let dir = match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            tempfile::tempdir_in(dir)?
        }
        None => tempfile::tempdir_in(std::env::current_dir()?.join("target"))?,
    };
    let mut bench = Bench {
        dir,
        duration: Duration::from_secs_f64(args.seconds),
        feed_events: args.feed_events,
        report: Report::default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for part in parts {
        eprintln!("measuring {part:?} …");
        runtime.block_on(async {
            match part {
                Part::Memory => memory::run(&mut bench).await,
                Part::Store => store::run(&mut bench).await,
                Part::Steps => steps::run(&mut bench).await,
                Part::Messages => messages::run(&mut bench).await,
                Part::Feed => feed::run(&mut bench).await,
                #[cfg(feature = "fdb")]
                Part::Fdb => fdb::run(&mut bench).await,
            }
        })?;
    }
    print!("{}", bench.report.table());
    std::fs::write(&args.json, bench.report.json()?)?;
    println!("\nas JSON: {}", args.json.display());
    Ok(())
}
