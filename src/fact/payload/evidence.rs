//! Artifacts and evidence, which others own and facts refer to.

use super::{Object, declare::payloads};
use crate::fact::part::Ref;

payloads! {
    /// An artifact was made, changed or seen.
    ArtifactChanged {
        ..
        /// What happened: `created`, `updated`, `deleted`, `observed`.
        change: Option<String>,
        /// How it stands.
        status: Option<String>,
        /// Where it is.
        artifact_ref: Option<Ref>,
        /// What people call it.
        title: Option<String>,
        /// What kind of thing it is.
        kind: Option<String>,
        /// Its media type.
        media_type: Option<String>,
        /// Which version this is.
        version: Option<String>,
        /// How large it is.
        size_bytes: Option<u64>,
        /// The hash of its content.
        hash: Option<String>,
        /// Its beginning.
        preview: Option<String>,
        /// What is different from the version before.
        diff_ref: Option<Ref>,
        /// How many faults validation found.
        issues: Option<u32>,
    }

    /// What a check found.
    VerificationOutcome {
        /// Which check.
        name: String,
        /// `passed`, `failed`, `unknown`, …
        status: String,
        ..
        /// In words.
        detail: Option<String>,
        /// What shows it.
        evidence_ref: Option<Ref>,
    }

    /// Evidence was exported, or seen.
    EvidenceChanged {
        ..
        /// How it stands: `exported`, `failed`, …
        status: Option<String>,
        /// What it is: `evidence`, `replay`, `review`, `trial`.
        kind: Option<String>,
        /// The evidence.
        pack_ref: Option<Ref>,
        /// What replays it.
        replay_ref: Option<Ref>,
        /// What was said of it.
        review_ref: Option<Ref>,
        /// What was done step by step, of a trial.
        trajectory_ref: Option<Ref>,
        /// What checks found.
        verification_outcomes: Vec<VerificationOutcome>,
        /// The hash of the pack.
        hash: Option<String>,
        /// What auditors should know.
        notes: Vec<String>,
        /// What it covers.
        scope: Object,
    }
}
