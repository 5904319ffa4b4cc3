//! Where older turns are.

use std::{fmt, str::FromStr};

use crate::view::{declare::views, thread::ThreadView};

use super::parts::ThreadTurns;

views! {
    /// Where the turns before those that are told of are.
    #[derive(Default)]
    HistoryCursor {
        /// Whether there are any.
        has_more: bool,
        ..
        /// What to ask with for those before. Opaque.
        before: Option<String>,
    }
}

/// A position in the turns of a session: for each thread, in the order in which threads began, the number of a turn.
/// Threads never change places, so a position stays true when threads and turns are added. What lies before it is, in
/// each thread, the turns with lower numbers; a thread that began after it has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HistoryPosition(Vec<u64>);

/// Why a text is not a position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a position in the history is numbers with dots between them, at most {max}", max = HistoryPosition::THREADS_MAX)]
pub struct InvalidPosition;

impl HistoryPosition {
    const THREADS_MAX: usize = crate::view::SessionView::THREADS_MAX;

    /// The position before the turns that are told of.
    pub fn before(threads: &[ThreadView], turns: &[ThreadTurns]) -> Self {
        let number = |thread: &ThreadView| {
            let told = turns.iter().find(|turns| turns.thread_id == thread.thread_id);
            let first = told.and_then(|turns| turns.turns.first()).and_then(|turn| turn.number);
            first.unwrap_or(thread.turn_count + 1)
        };
        Self(threads.iter().map(number).collect())
    }

    /// In the thread at this place: only turns with lower numbers lie before.
    pub fn of(&self, place: usize) -> u64 {
        self.0.get(place).copied().unwrap_or(1)
    }
}

impl fmt::Display for HistoryPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, number) in self.0.iter().enumerate() {
            write!(f, "{}{number}", if place == 0 { "" } else { "." })?;
        }
        Ok(())
    }
}

impl FromStr for HistoryPosition {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let number = |part: &str| digits(part).then(|| part.parse().ok()).flatten().ok_or(InvalidPosition);
        let numbers: Vec<u64> = text.split('.').map(number).collect::<Result<_, _>>()?;
        if numbers.len() > Self::THREADS_MAX { Err(InvalidPosition) } else { Ok(Self(numbers)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_back_and_nothing_else_is() {
        let position = HistoryPosition(vec![12, 1, 3]);
        assert_eq!(position.to_string(), "12.1.3");
        assert_eq!("12.1.3".parse(), Ok(position.clone()));
        assert_eq!((position.of(0), position.of(3)), (12, 1));
        for text in ["", ".", "1.", "-1", "1.x", "+1", &vec!["1"; 33].join("."), "99999999999999999999"] {
            assert_eq!(text.parse::<HistoryPosition>(), Err(InvalidPosition), "{text}");
        }
    }
}
