//! A blob of the session is kept no more: its last records go in the step that tells of it, so it is told exactly once.
//!
//! Sweepers may ask at the same time, and one may ask again that was interrupted. The key of the command, made of the blob
//! and its time, makes the second of them nothing. Keys are forgotten after a day; a request that was on its way for so long
//! that the key of another one may be forgotten is refused.

use std::time::Duration;

use cadre_cluster::clock::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Reply, decide::Step};
use crate::{
    control::Error,
    entity::records,
    fact::{Ids, id::BlobRef, payload::OutputExpired, scope::OutputScope},
};

/// Half of the time for which keys are remembered at least, so that clocks may be far apart.
const SEEN_MAX: Duration = Duration::from_secs(12 * 3600);

/// A blob of a session whose time is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Expiry {
    /// Which.
    pub blob: BlobRef,
    /// Since when.
    pub at: Timestamp,
    /// How large it was.
    pub size_bytes: u64,
    /// SHA-256 of it, in hex.
    pub hash: String,
    /// What of the session it came from.
    pub about: Ids,
    /// When it was seen to be still there.
    pub seen: Timestamp,
}

impl Step<'_> {
    pub(super) fn expire(&mut self, expiry: Expiry) -> Result<Reply, Error> {
        let Expiry { blob, at, size_bytes, hash, about, seen } = expiry;
        if self.draft.now > seen.after(SEEN_MAX) {
            let message = format!("the blob {blob} was seen too long ago: look again whether it is there");
            return Err(Error::conflict("stale", message));
        }
        self.draft.clear_record(records::blob(&blob));
        self.draft.clear_record(records::blob_expiry(at, &blob));
        let expired = OutputExpired {
            size_bytes: Some(size_bytes),
            hash: Some(format!("sha256:{hash}")),
            reason: Some("retention".into()),
        };
        self.draft.tell_within(&about, OutputScope { output: blob }, expired);
        Ok(Reply::Done)
    }
}
