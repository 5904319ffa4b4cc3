//! Turns: one cycle of submitted input each.

use super::{Object, Usage, declare::payloads};
use crate::fact::{
    failure::Failure,
    part::{OutputRef, Part, Ref},
    status::TurnStatus,
    words::words,
};

words! {
    /// What a submit does to a thread that is busy.
    WhenBusy { Queue = "queue", Reject = "reject", Interrupt = "interrupt", Steer = "steer" }
}

payloads! {
    /// A turn was submitted.
    TurnSubmitted {
        /// Accepted or queued.
        status: TurnStatus,
        /// Where it came from: `api`, `channel`, `task`, `subagent`, `job`, …
        source: String,
        ..
        /// What was asked.
        input: Vec<Part>,
        /// What was asked, when it is kept elsewhere.
        input_ref: Option<Ref>,
        /// Who should answer.
        agent: Option<String>,
        /// The model that was asked for.
        model: Option<String>,
        /// Its place in the queue; 1 runs next.
        queue_position: Option<u32>,
        /// What was to happen if the thread was busy.
        when_busy: Option<WhenBusy>,
        /// How long it may take.
        deadline_ms: Option<u64>,
        /// How urgent it is.
        priority: Option<String>,
        /// The caller's own.
        metadata: Object,
    }

    /// A turn began to run.
    TurnStarted {
        /// Who answers.
        agent: String,
        /// Which attempt, from 1.
        attempt: u32,
        ..
        /// Where the turn came from.
        source: Option<String>,
        /// The model that is used.
        model: Option<String>,
    }

    /// A turn reached its end.
    TurnCompleted {
        /// Completed.
        status: TurnStatus,
        /// How many steps it took.
        steps: u32,
        ..
        /// What its models used.
        usage: Option<Usage>,
        /// The answer in short.
        summary: Option<String>,
        /// What it produced.
        output_refs: Vec<OutputRef>,
        /// How long it ran.
        duration_ms: Option<u64>,
    }

    /// A turn ended in another way: failed, cancelled, timed out or lost.
    TurnFailed {
        /// In which way.
        status: TurnStatus,
        /// What happened.
        error: Failure,
        ..
        /// Why, in the words of who ended it.
        reason: Option<String>,
        /// Who ended it.
        by: Option<String>,
        /// How many steps it took.
        steps: Option<u32>,
        /// What its models used.
        usage: Option<Usage>,
    }
}
