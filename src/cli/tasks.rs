//! `cadre tasks`: which there are.

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

/// List tasks by their ids, the last first: of ids that Cadre made the newest
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre tasks --session SESSION
  cadre tasks --status failed --limit 1000
  cadre call create_task --describe                how to make one")]
pub struct Args {
    /// Only those of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only those with this status: running, completed, failed, …
    #[arg(long)]
    status: Option<String>,
    /// How many at most
    #[arg(long, default_value_t = 50, value_parser = at_least_one)]
    limit: usize,
}

/// Lists.
pub fn run(client: &Client, args: Args) -> Result<ExitCode, Failure> {
    let mut arguments = json!({});
    if let Some(session) = args.session {
        arguments["sessionId"] = session.into();
    }
    if let Some(status) = args.status {
        arguments["status"] = status.into();
    }
    let (tasks, more) = client.list("list_tasks", arguments, args.limit)?;
    if client.json {
        for task in &tasks {
            writeln!(io::stdout(), "{task}")?;
        }
    } else if tasks.is_empty() {
        eprintln!("cadre: there are no tasks");
    } else {
        let rows: Vec<_> = tasks.iter().map(row).collect();
        table::print(&["TASK", "STATUS", "DONE", "SESSION", "OBJECTIVE"], &rows)?;
        table::more(more);
    }
    Ok(ExitCode::SUCCESS)
}

fn row(task: &Value) -> Vec<String> {
    let text = |name: &str| task[name].as_str().unwrap_or("").to_owned();
    let done = task["progress"]["percent"].as_f64().map(|percent| format!("{percent:.0}%"));
    let title = task["title"].as_str().map_or_else(|| text("objective"), str::to_owned);
    vec![text("taskId"), text("status"), done.unwrap_or_default(), text("sessionId"), line::cut(&title)]
}
