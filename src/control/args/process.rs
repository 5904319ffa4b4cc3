//! Processes that run.

use serde_json::{Value, json};

use super::declare::arguments;
use crate::{
    control::{check, command::Arguments, error::Error},
    fact::id::ProcessId,
};

arguments! {
    /// Writes to the standard input of a running process. It answers when the process has been given it, which does not
    /// mean that it has read it.
    WriteProcessStdin {
        /// The process.
        process_id: ProcessId,
        ..
        /// What to write, at most 64 KiB. It is recorded unless the process asked for a secret.
        input: String,
        /// Whether that was all: its input is closed afterwards.
        eof: bool,
    }

    /// Ends a process: it is asked to, and killed when it does not.
    TerminateProcess {
        /// The process.
        process_id: ProcessId,
        ..
        /// Why, at most 2 KiB.
        reason: Option<String>,
    }
}

impl Arguments for WriteProcessStdin {
    fn check(&self) -> Result<(), Error> {
        if self.input.is_empty() && !self.eof {
            return Err(Error::invalid("input", "must not be empty unless eof is true"));
        }
        match self.input.len() {
            len if len > check::STDIN_BYTES_MAX => {
                let error = Error::too_large(check::STDIN_BYTES_MAX as u64, len as u64);
                Err(error.with("field", "input"))
            }
            _ => Ok(()),
        }
    }

    fn example() -> Value {
        json!({ "processId": "proc_1", "input": "yes\n" })
    }
}

impl Arguments for TerminateProcess {
    fn check(&self) -> Result<(), Error> {
        check::reason(&self.reason)
    }

    fn example() -> Value {
        json!({ "processId": "proc_1", "reason": "it hangs" })
    }
}
