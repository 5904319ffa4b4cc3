//! `cadre replay`: folds an exported case again.

use std::{path::PathBuf, process::ExitCode};

use clap::Args as ClapArgs;

use super::failure::Failure;

/// Fold an exported session again, and compare the result with what was served
///
/// Make the file with `cadre export replay SESSION -o FILE`. Needs no server. Exit code 1 says that something differs, 3
/// that the file cannot be compared.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The exported file
    file: PathBuf,
}

/// Replays.
pub fn run(args: Args, json: bool) -> Result<ExitCode, Failure> {
    cadre::replay::run(&args.file, json).map_err(|error| Failure::from(anyhow::Error::from(error)))
}
