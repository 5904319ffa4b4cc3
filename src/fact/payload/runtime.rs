//! The runtime itself: limits, snapshots, warnings and errors.

use cadre_cluster::feed::Cursor;

use super::{
    Object,
    declare::{CursorText, payloads},
};
use crate::fact::{failure::Failure, time::Time};

payloads! {
    /// A limit was set, neared, reached or left.
    LimitChanged {
        /// Which: `cost`, `tokens`, `turns`, `depth`, …
        limit: String,
        /// How it stands: `ok`, `near`, `reached`, …
        state: String,
        ..
        /// How much is used.
        used: Option<f64>,
        /// How much there is.
        max: Option<f64>,
        /// Of what.
        unit: Option<String>,
        /// When it is counted anew.
        resets_at: Option<Time>,
        /// Why.
        reason: Option<String>,
    }

    /// A snapshot or read model is newer.
    SnapshotUpdated {
        /// Which.
        snapshot: String,
        ..
        /// Up to where it is true.
        #[schemars(with = "Option<CursorText>")]
        upto: Option<Cursor>,
        /// Its version.
        version: Option<u64>,
    }

    /// A reader had to be given a snapshot because a part of the feed is gone.
    SnapshotRepaired {
        /// Why: `trimmed`, `restored`, …
        reason: String,
        ..
        /// Where the gap begins.
        #[schemars(with = "Option<CursorText>")]
        from: Option<Cursor>,
        /// Where it ends.
        #[schemars(with = "Option<CursorText>")]
        to: Option<Cursor>,
        /// Which snapshot stands for it.
        snapshot: Option<String>,
    }

    /// Something that people should know and that stops nothing.
    RuntimeWarning {
        /// One word that programs act on.
        code: String,
        /// What people read.
        message: String,
        ..
        /// What it is about.
        details: Object,
    }

    /// Something that stops work.
    RuntimeError {
        /// What happened.
        error: Failure,
        ..
        /// Under which name the log has it.
        incident: Option<String>,
        /// What it is about.
        details: Object,
    }
}
