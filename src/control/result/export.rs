//! What was taken out.

use super::declare::results;
use crate::fact::{
    Ref,
    id::{EvidenceId, SessionId, TrialId},
};

results! {
    /// A pack that was exported. Its bytes are at `GET /v1/blobs/{ref}`.
    Exported {
        /// Where it is.
        #[serde(rename = "ref")]
        reference: Ref,
        /// What it is: `evidence`, `replay`, `review`, `trial`.
        kind: String,
        ..
        /// The evidence, as facts name it.
        evidence_id: Option<EvidenceId>,
        /// The session that it is about.
        session_id: Option<SessionId>,
        /// The trial that it is about.
        trial_id: Option<TrialId>,
        /// Its media type.
        media_type: Option<String>,
        /// How large it is.
        size_bytes: Option<u64>,
        /// The hash of its bytes.
        hash: Option<String>,
        /// What could not be found for it.
        missing: Vec<String>,
    }
}
