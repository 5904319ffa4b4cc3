//! Commands, terminals and long-lived processes.

use super::{Object, declare::payloads};
use crate::fact::{failure::Failure, part::OutputRef, status::ProcessStatus, words::words};

words! {
    /// Where output goes.
    OutputStream { Stdout = "stdout", Stderr = "stderr", Terminal = "terminal" }
}

payloads! {
    /// A process began.
    ProcessStarted {
        /// What was run, word by word.
        command: Vec<String>,
        ..
        /// Where.
        cwd: Option<String>,
        /// Its bounds.
        sandbox: Option<String>,
        /// Which network it has.
        network: Option<String>,
        /// Whether it has a terminal.
        terminal: bool,
        /// Whether it outlives its turn.
        background: bool,
        /// How long it may take.
        timeout_ms: Option<u64>,
        /// The names, not the values, of what it finds in its environment.
        env: Vec<String>,
        /// Bounds on memory, output and so on.
        limits: Object,
    }

    /// A process said something.
    ProcessOutput {
        /// Where.
        stream: OutputStream,
        ..
        /// What; bytes that are not text are replaced.
        text: Option<String>,
        /// Where it begins in all of its output, in bytes.
        offset: Option<u64>,
        /// How much it is.
        size_bytes: Option<u64>,
        /// Where it is kept, when it is large.
        output: Option<OutputRef>,
    }

    /// A process was told something.
    ProcessInput {
        /// How much.
        size_bytes: u64,
        ..
        /// What, unless it is secret.
        text: Option<String>,
        /// Whether that was all.
        eof: bool,
        /// By whom.
        by: Option<String>,
    }

    /// A process ended with success.
    ProcessCompleted {
        /// Completed.
        status: ProcessStatus,
        /// What it returned.
        exit_code: i32,
        ..
        /// How much it said.
        output_bytes: Option<u64>,
        /// What it said.
        output: Option<OutputRef>,
        /// How long it ran.
        duration_ms: Option<u64>,
    }

    /// A process ended without success, never began, or is lost.
    ProcessFailed {
        /// Which of these.
        status: ProcessStatus,
        /// What happened.
        error: Failure,
        ..
        /// What it returned.
        exit_code: Option<i32>,
        /// The signal that ended it.
        signal: Option<String>,
        /// What it said last.
        preview: Option<String>,
        /// What it said.
        output: Option<OutputRef>,
        /// How long it ran.
        duration_ms: Option<u64>,
    }

    /// A process was ended.
    ProcessTerminated {
        /// Terminated.
        status: ProcessStatus,
        ..
        /// Why.
        reason: Option<String>,
        /// By whom.
        by: Option<String>,
        /// The signal that ended it.
        signal: Option<String>,
        /// How long it ran.
        duration_ms: Option<u64>,
    }
}
