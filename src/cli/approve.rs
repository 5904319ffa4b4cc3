//! `cadre approve`: answers a decision that is waited for.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    process::ExitCode,
};

use clap::{ArgGroup, Args as ClapArgs};
use serde_json::{Value, json};

use super::{client::Client, failure::Failure, line, table};

/// Answer a decision that is waited for, or list those of a session
#[derive(Debug, ClapArgs)]
#[command(
    group = ArgGroup::new("which").required(true),
    after_help = "\
Examples:
  cadre approve --session SESSION                  what waits there
  cadre approve ACTION                             allow it
  cadre approve ACTION deny --reason 'not today'"
)]
pub struct Args {
    /// The decision, as `action.required` named it
    #[arg(group = "which")]
    action: Option<String>,
    /// One of the answers that it has
    #[arg(default_value = "allow", requires = "action")]
    decision: String,
    /// Why
    #[arg(long, requires = "action")]
    reason: Option<String>,
    /// List what is waited for in this session
    #[arg(long, value_name = "ID", group = "which")]
    session: Option<String>,
}

/// Answers, or lists.
pub fn run(client: &Client, args: Args) -> Result<ExitCode, Failure> {
    match (args.action, args.session) {
        (Some(action), _) => {
            let mut arguments = json!({ "actionId": action, "decision": args.decision });
            if let Some(reason) = args.reason {
                arguments["reason"] = reason.into();
            }
            let answer = client.call("respond_action", &arguments)?;
            if client.json {
                writeln!(io::stdout(), "{answer}")?;
            } else {
                writeln!(io::stdout(), "{action} {}", args.decision)?;
            }
        }
        (None, Some(session)) => list(client, &session)?,
        (None, None) => return Err(Failure::new("name an action, or a session with --session")),
    }
    Ok(ExitCode::SUCCESS)
}

fn list(client: &Client, session: &str) -> Result<(), Failure> {
    let mut open = BTreeMap::<String, Value>::new();
    client.events(session, "action.*", |event| {
        let Some(action) = event["actionId"].as_str() else { return };
        match event["type"].as_str() {
            Some("action.required") => drop(open.insert(action.to_owned(), event.clone())),
            Some("action.resolved") => drop(open.remove(action)),
            _ => {}
        }
    })?;
    if client.json {
        for event in open.values() {
            writeln!(io::stdout(), "{event}")?;
        }
    } else if open.is_empty() {
        eprintln!("cadre: nothing is waited for in {session}");
    } else {
        let rows: Vec<_> = open.iter().map(|(action, event)| row(action, event)).collect();
        table::print(&["ACTION", "DECISIONS", "TURN", "PROMPT"], &rows)?;
    }
    Ok(())
}

fn row(action: &str, event: &Value) -> Vec<String> {
    let payload = &event["payload"];
    let decisions = payload["decisions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    vec![
        action.to_owned(),
        decisions.collect::<Vec<_>>().join("|"),
        event["turnId"].as_str().unwrap_or("").to_owned(),
        line::cut(payload["prompt"].as_str().unwrap_or("")),
    ]
}
