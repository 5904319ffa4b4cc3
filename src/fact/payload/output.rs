//! Output too large to be in a fact.

use super::declare::payloads;
use crate::fact::time::Time;

payloads! {
    /// Output was put into a blob; `outputRef` says which.
    OutputSpilled {
        /// How large it is.
        size_bytes: u64,
        /// What it is.
        media_type: String,
        /// `sha256:` and the hash of its content.
        hash: String,
        ..
        /// Its beginning.
        preview: Option<String>,
        /// Until when it is kept.
        expires_at: Option<Time>,
        /// What it came from: `tool`, `process`, `model`, `input`.
        source: Option<String>,
    }

    /// A part of the output was not kept.
    OutputTruncated {
        /// How large it was, when that is known.
        size_bytes: Option<u64>,
        /// How much was kept.
        kept_bytes: u64,
        ..
        /// Why.
        reason: Option<String>,
        /// What it came from.
        source: Option<String>,
    }

    /// A part of the output was made unreadable.
    OutputRedacted {
        /// Why: `secret`, `request`, `policy`.
        reason: String,
        ..
        /// How many places.
        redactions: Option<u32>,
        /// Which rules found them.
        rules: Vec<String>,
        /// By whom.
        by: Option<String>,
    }

    /// Output is kept no more.
    OutputExpired {
        ..
        /// How large it was.
        size_bytes: Option<u64>,
        /// The hash of its content.
        hash: Option<String>,
        /// Why.
        reason: Option<String>,
    }
}
