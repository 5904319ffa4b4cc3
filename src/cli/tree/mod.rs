//! `cadre tree`: turns, tasks, subagents and jobs of a session, and how they stand.

mod draw;
mod fold;

use std::{
    io::{self, IsTerminal, Write},
    process::ExitCode,
    time::Duration,
};

use clap::Args as ClapArgs;

use self::fold::Tree;
use super::{
    client::Client,
    failure::Failure,
    follow::{Follow, Next},
    progress,
};

/// What the tree is made of.
const TYPES: &str = "turn.*,task.*,subagent.*,job.*,tool.result";
/// A tree that changes is drawn when it has been quiet for this long, or so often.
const REDRAW_EVERY: Duration = Duration::from_millis(250);
/// While thousands of events arrive, it is drawn once for so many.
const EVENTS_PER_DRAWING: usize = 2_000;

/// Show the turns, tasks, subagents and jobs of a session, and how they stand
///
/// What started something stands above it. More than twelve of a kind are counted by status instead of listed.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  cadre tree SESSION
  cadre tree SESSION --watch                       until Ctrl-C
  cadre --json tree SESSION | jq .counts")]
pub struct Args {
    /// The session
    session: String,
    /// Draw it again whenever it changes
    #[arg(long)]
    watch: bool,
}

/// Shows.
pub fn run(client: &Client, args: Args) -> Result<ExitCode, Failure> {
    let mut tree = Tree::default();
    let reads = progress::count("events");
    let after = client.events(&args.session, TYPES, |event| {
        tree.apply(event);
        reads.inc(1);
    });
    reads.finish_and_clear();
    let after = after?;
    show(client, &args.session, &tree, false)?;
    if !args.watch {
        return Ok(ExitCode::SUCCESS);
    }
    let mut follow = Follow::open(client, &args.session, &[("types", TYPES)], Some(&after))?;
    let mut changes = 0;
    loop {
        match follow.next(REDRAW_EVERY)? {
            Next::Event(event) => {
                tree.apply(&event);
                changes += 1;
            }
            Next::Quiet if changes > 0 => changes = EVENTS_PER_DRAWING,
            Next::Gap(gap) => eprintln!("cadre: what was before {} is no longer kept", gap["to"]),
            Next::Quiet | Next::Snapshot => {}
        }
        if changes >= EVENTS_PER_DRAWING {
            show(client, &args.session, &tree, true)?;
            changes = 0;
        }
    }
}

fn show(client: &Client, session: &str, tree: &Tree, again: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if client.json {
        return writeln!(out, "{}", draw::json(session, tree));
    }
    if out.is_terminal() && again {
        // Clear the screen and start at its top.
        write!(out, "\x1b[2J\x1b[H")?;
    } else if again {
        writeln!(out)?;
    }
    write!(out, "{}", draw::text(session, tree))?;
    out.flush()
}
