//! `cadre admin`: tenants, their keys and their quotas.

mod keys;
mod quotas;
mod tenants;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::{Args as ClapArgs, Subcommand};
use serde_json::Value;

use super::{client::Client, failure::Failure};

/// Manage tenants, their keys and their quotas
///
/// Needs a key of the tenant `operator` with the scope `admin`, or the token that the server was started with
/// (CADRE_ADMIN_TOKEN there).
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre admin tenants create acme --title 'Acme Ltd.'
  cadre admin keys create acme --name ci --scopes read,submit --expires-in 90d
  cadre admin keys list acme
  cadre admin keys rotate acme 5c7y0j3v9q8m2k4n --grace 1h
  cadre admin tenants suspend acme
  cadre admin quotas set acme commandsPerSecond=50")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Tenants(tenants::Args),
    Keys(keys::Args),
    Quotas(quotas::Args),
}

/// Asks the server.
pub fn run(client: &Client, args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Tenants(args) => tenants::run(client, args)?,
        What::Keys(args) => keys::run(client, args)?,
        What::Quotas(args) => quotas::run(client, args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// All entries of a list.
fn all(client: &Client, path: &str, plural: &str) -> Result<Vec<Value>, Failure> {
    let (mut entries, mut after) = (Vec::new(), String::new());
    loop {
        let mut page = client.get(&format!("{path}?limit=1000{after}"))?;
        if let Value::Array(listed) = page[plural].take() {
            entries.extend(listed);
        }
        match page["cursor"].as_str() {
            Some(cursor) if page["hasMore"] == true => after = format!("&after={cursor}"),
            _ => return Ok(entries),
        }
    }
}

/// One value per line.
fn lines(values: &[Value]) -> Result<(), Failure> {
    for value in values {
        writeln!(io::stdout(), "{value}")?;
    }
    Ok(())
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or("").to_owned()
}

/// A time, to the second.
fn time(value: &Value, name: &str) -> String {
    text(value, name).chars().take(19).collect()
}
