//! Where in a run's events somebody stands.
//!
//! One fact may make several events. The last of them has the cursor of the fact, which means everything up to it; those
//! before it say which of the fact's they are: `CURSOR.0`, `CURSOR.1`, …

use std::{fmt, str::FromStr};

use crate::fact::Cursor;

/// Everything up to and including this event has been seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    cursor: Cursor,
    index: u32,
}

/// Why a text is not a position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be the id of an event of this run, as it came")]
pub struct InvalidPosition;

impl Position {
    /// Of an event of the fact at `cursor`: which of how many.
    pub fn of(cursor: Cursor, index: usize, count: usize) -> Self {
        let is_last = index + 1 >= count;
        Self { cursor, index: if is_last { u32::MAX } else { u32::try_from(index).unwrap_or(u32::MAX) } }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            u32::MAX => write!(f, "{}", self.cursor),
            index => write!(f, "{}.{index}", self.cursor),
        }
    }
}

impl FromStr for Position {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let (cursor, index) = match text.split_once('.') {
            None => (text, u32::MAX),
            Some((cursor, index)) => {
                let digits =
                    (1..=9).contains(&index.len()) && index.bytes().all(|byte| byte.is_ascii_digit());
                (cursor, digits.then(|| index.parse().ok()).flatten().ok_or(InvalidPosition)?)
            }
        };
        Ok(Self { cursor: cursor.parse().map_err(|_| InvalidPosition)?, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_event_of_a_fact_stands_for_all_of_it() {
        let cursor = Cursor::START;
        let positions: Vec<_> = (0..3).map(|index| Position::of(cursor, index, 3)).collect();
        assert!(positions.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(positions[2].to_string(), cursor.to_string());
        assert_eq!(positions[0].to_string(), format!("{cursor}.0"));
        for position in positions {
            assert_eq!(position.to_string().parse(), Ok(position));
        }
    }

    #[test]
    fn what_is_no_position_is_refused() {
        let cursor = Cursor::START;
        for text in ["", ".", "x", &format!("{cursor}."), &format!("{cursor}.-1"), &format!("{cursor}.1.2")] {
            assert_eq!(text.parse::<Position>(), Err(InvalidPosition), "{text}");
        }
        assert!(format!("{cursor}.9999999999").parse::<Position>().is_err());
    }
}
