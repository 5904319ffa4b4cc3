//! `cadre export`: takes something out of a session.

use std::{
    fs::File,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::{Args as ClapArgs, ValueEnum};
use serde_json::json;

use super::{client::Client, failure::Failure, progress};

/// Export evidence, a replay or a review of a session
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre export replay SESSION -o session.replay.json
  cadre export review SESSION --turn TURN | less")]
pub struct Args {
    /// What
    kind: Kind,
    /// Of which session
    session: String,
    /// Only this turn
    #[arg(long, value_name = "ID")]
    turn: Option<String>,
    /// Only this task
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// Where to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Do not wait for the server to make it longer than this
    #[arg(long, value_name = "N")]
    deadline_ms: Option<u64>,
}

/// What can be exported.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// What shows how a result came about
    Evidence,
    /// What replays it
    Replay,
    /// What a reviewer reads
    Review,
}

/// Exports.
pub fn run(client: &Client, args: Args) -> Result<ExitCode, Failure> {
    let name = match args.kind {
        Kind::Evidence => "export_evidence",
        Kind::Replay => "export_replay",
        Kind::Review => "export_review",
    };
    let mut arguments = json!({ "sessionId": args.session });
    if let Some(turn) = args.turn {
        arguments["turnId"] = turn.into();
    }
    if let Some(task) = args.task {
        arguments["taskId"] = task.into();
    }
    let deadline = args.deadline_ms.map(|ms| ("x-deadline-ms", ms.to_string()));
    let packs = progress::spinner("the server makes it");
    let answer = client.call_with(name, &arguments, deadline.as_slice());
    packs.finish_and_clear();
    let answer = answer?;
    let result = &answer["result"];
    let reference = result["ref"].as_str().context("the answer names nothing to fetch")?;
    let content = client.bytes(&format!("/v1/blobs/{reference}"))?;
    let bar = match args.output.is_none() && io::stdout().is_terminal() {
        // Whoever looks on sees the thing itself.
        true => indicatif::ProgressBar::hidden(),
        false => progress::bytes(result["sizeBytes"].as_u64()),
    };
    let mut content = bar.wrap_read(content);
    let Some(file) = args.output else {
        let mut out = io::stdout().lock();
        io::copy(&mut content, &mut out)?;
        bar.finish_and_clear();
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    let written = write(&mut content, &file);
    bar.finish_and_clear();
    let written = written.with_context(|| format!("cannot write {}", file.display()))?;
    if client.json {
        writeln!(io::stdout(), "{answer}")?;
    } else {
        writeln!(io::stdout(), "{} {written} bytes", file.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whole or not at all: a file of that name is never half an export.
fn write(content: &mut impl io::Read, file: &Path) -> io::Result<u64> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let copied = File::create(&part).and_then(|mut out| {
        let copied = io::copy(content, &mut out)?;
        out.sync_all()?;
        Ok(copied)
    });
    let moved = copied.and_then(|copied| std::fs::rename(&part, file).map(|()| copied));
    if moved.is_err() {
        // What went wrong is said; that the rest of it cannot be removed either helps nobody.
        let _ = std::fs::remove_file(&part);
    }
    moved
}
