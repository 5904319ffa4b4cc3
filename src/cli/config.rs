//! `cadre config`: what a node would run with, and whether it could.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use cadre::config::{Config, Invalid, Layers, Problem, misspelt, show};
use clap::{Args as ClapArgs, Subcommand};
use serde_json::json;

/// Where a configuration comes from besides the environment.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Sources {
    /// The configuration file
    #[arg(long, env = "CADRE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Any key of the configuration; wins over environment and file
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl Sources {
    /// Reads it. `flags` are arguments that stand for keys: the argument, the key, the text.
    pub fn load(self, flags: Vec<(&str, &str, String)>) -> anyhow::Result<Result<(Config, Layers), Invalid>> {
        let mut arguments = Vec::new();
        for set in self.set {
            let (key, text) = set.split_once('=').context("--set takes KEY=VALUE")?;
            arguments.push(("--set".to_owned(), key.trim().to_owned(), text.to_owned()));
        }
        let flags = flags.into_iter().map(|(flag, key, text)| (flag.to_owned(), key.to_owned(), text));
        arguments.extend(flags);
        Ok(Config::load(self.config, &arguments))
    }
}

/// Check or show the configuration of a node
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre config check /etc/cadre.toml               everything that is wrong with it; exit code 1
  cadre config show --effective                    all keys, where each value comes from, secrets masked
  cadre config show --config cadre.toml --json     only what somebody has set")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say everything that is wrong with it
    Check {
        /// The configuration file [default: --config]
        file: Option<PathBuf>,
        #[command(flatten)]
        sources: Sources,
    },
    /// Print it, without its secrets
    Show {
        /// All keys, also those that nobody has set
        #[arg(long)]
        effective: bool,
        #[command(flatten)]
        sources: Sources,
    },
}

/// Does so.
pub fn run(args: Args, json: bool) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Check { file, sources } => {
            let sources = Sources { config: file.or(sources.config), ..sources };
            let found = sources.load(Vec::new())?;
            Ok(check(found.err(), json))
        }
        Command::Show { effective, sources } => {
            let (_, layers) = sources.load(Vec::new())??;
            if json {
                println!("{}", show::to_json(&layers, effective));
            } else {
                print!("{}", show::to_toml(&layers, effective));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn check(invalid: Option<Invalid>, json: bool) -> ExitCode {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let warnings: Vec<_> = misspelt(names)
        .into_iter()
        .map(|(name, near)| format!("${name} is no key and is not read; is ${near} meant?"))
        .collect();
    let problems = invalid.map(|invalid| invalid.0).unwrap_or_default();
    if json {
        let as_json = |problem: &Problem| json!({ "key": problem.key, "source": problem.source.to_string(), "message": problem.reason });
        let problems_json: Vec<_> = problems.iter().map(as_json).collect();
        let answer = json!({ "valid": problems.is_empty(), "problems": problems_json, "warnings": warnings });
        println!("{answer}");
    } else {
        warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        problems.iter().for_each(|problem| println!("{problem}"));
        if problems.is_empty() {
            println!("the configuration can be used");
        }
    }
    ExitCode::from(u8::from(!problems.is_empty()))
}
