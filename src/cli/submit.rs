//! `cadre submit`: asks an agent something, and waits for the answer if wanted.

use std::{
    io::{self, IsTerminal, Read, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::{ArgGroup, Args as ClapArgs};
use serde_json::{Value, json};

use super::{
    client::{Client, START},
    failure::Failure,
    follow::{Follow, Next},
};

/// Submit a turn
///
/// Prints the ids of the session and the turn. With --wait it prints the text as it streams and ends with the turn: 0
/// completed, 3 failed, 4 cancelled, 5 timed out or lost.
#[derive(Debug, ClapArgs)]
#[command(
    group = ArgGroup::new("what").required(true),
    after_help = "\
Examples:
  cadre submit --wait '[{\"say\": \"hello\", \"chunks\": 3, \"delayMs\": 200}]'
  cadre submit --script demo.json --session demo
  cadre submit --wait --max-steps 20 --max-cost-usd 0.50 --script demo.json
  cadre submit --wait --deadline-ms 60000 --key nightly-2026-05-11 --script nightly.json
  echo '[{\"tool\": \"echo\", \"args\": {\"a\": 1}}]' | cadre submit -"
)]
pub struct Args {
    /// What is asked; `-` reads it from standard input
    #[arg(group = "what")]
    text: Option<String>,
    /// A file with a script for the scripted agent
    #[arg(long, group = "what", value_name = "FILE")]
    script: Option<PathBuf>,
    /// The session [default: a new one]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Who answers [default: the agent of the session, or else `scripted`]
    #[arg(long)]
    agent: Option<String>,
    /// How long the turn may take, in milliseconds, until it is timed out
    #[arg(long, value_name = "MS")]
    deadline_ms: Option<u64>,
    /// How often the turn may ask its model, until it fails as over its budget
    #[arg(long, value_name = "N")]
    max_steps: Option<u32>,
    /// How many tokens the turn may use, in and out
    #[arg(long, value_name = "N")]
    max_tokens: Option<u64>,
    /// How much the turn may cost, in US dollars
    #[arg(long, value_name = "USD")]
    max_cost_usd: Option<f64>,
    /// Submit it once, however often this is sent with this key (8 to 128 characters)
    #[arg(long)]
    key: Option<String>,
    /// Follow the turn to its end
    #[arg(long)]
    wait: bool,
}

/// Submits.
pub fn run(client: &Client, args: Args) -> Result<ExitCode, Failure> {
    let agent = args.agent.or_else(|| args.script.is_some().then(|| "scripted".to_owned()));
    let text = match (args.text, args.script) {
        (_, Some(file)) => std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read the script {}", file.display()))?,
        (Some(text), None) if text == "-" => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
            text
        }
        (text, None) => text.unwrap_or_default(),
    };
    let mut arguments = json!({ "input": [{ "type": "text", "text": text }] });
    if let Some(session) = args.session {
        arguments["sessionId"] = session.into();
    }
    if let Some(agent) = agent {
        arguments["agent"] = agent.into();
    }
    if let Some(ms) = args.deadline_ms {
        arguments["options"]["deadlineMs"] = ms.into();
    }
    let bounds = [
        ("steps", args.max_steps.map(Value::from)),
        ("tokens", args.max_tokens.map(Value::from)),
        ("costUsd", args.max_cost_usd.map(Value::from)),
    ];
    for (name, bound) in bounds {
        if let Some(bound) = bound {
            arguments["options"]["budget"][name] = bound;
        }
    }
    let key = args.key.map(|key| ("idempotency-key", key));
    let answer = client.call_with("submit_turn", &arguments, key.as_slice())?;
    let id = |name: &str| answer["result"][name].as_str().unwrap_or("?").to_owned();
    let (session, turn) = (id("sessionId"), id("turnId"));
    if client.json {
        writeln!(io::stdout(), "{answer}")?;
    } else {
        writeln!(io::stdout(), "session {session} turn {turn} {}", id("status"))?;
    }
    if args.wait { wait(client, &session, &turn) } else { Ok(ExitCode::SUCCESS) }
}

/// Follows a turn from its first fact: one that is refused at once ends with the submit itself.
fn wait(client: &Client, session: &str, turn: &str) -> Result<ExitCode, Failure> {
    let mut follow = Follow::open(client, session, &[("turnId", turn)], Some(START))?;
    let mut text = Text::default();
    loop {
        let event = match follow.next(Duration::from_secs(3600))? {
            Next::Event(event) => event,
            Next::Gap(_) | Next::Quiet | Next::Snapshot => continue,
        };
        if client.json {
            writeln!(io::stdout(), "{event}")?;
        } else {
            text.show(&event)?;
        }
        // Facts of children may carry the same turn.
        if event["turnId"] != turn {
            continue;
        }
        match event["type"].as_str() {
            Some("turn.completed") => return text.end(ExitCode::SUCCESS),
            Some("turn.failed") => {
                if !client.json {
                    let error = &event["payload"]["error"];
                    let message = error["message"].as_str().unwrap_or("?");
                    eprintln!("cadre: the turn is {}: {message}", status(&event));
                }
                return text.end(match status(&event) {
                    "cancelled" => ExitCode::from(4),
                    "timed_out" | "lost" => ExitCode::from(5),
                    _ => ExitCode::from(3),
                });
            }
            _ => {}
        }
    }
}

fn status(event: &Value) -> &str {
    event["status"].as_str().or(event["payload"]["status"].as_str()).unwrap_or("failed")
}

/// Text as it streams.
#[derive(Default)]
struct Text {
    is_open: bool,
}

impl Text {
    fn show(&mut self, event: &Value) -> io::Result<()> {
        let payload = &event["payload"];
        match event["type"].as_str() {
            Some("model.delta") => {
                let mut out = io::stdout().lock();
                let text = payload["text"].as_str().unwrap_or("");
                out.write_all(text.as_bytes())?;
                self.is_open = if text.is_empty() { self.is_open } else { !text.ends_with('\n') };
                out.flush()?;
            }
            Some("model.completed") if self.is_open => {
                writeln!(io::stdout())?;
                self.is_open = false;
            }
            Some("action.required") => {
                let (prompt, action) = (&payload["prompt"], event["actionId"].as_str().unwrap_or("?"));
                let decisions = &payload["decisions"];
                eprintln!("cadre: {prompt} waits for {decisions}: cadre approve {action} DECISION");
            }
            Some("tool.started") if io::stderr().is_terminal() => {
                eprintln!("cadre: {} {}", payload["name"].as_str().unwrap_or("?"), payload["args"]);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&self, code: ExitCode) -> Result<ExitCode, Failure> {
        if self.is_open {
            writeln!(io::stdout())?;
        }
        Ok(code)
    }
}
