//! The bounds in which things run.

use super::{Object, declare::payloads};

payloads! {
    /// Something runs within these bounds.
    SandboxApplied {
        /// Which set of bounds.
        profile: String,
        ..
        /// The tool or process.
        subject: Option<String>,
        /// What may be read.
        readable: Vec<String>,
        /// What may be written.
        writable: Vec<String>,
        /// Which network it has: `none`, `allowlist`, `full`.
        network: Option<String>,
        /// What keeps it within: `container`, `landlock`, …
        enforced_by: Option<String>,
        /// Bounds on memory, time and so on.
        limits: Object,
    }

    /// Something tried to leave its bounds.
    SandboxViolation {
        /// What it tried: `read`, `write`, `network`, `exec`, …
        operation: String,
        ..
        /// On what.
        target: Option<String>,
        /// The tool or process.
        subject: Option<String>,
        /// Its bounds.
        profile: Option<String>,
        /// Whether it was kept from it.
        blocked: bool,
        /// In words.
        detail: Option<String>,
    }
}
