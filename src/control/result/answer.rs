//! The answer to a command.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fact::Cursor;

/// What a command answers with: its result, and the place of the last fact that it wrote. A reader that goes on after
/// that place sees everything that the command caused later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer<R = Value> {
    /// The result.
    pub result: R,
    /// The last fact that was written. Reads write none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

impl<R> Answer<R> {
    /// The answer of a read.
    pub fn read(result: R) -> Self {
        Self { result, cursor: None }
    }

    /// The answer of a command whose last fact is at `cursor`.
    pub fn written(result: R, cursor: Cursor) -> Self {
        Self { result, cursor: Some(cursor) }
    }
}

impl<R: Serialize> Answer<R> {
    /// The same answer, for surfaces that do not look into it.
    ///
    /// # Panics
    /// When the result is not JSON, which is a bug in its type.
    pub fn into_json(self) -> Answer {
        let result = serde_json::to_value(self.result).expect("results serialize into memory without fail");
        Answer { result, cursor: self.cursor }
    }
}
