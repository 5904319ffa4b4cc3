//! What came of a replay.

use std::{collections::BTreeMap, fmt, process::ExitCode};

use serde::Serialize;

use super::Differences;
use crate::{
    export::{KnownGap, Span},
    fact::id::SessionId,
};

/// How many differences people are shown.
const SHOWN_MAX: usize = 20;

/// Whether the fold is what was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is.
    Equal,
    /// It is not.
    Different,
    /// It cannot be said: a part of the history is missing, or nothing was recorded that the case tells as a whole.
    Incomparable,
}

impl Verdict {
    /// What a process ends with.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Equal => ExitCode::SUCCESS,
            Self::Different => ExitCode::from(1),
            Self::Incomparable => ExitCode::from(3),
        }
    }
}

/// What came of a replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The session.
    pub session_id: SessionId,
    /// Whether the fold is what was served.
    pub verdict: Verdict,
    /// From when to when, and how many events.
    pub span: Span,
    /// How many events are not in the order of the feed.
    pub out_of_order: u64,
    /// How many turns the session's threads had.
    pub turns: usize,
    /// How many tasks.
    pub tasks: usize,
    /// How many subagents.
    pub subagents: usize,
    /// How many jobs.
    pub jobs: usize,
    /// How many items of jobs that ever began.
    pub items: usize,
    /// How many events are of streams that this version does not fold.
    pub unknown: u64,
    /// How many views were not recorded and so not compared, by kind.
    pub omitted: BTreeMap<String, u64>,
    /// What is missing.
    pub gaps: Vec<KnownGap>,
    /// What differs.
    pub differences: Differences,
}

impl Report {
    /// Whether a part of the history is no longer kept.
    fn is_trimmed(&self) -> bool {
        self.gaps.iter().any(|gap| gap.what == "history")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { span, differences, .. } = self;
        let seconds = span.duration_ms() as f64 / 1_000.0;
        writeln!(f, "session {}: {} events over {seconds:.3} s", self.session_id, span.events)?;
        let Self { turns, tasks, subagents, jobs, items, .. } = self;
        writeln!(f, "{turns} turns, {tasks} tasks, {subagents} subagents, {jobs} jobs, {items} items")?;
        for (kind, omitted) in self.omitted.iter().filter(|(_, omitted)| **omitted > 0) {
            writeln!(f, "not compared: {omitted} {kind} that were not recorded")?;
        }
        for gap in &self.gaps {
            writeln!(f, "{}: {} ({})", gap.what, gap.state, gap.reason)?;
        }
        if self.unknown > 0 {
            writeln!(f, "{} events are of streams that this version does not fold", self.unknown)?;
        }
        if self.out_of_order > 0 {
            writeln!(f, "{} events are out of order, twice there, or past the end", self.out_of_order)?;
        }
        match self.verdict {
            Verdict::Equal => return writeln!(f, "equal: {} fields compared", differences.compared),
            Verdict::Incomparable if differences.compared == 0 && !self.is_trimmed() => {
                return writeln!(
                    f,
                    "cannot be compared: nothing was recorded that these events tell as a whole"
                );
            }
            Verdict::Incomparable => {
                return writeln!(f, "cannot be compared: a part of the history is no longer kept");
            }
            Verdict::Different => {
                writeln!(f, "different: {} of {} fields", differences.total, differences.compared)?;
            }
        }
        for difference in differences.listed.iter().take(SHOWN_MAX) {
            writeln!(f, "  {}", difference.path)?;
            for (word, value) in [("served", &difference.expected), ("folded", &difference.got)] {
                match value {
                    Some(value) => writeln!(f, "    {word} {value}")?,
                    None => writeln!(f, "    {word} nothing")?,
                }
            }
        }
        let more = differences.total.saturating_sub(SHOWN_MAX as u64);
        if more > 0 { writeln!(f, "  and {more} more") } else { Ok(()) }
    }
}
