//! Ranges of bytes, as a header asks for them.

use std::ops::Range;

/// What part of something is wanted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it: nothing else was asked for, or nothing that this server does.
    Whole,
    /// These bytes.
    Of(Range<u64>),
    /// Nothing of it is within the range.
    None,
}

/// The part of `size` bytes that a `Range` header asks for. Several ranges at once and other units than bytes are
/// answered with the whole, as the standard allows.
pub(super) fn part(header: Option<&str>, size: u64) -> Part {
    let Some((unit, spec)) = header.and_then(|header| header.split_once('=')) else { return Part::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Part::Whole;
    }
    let Some((first, last)) = spec.trim().split_once('-') else { return Part::Whole };
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => first..last.saturating_add(1).min(size),
        (Some(first), None) if last.is_empty() => first..size,
        (None, Some(last)) if first.is_empty() => size.saturating_sub(last)..size,
        _ => return Part::Whole,
    };
    if range.start < range.end { Part::Of(range) } else { Part::None }
}

fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // More digits than a number has is still a number, only a large one.
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_ranges_are_served() {
        for (header, range) in [
            ("bytes=0-0", 0..1),
            ("bytes=2-4", 2..5),
            ("bytes=2-", 2..10),
            ("bytes=-3", 7..10),
            ("bytes=-30", 0..10),
            ("Bytes=5-99999999999999999999999", 5..10),
        ] {
            assert_eq!(part(Some(header), 10), Part::Of(range), "{header}");
        }
    }

    #[test]
    fn what_lies_outside_is_nothing() {
        for header in ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=99999999999999999999-"] {
            assert_eq!(part(Some(header), 10), Part::None, "{header}");
        }
        assert_eq!(part(Some("bytes=0-"), 0), Part::None);
    }

    #[test]
    fn what_is_not_understood_is_the_whole() {
        for header in
            ["", "bytes", "bytes=", "bytes=-", "lines=0-1", "bytes=0-1,3-4", "bytes=4-2", "bytes=a-b"]
        {
            assert_eq!(part(Some(header), 10), Part::Whole, "{header}");
        }
        assert_eq!(part(None, 10), Part::Whole);
    }
}
