//! Replays: the events of an exported case, folded again and compared with what was served.
//!
//! What a runtime serves is a fold of its facts, or so it promises (P5). A case holds both: [`fold`] folds the events
//! with the same read models and says where the result is not what was served, field by field. It is pure, so that a
//! case from production can be looked at on any machine.

mod case;
mod diff;
mod fold;
mod report;

use std::{path::Path, process::ExitCode};

pub use self::{
    case::{BYTES_MAX, Error, ReplayCase},
    diff::{Difference, Differences},
    fold::fold,
    report::{Report, Verdict},
};

/// Replays the case in a file and prints what came of it, for people or as JSON. The exit code is 0 when all is equal,
/// 1 when something differs and 3 when the case cannot be compared. A file that is no case is an error. `folded` is told
/// before anything is printed.
pub fn run(path: &Path, json: bool, folded: impl FnOnce()) -> Result<ExitCode, Error> {
    let report = fold(&ReplayCase::read(path)?);
    folded();
    if json {
        let text = serde_json::to_string(&report).expect("reports serialize into memory without fail");
        println!("{text}");
    } else {
        print!("{report}");
    }
    Ok(report.verdict.exit_code())
}
