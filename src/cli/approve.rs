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
  cadre approve --session SESSION --decide allow   allow it, when it is the only one
  cadre approve ACTION                             allow this one
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
    #[arg(long)]
    reason: Option<String>,
    /// List what is waited for in this session
    #[arg(long, value_name = "ID", group = "which")]
    session: Option<String>,
    /// Answer the one decision that is waited for in the session; with several it says which there are
    #[arg(long, value_name = "DECISION", requires = "session")]
    decide: Option<String>,
}

/// Answers, or lists.
pub fn run(client: &Client, args: Args) -> Result<ExitCode, Failure> {
    match (args.action, args.session, args.decide) {
        (Some(action), _, _) => answer(client, &action, &args.decision, args.reason)?,
        (None, Some(session), Some(decision)) => {
            let action = only(open(client, &session)?.into_keys().collect(), &session)?;
            answer(client, &action, &decision, args.reason)?;
        }
        (None, Some(session), None) => list(client, &session)?,
        (None, None, _) => return Err(Failure::new("name an action, or a session with --session")),
    }
    Ok(ExitCode::SUCCESS)
}

fn answer(client: &Client, action: &str, decision: &str, reason: Option<String>) -> Result<(), Failure> {
    let mut arguments = json!({ "actionId": action, "decision": decision });
    if let Some(reason) = reason {
        arguments["reason"] = reason.into();
    }
    let answer = client.call("respond_action", &arguments)?;
    if client.json {
        writeln!(io::stdout(), "{answer}")?;
    } else {
        writeln!(io::stdout(), "{action} {decision}")?;
    }
    Ok(())
}

/// The one that waits: nobody should answer something else than they meant.
fn only(mut actions: Vec<String>, session: &str) -> Result<String, Failure> {
    match (actions.pop(), actions.is_empty()) {
        (None, _) => Err(Failure::new(format!("nothing is waited for in {session}"))),
        (Some(action), true) => Ok(action),
        (Some(action), false) => {
            actions.push(action);
            let message = format!(
                "{} decisions are waited for in {session}, name one of them: {}",
                actions.len(),
                actions.join(", ")
            );
            Err(Failure::new(message))
        }
    }
}

/// What is asked in a session and not yet answered.
fn open(client: &Client, session: &str) -> Result<BTreeMap<String, Value>, Failure> {
    let mut open = BTreeMap::<String, Value>::new();
    client.events(session, "action.*", |event| {
        let Some(action) = event["actionId"].as_str() else { return };
        match event["type"].as_str() {
            Some("action.required") => drop(open.insert(action.to_owned(), event.clone())),
            Some("action.resolved") => drop(open.remove(action)),
            _ => {}
        }
    })?;
    Ok(open)
}

fn list(client: &Client, session: &str) -> Result<(), Failure> {
    let open = open(client, session)?;
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
