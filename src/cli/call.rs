//! `cadre call`: any command of the API.

use std::{
    io::{self, Read, Write},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args as ClapArgs;
use serde_json::Value;

use super::{client::Client, failure::Failure, table};

/// Have any command of the API executed, list them, or say what one of them takes
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre call                                          all commands
  cadre call create_task --describe                   what it takes, with an example
  cadre call get_session '{\"sessionId\": \"demo\"}'
  cadre call create_task - < task.json
  cadre call --key nightly-2026-05-11 create_task '{\"objective\": \"Write release notes\"}'")]
pub struct Args {
    /// Which command; none lists them
    name: Option<String>,
    /// Its arguments; `-` reads them from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    arguments: String,
    /// Say what the command does and takes, instead of having it executed
    #[arg(long, requires = "name", conflicts_with_all = ["key", "deadline_ms"])]
    describe: bool,
    /// Execute it once, however often it is sent with this key (8 to 128 characters)
    #[arg(long, requires = "name")]
    key: Option<String>,
    /// How long to wait for the answer
    #[arg(long, value_name = "MS", requires = "name")]
    deadline_ms: Option<u64>,
}

/// Calls, or lists.
pub fn run(client: &Client, args: Args) -> Result<ExitCode, Failure> {
    let Some(name) = args.name else { return list(client) };
    if args.describe {
        return describe(client, &name);
    }
    let text = if args.arguments == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        text
    } else {
        args.arguments
    };
    let arguments: Value = serde_json::from_str(&text).with_context(|| {
        format!(
            "the arguments are not JSON (in a shell, put them in single quotes: cadre call {name} '{{…}}')"
        )
    })?;
    let mut headers = Vec::new();
    headers.extend(args.key.map(|key| ("idempotency-key", key)));
    headers.extend(args.deadline_ms.map(|ms| ("x-deadline-ms", ms.to_string())));
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
        return Err(Failure::new(format!("there is no command {name}; `cadre call` lists them")));
    }
    let answer = client.call_with(&name, &arguments, &headers)?;
    if client.json {
        writeln!(io::stdout(), "{answer}")?;
    } else {
        writeln!(io::stdout(), "{:#}", answer["result"])?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(client: &Client) -> Result<ExitCode, Failure> {
    let answer = client.get("/v1/commands")?;
    let commands = answer["commands"].as_array().map(Vec::as_slice).unwrap_or_default();
    if client.json {
        for command in commands {
            writeln!(io::stdout(), "{command}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let text = |command: &Value, name: &str| command[name].as_str().unwrap_or("").to_owned();
    let rows: Vec<_> =
        commands.iter().map(|command| vec![text(command, "name"), text(command, "summary")]).collect();
    table::print(&["COMMAND", ""], &rows)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(client: &Client, name: &str) -> Result<ExitCode, Failure> {
    let answer = client.get("/v1/commands")?;
    let commands = answer["commands"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(command) = commands.iter().find(|command| command["name"] == name) else {
        return Err(Failure::new(format!("there is no command {name}; `cadre call` lists them")));
    };
    if client.json {
        writeln!(io::stdout(), "{command}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let arguments = &command["arguments"];
    let required: Vec<_> = arguments["required"].as_array().into_iter().flatten().collect();
    let properties = arguments["properties"].as_object().into_iter().flatten();
    let mut rows: Vec<_> = properties
        .map(|(name, schema)| {
            let is_required = required.iter().any(|required| *required == name);
            let meaning = schema["description"].as_str().unwrap_or("").replace('\n', " ");
            (!is_required, vec![name.clone(), if is_required { "yes" } else { "" }.to_owned(), meaning])
        })
        .collect();
    // What must be there first; each in its order.
    rows.sort_by_key(|(is_optional, _)| *is_optional);
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    writeln!(io::stdout(), "{}\n", command["description"].as_str().unwrap_or("").replace('\n', " "))?;
    table::print(&["ARGUMENT", "NEEDED", "MEANING"], &rows)?;
    writeln!(io::stdout(), "\nExample:\ncadre call {name} '{}'", quoted(&command["example"]))?;
    Ok(ExitCode::SUCCESS)
}

/// JSON as it stands between single quotes of a shell.
fn quoted(value: &Value) -> String {
    format!("{value:#}").replace('\'', r"'\''")
}
