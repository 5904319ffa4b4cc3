//! Key ranges and pages of what is in them.

use bytes::Bytes;

/// A half-open range of keys: `begin` is in it, `end` is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key.
    pub begin: Bytes,
    /// The key after the last.
    pub end: Bytes,
}

impl KeyRange {
    /// From `begin` up to, not including, `end`.
    pub fn new(begin: impl Into<Bytes>, end: impl Into<Bytes>) -> Self {
        Self { begin: begin.into(), end: end.into() }
    }

    /// Every key that starts with `prefix`.
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let begin = prefix.into();
        let end = prefix_end(&begin);
        Self { begin, end }
    }

    /// The one key.
    pub fn single(key: impl Into<Bytes>) -> Self {
        let begin = key.into();
        let end = key_after(&begin);
        Self { begin, end }
    }

    /// Whether no key can be in it.
    pub fn is_empty(&self) -> bool {
        self.begin >= self.end
    }

    /// Whether `key` is in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.begin[..] <= *key && *key < self.end[..]
    }

    /// Whether a key can be in both.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        self.begin < other.end && other.begin < self.end
    }
}

/// The first key after `key`.
pub fn key_after(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

/// The first key that does not start with `prefix` and is after it. Keys of a store never start with 0xff, so
/// a prefix of nothing but 0xff (or an empty one) ends at `[0xff]`.
fn prefix_end(prefix: &[u8]) -> Bytes {
    let kept = prefix.iter().rposition(|byte| *byte != 0xff);
    match kept {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end.into()
        }
        None => Bytes::from_static(&[0xff]),
    }
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Bytes,
    /// Its value.
    pub value: Bytes,
}

/// What to read of a range.
#[derive(Debug, Clone)]
pub struct RangeRead {
    /// The keys asked for.
    pub range: KeyRange,
    /// At most so many; of one page, at most [`Self::PAIRS_MAX`].
    pub limit: usize,
    /// About so many bytes: a page ends with the pair that reaches it, and is never empty for that reason.
    pub target_bytes: usize,
    /// From the end of the range towards its beginning.
    pub reverse: bool,
}

impl RangeRead {
    /// A page is bounded even when the caller does not say so: half a megabyte.
    pub const TARGET_BYTES_DEFAULT: usize = 512 * 1024;
    /// No page holds more pairs, however small they are and whatever its limit.
    pub const PAIRS_MAX: usize = 10_000;

    /// Forward over all of `range`, a page of default size at a time.
    pub fn new(range: KeyRange) -> Self {
        Self { range, limit: usize::MAX, target_bytes: Self::TARGET_BYTES_DEFAULT, reverse: false }
    }

    /// At most `limit` pairs.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// About `target_bytes` at most.
    pub fn target_bytes(mut self, target_bytes: usize) -> Self {
        self.target_bytes = target_bytes;
        self
    }

    /// Backwards.
    pub fn reverse(mut self) -> Self {
        self.reverse = true;
        self
    }
}

/// A page of a range, in the order asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The pairs.
    pub pairs: Vec<KeyValue>,
    /// Whether the range may hold more after (or, in reverse, before) the last pair.
    pub more: bool,
}
