//! `cadre tail`: follows what happens in a session.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

use cadre_cluster::feed::{Cursor, InvalidCursor};
use clap::Args as ClapArgs;
use serde_json::Value;

use super::{
    client::{Client, START},
    failure::Failure,
    follow::{Follow, Next},
    line,
    table::at_least_one,
};

/// So long without an event, and nothing open, is idle: a commit that is on its way takes less.
const IDLE: Duration = Duration::from_secs(1);

/// The families of events that say what begins and what ends.
const BEGIN_AND_END: &str = "turn.*,task.*,subagent.*,job.*";

/// Follow what happens in a session
///
/// From its beginning, unless --after or --from-now say otherwise. When the connection breaks it says so on standard
/// error and goes on after the last event, without a hole and without saying anything twice.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre tail SESSION
  cadre tail SESSION --types 'turn.*,tool.*' --from-now
  cadre --json tail SESSION --until-idle > events.jsonl")]
pub struct Args {
    /// The session
    session: String,
    /// Go on after this position, as `cursor` of an event gave it
    #[arg(long, value_name = "CURSOR", conflicts_with = "from_now", value_parser = cursor)]
    after: Option<String>,
    /// Only what is new
    #[arg(long)]
    from_now: bool,
    /// Only these classes of events
    #[arg(long, value_name = "CLASS,FAMILY.*")]
    types: Option<String>,
    /// Only of this turn
    #[arg(long, value_name = "ID")]
    turn: Option<String>,
    /// Stop once everything that was begun has ended
    #[arg(long)]
    until_idle: bool,
    /// Stop after so many events
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    limit: Option<usize>,
}

/// A position as it is given out. The stream would be asked for it by another name than the user's.
fn cursor(text: &str) -> Result<String, InvalidCursor> {
    text.parse::<Cursor>().map(|cursor| cursor.to_string())
}

/// Follows.
pub fn run(client: &Client, args: Args) -> Result<ExitCode, Failure> {
    // What begins and what ends is seen also by who wants to read only one of the two.
    let asked =
        args.types.as_deref().filter(|_| args.until_idle).map(|types| format!("{types},{BEGIN_AND_END}"));
    let mut filter = Vec::new();
    filter.extend(asked.as_deref().or(args.types.as_deref()).map(|types| ("types", types)));
    filter.extend(args.turn.as_deref().map(|turn| ("turnId", turn)));
    let after = if args.from_now { None } else { Some(args.after.as_deref().unwrap_or(START)) };
    let mut follow = Follow::open(client, &args.session, &filter, after)?;
    let (mut open, mut shown) = (Open::default(), 0);
    while args.limit.is_none_or(|limit| shown < limit) {
        match follow.next(IDLE)? {
            Next::Event(event) => {
                open.apply(&event);
                if !is_wanted(args.types.as_deref(), &event) {
                    continue;
                }
                shown += 1;
                let mut out = io::stdout().lock();
                if client.json { writeln!(out, "{event}")? } else { writeln!(out, "{}", line::of(&event))? }
            }
            Next::Gap(gap) => eprintln!("cadre: what was before {} is no longer kept", gap["to"]),
            Next::Quiet if args.until_idle && open.is_empty() => break,
            Next::Quiet | Next::Snapshot => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether an event is of the classes that were asked for.
fn is_wanted(types: Option<&str>, event: &Value) -> bool {
    let class = event["type"].as_str().unwrap_or("");
    types.is_none_or(|types| {
        types.split(',').any(|pattern| match pattern.trim().strip_suffix('*') {
            Some(start) => class.starts_with(start),
            None => class == pattern.trim(),
        })
    })
}

/// What was begun and has not ended.
#[derive(Default)]
struct Open(BTreeSet<String>);

impl Open {
    fn apply(&mut self, event: &Value) {
        let class = event["type"].as_str().unwrap_or("");
        let (family, what) = class.split_once('.').unwrap_or((class, ""));
        let id = match family {
            "turn" => &event["turnId"],
            "task" => &event["taskId"],
            "subagent" => &event["subagentId"],
            "job" if !what.starts_with("item") => &event["jobId"],
            _ => return,
        };
        let Some(id) = id.as_str() else { return };
        // A draft runs only when somebody says so.
        let is_draft = event["payload"]["status"] == "draft";
        match what {
            "submitted" | "started" | "created" | "accepted" | "queued" | "spawned" | "resumed"
                if !is_draft =>
            {
                self.0.insert(id.to_owned());
            }
            "completed" | "failed" | "closed" | "cancelled" | "timed_out" | "lost" | "archived" => {
                self.0.remove(id);
            }
            _ => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
