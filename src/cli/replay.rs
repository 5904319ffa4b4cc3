//! `cadre replay`: folds an exported case again.

use std::{path::PathBuf, process::ExitCode};

use clap::Args as ClapArgs;

use super::{failure::Failure, progress};

/// The file is no replay.
const NO_CASE: u8 = 2;

/// Fold an exported session again, and compare the result with what was served
///
/// Make the file with `cadre export replay SESSION -o FILE`. Needs no server. Exit code 0 says that all is equal, 1 that
/// something differs, 2 that the file is no replay, 3 that it cannot be compared.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre export replay SESSION -o case.json && cadre replay case.json
  cadre --json replay case.json | jq .differences")]
pub struct Args {
    /// The exported file
    file: PathBuf,
}

/// Replays.
pub fn run(args: Args, json: bool) -> Result<ExitCode, Failure> {
    let folds = progress::spinner("folding the events again");
    let replayed = cadre::replay::run(&args.file, json, || folds.finish_and_clear());
    folds.finish_and_clear();
    match replayed {
        Ok(code) => Ok(code),
        Err(error) => {
            Failure::from(anyhow::Error::from(error)).report(json);
            Ok(ExitCode::from(NO_CASE))
        }
    }
}
