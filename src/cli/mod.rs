//! The command line. One file per subcommand; what they share is the client, the follower of feeds
//! and how they fail.

mod access;
mod admin;
mod approve;
mod call;
mod client;
mod config;
mod dev;
mod duration;
mod export;
mod failure;
mod follow;
mod identity;
mod line;
mod node;
mod progress;
mod replay;
mod sessions;
mod sse;
mod stopped;
mod submit;
mod table;
mod tail;
mod tasks;
mod tree;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use self::{client::Client, failure::Failure};

const AFTER_HELP: &str = "\
Examples:
  cadre dev                                        a server on this machine, until Ctrl-C
  cadre submit --wait '[{\"say\": \"hello\"}]'         a turn of the scripted agent, and what it says
  cadre sessions                                   which sessions there are
  cadre tail SESSION                               everything that happens in one, from its beginning
  cadre call                                       all commands of the API
  cadre call get_session '{\"sessionId\": \"…\"}'      one of them

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 the turn failed, 4 it was cancelled, 5 it timed out or was
lost, 6 no server was reached.";

/// A distributed agent runtime: every session, task, subagent and job is a supervised, durable actor.
#[derive(Debug, Parser)]
#[command(version, about, after_help = AFTER_HELP, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    command: Command,
}

/// What every subcommand takes.
#[derive(Debug, Clone, Args)]
struct Shared {
    /// The server to talk to
    #[arg(long, global = true, env = "CADRE_URL", default_value = "http://127.0.0.1:7600")]
    url: String,
    /// The credential for it; one on this machine needs none
    #[arg(long, global = true, env = "CADRE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// The certificates to trust in place of those of the world, in PEM: for a server with one of its own
    #[arg(long, global = true, env = "CADRE_CA_CERT", value_name = "FILE")]
    ca_cert: Option<std::path::PathBuf>,
    /// Answer for programs: JSON, one value per line
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dev(dev::Args),
    Node(node::Args),
    Config(config::Args),
    Submit(submit::Args),
    Tail(tail::Args),
    Sessions(sessions::Args),
    Tasks(tasks::Args),
    Tree(tree::Args),
    Approve(approve::Args),
    Call(call::Args),
    Export(export::Args),
    Replay(replay::Args),
    Admin(admin::Args),
}

/// Runs what the arguments of the process say.
pub fn main() -> ExitCode {
    let Cli { shared, command } = Cli::parse();
    // A node's configuration says how it logs.
    if !matches!(command, Command::Node(_)) {
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    let json = shared.json;
    run(&shared, command).unwrap_or_else(|failure| failure.report(json))
}

fn run(shared: &Shared, command: Command) -> Result<ExitCode, Failure> {
    let client = || Client::new(shared);
    match command {
        Command::Dev(args) => dev::run(args, shared.json).map(|()| ExitCode::SUCCESS).map_err(Failure::from),
        Command::Node(args) => {
            node::run(args, shared.json).map(|()| ExitCode::SUCCESS).map_err(Failure::from)
        }
        Command::Config(args) => config::run(args, shared.json).map_err(Failure::from),
        Command::Submit(args) => submit::run(&client()?, args),
        Command::Tail(args) => tail::run(&client()?, args),
        Command::Sessions(args) => sessions::run(&client()?, args),
        Command::Tasks(args) => tasks::run(&client()?, args),
        Command::Tree(args) => tree::run(&client()?, args),
        Command::Approve(args) => approve::run(&client()?, args),
        Command::Call(args) => call::run(&client()?, args),
        Command::Export(args) => export::run(&client()?, args),
        Command::Admin(args) => admin::run(&client()?, args),
        Command::Replay(args) => replay::run(args, shared.json),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
