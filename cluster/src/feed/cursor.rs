//! A position in a feed, as text that sorts like the feed.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::store::{Stamp, Version};

/// Everything up to and including this position has been seen.
///
/// As text it is 32 lower-case hex digits: feed epoch, stamp, position within the commit. Texts compare like
/// positions. The epoch is raised when a cluster is restored from a backup, so that a cursor from before the
/// restore cannot hide events from after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cursor {
    epoch: u32,
    stamp: Stamp,
    position: u16,
}

impl Cursor {
    /// Before the first event of any feed.
    pub const START: Self = Self { epoch: 0, stamp: Stamp::ZERO, position: 0 };
    const TEXT_LEN: usize = 2 * (4 + Stamp::LEN + 2);

    /// The position of one event.
    pub fn new(epoch: u32, stamp: Stamp, position: u16) -> Self {
        Self { epoch, stamp, position }
    }

    /// The position after all that a read at `version` can see.
    pub fn end_of(epoch: u32, version: Version) -> Self {
        Self { epoch, stamp: Stamp::last_of(version), position: u16::MAX }
    }

    /// The feed epoch.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The stamp of the commit.
    pub fn stamp(&self) -> &Stamp {
        &self.stamp
    }

    /// The position within the commit.
    pub fn position(&self) -> u16 {
        self.position
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}{}{:04x}", self.epoch, self.stamp, self.position)
    }
}

/// Why a text is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a cursor is {} lower-case hex digits", Cursor::TEXT_LEN)]
pub struct InvalidCursor;

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let hex = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        if text.len() != Self::TEXT_LEN || !text.as_bytes().iter().all(hex) {
            return Err(InvalidCursor);
        }
        let number = |from: usize, to: usize| u64::from_str_radix(&text[from..to], 16);
        let mut stamp = [0; Stamp::LEN];
        for (index, byte) in stamp.iter_mut().enumerate() {
            let at = 8 + 2 * index;
            *byte = number(at, at + 2).map_err(|_| InvalidCursor)? as u8;
        }
        Ok(Self {
            epoch: number(0, 8).map_err(|_| InvalidCursor)? as u32,
            stamp: Stamp::from(stamp),
            position: number(28, 32).map_err(|_| InvalidCursor)? as u16,
        })
    }
}

impl Serialize for Cursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(epoch: u32, version: u64, order: u16, position: u16) -> Cursor {
        Cursor::new(epoch, Stamp::new(Version(version), order), position)
    }

    #[test]
    fn texts_compare_like_positions() {
        let ordered = [
            Cursor::START,
            cursor(0, 1, 0, 0),
            cursor(0, 1, 0, 1),
            cursor(0, 1, 2, 0),
            cursor(0, 255, 0, 0),
            cursor(0, 256, 0, 0),
            Cursor::end_of(0, Version(256)),
            cursor(0, 257, 0, 0),
            cursor(1, 3, 0, 0),
        ];
        for pair in ordered.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(pair[0].to_string() < pair[1].to_string());
        }
        for cursor in ordered {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
    }

    #[test]
    fn what_is_not_a_cursor_is_refused() {
        for text in
            ["", "0", &"0".repeat(31), &"0".repeat(33), &"G".repeat(32), &"A".repeat(32), &"é".repeat(16)]
        {
            assert_eq!(text.parse::<Cursor>(), Err(InvalidCursor), "{text}");
        }
    }
}
