//! Output too large to be in facts.

use super::count;
use crate::{
    fact::{Fact, id::BlobRef, payload::Payload},
    view::{bound::push_last, declare::views},
};

views! {
    /// What became of large output.
    #[derive(Default)]
    Outputs {
        ..
        /// How often output was put into a blob.
        spilled: u32,
        /// How much that was.
        spilled_bytes: u64,
        /// How often a part was not kept.
        truncated: u32,
        /// How often a part was made unreadable.
        redacted: u32,
        /// How many blobs are kept no more.
        expired: u32,
        /// The last blobs.
        recent_refs: Vec<BlobRef>,
    }
}

impl Outputs {
    /// How many blobs are told of.
    pub const RECENT_MAX: usize = 6;

    pub(super) fn apply(&mut self, fact: &Fact) {
        match &fact.payload {
            Payload::OutputSpilled(spilled) => {
                count(&mut self.spilled);
                self.spilled_bytes = self.spilled_bytes.saturating_add(spilled.size_bytes);
                if let Some(blob) = fact.ids.output() {
                    self.forget(blob);
                    push_last(&mut self.recent_refs, blob.clone(), Self::RECENT_MAX);
                }
            }
            Payload::OutputTruncated(_) => count(&mut self.truncated),
            Payload::OutputRedacted(_) => count(&mut self.redacted),
            Payload::OutputExpired(_) => {
                count(&mut self.expired);
                if let Some(blob) = fact.ids.output() {
                    self.forget(blob);
                }
            }
            _ => {}
        }
    }

    fn forget(&mut self, blob: &BlobRef) {
        self.recent_refs.retain(|kept| kept != blob);
    }
}
