//! `cadre sessions`: which there are.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args as ClapArgs;
use serde_json::{Value, json};

use super::{
    client::Client,
    failure::Failure,
    line,
    table::{self, at_least_one},
};

/// List sessions, the newest first
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre sessions
  cadre sessions --status archived --limit 1000
  cadre --json sessions | jq -r .sessionId")]
pub struct Args {
    /// Only those with this status: active, archived
    #[arg(long)]
    status: Option<String>,
    /// How many at most
    #[arg(long, default_value_t = 50, value_parser = at_least_one)]
    limit: usize,
}

/// Lists.
pub fn run(client: &Client, args: Args) -> Result<ExitCode, Failure> {
    let mut arguments = json!({});
    if let Some(status) = args.status {
        arguments["status"] = status.into();
    }
    let (sessions, more) = client.list("list_sessions", arguments, args.limit)?;
    if client.json {
        for session in &sessions {
            writeln!(io::stdout(), "{session}")?;
        }
    } else if sessions.is_empty() {
        eprintln!("cadre: there are no sessions; make one with `cadre submit`");
    } else {
        let rows: Vec<_> = sessions.iter().map(row).collect();
        table::print(&["SESSION", "STATUS", "THREADS", "UPDATED", "TITLE"], &rows)?;
        table::more(more);
    }
    Ok(ExitCode::SUCCESS)
}

fn row(session: &Value) -> Vec<String> {
    let text = |name: &str| session[name].as_str().unwrap_or("").to_owned();
    let threads = session["threads"].as_array().into_iter().flatten();
    let threads: Vec<_> = threads.filter_map(|thread| thread["status"].as_str()).collect();
    vec![
        text("sessionId"),
        text("status"),
        threads.join(","),
        text("updatedAt").chars().take(19).collect(),
        line::cut(&text("title")),
    ]
}
