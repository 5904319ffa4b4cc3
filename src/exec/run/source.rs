//! What a run is given.

use serde::{Deserialize, Serialize};

use crate::fact::{Part, id::BlobRef};

/// What a run is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// All of it.
    Inline(Vec<Part>),
    /// Where it is.
    Stored(BlobRef),
}

impl Source {
    /// What is carried about in states and messages. Larger inputs are fetched when they are needed.
    pub const INLINE_BYTES_MAX: usize = 16 * 1024;

    /// A text.
    pub fn text(text: &str) -> Self {
        Self::Inline(vec![Part::text(text)])
    }

    /// About how much it takes.
    pub fn size(&self) -> usize {
        match self {
            Self::Inline(parts) => parts.iter().map(part_size).sum(),
            Self::Stored(blob) => blob.as_str().len(),
        }
    }
}

pub(super) fn part_size(part: &Part) -> usize {
    match part {
        Part::Text { text } => text.len() + 8,
        Part::Blob { blob, media_type } => blob.as_str().len() + media_type.len() + 16,
    }
}
