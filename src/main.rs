//! The `cadre` binary.
//!
//! So far it runs the substrate: a node of a one-machine cluster on the embedded store. The agent runtime and its
//! gateways come on top.

mod dev;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// A distributed agent runtime: every session, task, subagent and job is a supervised, durable actor.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dev(dev::Args),
}

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let done = match Cli::parse().command {
        Command::Dev(args) => dev::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cadre: {error:#}");
            ExitCode::FAILURE
        }
    }
}
