//! Lists of which there may be very many entries.

use serde::Serialize;

/// The first entries of a list, and how many there are in all.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed<T> {
    /// All.
    pub total: u64,
    /// How many are not told of.
    #[serde(skip_serializing_if = "is_zero")]
    pub omitted: u64,
    /// Those that are.
    pub entries: Vec<T>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { total: 0, omitted: 0, entries: Vec::new() }
    }
}

impl<T> Listed<T> {
    /// How many entries are told of.
    pub const ENTRIES_MAX: usize = 10_000;

    /// Adds an entry. Says where it is, when it is told of.
    pub fn push(&mut self, entry: T) -> Option<usize> {
        self.total += 1;
        if self.entries.len() >= Self::ENTRIES_MAX {
            self.omitted += 1;
            return None;
        }
        self.entries.push(entry);
        Some(self.entries.len() - 1)
    }
}
