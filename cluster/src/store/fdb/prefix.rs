//! The prefix of our directory, before every key of ours.

use bytes::Bytes;

use crate::store::KeyRange;

/// Turns our keys into the cluster's and back.
#[derive(Debug, Clone)]
pub(super) struct Prefix(Bytes);

impl Prefix {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The cluster's key for ours.
    pub(super) fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.0, key].concat()
    }

    /// Both ends of a range. The end stays within the directory, whatever its bytes: nothing that starts with
    /// the prefix sorts after what does not and is greater.
    pub(super) fn range(&self, range: &KeyRange) -> (Vec<u8>, Vec<u8>) {
        (self.key(&range.begin), self.key(&range.end))
    }

    /// A key in which the cluster is to put the stamp at `offset`.
    pub(super) fn stamped_key(&self, key: &[u8], offset: usize) -> Vec<u8> {
        [&self.0, key, &stamp_offset(self.len() + offset)].concat()
    }

    /// Our key for the cluster's.
    ///
    /// # Panics
    /// When it is not in our directory, which no read of ours can return.
    pub(super) fn strip<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        key.strip_prefix(&self.0[..]).expect("a range read stays within the directory")
    }
}

/// A value in which the cluster is to put the stamp at `offset`.
pub(super) fn stamped_value(value: &[u8], offset: usize) -> Vec<u8> {
    [value, &stamp_offset(offset)].concat()
}

/// Where a stamp goes, the way API versions from 520 on want it: after the template, little-endian.
fn stamp_offset(offset: usize) -> [u8; 4] {
    u32::try_from(offset).expect("a stamp is within a key or a value").to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_as_they_went() {
        let prefix = Prefix::new(b"\x15\x07");
        for key in [&b""[..], b"k", b"\xff\xff", b"\x15\x07"] {
            assert_eq!(prefix.strip(&prefix.key(key)), key);
        }
    }

    #[test]
    fn a_range_never_leaves_the_directory() {
        let prefix = Prefix::new(b"\x15\x07");
        let (begin, end) = prefix.range(&KeyRange::prefix(&b""[..]));
        assert!(begin.starts_with(b"\x15\x07") && end.starts_with(b"\x15\x07"));
        assert!(end.as_slice() < &b"\x15\x08"[..]);
    }

    #[test]
    fn a_stamp_moves_with_the_prefix() {
        let prefix = Prefix::new(b"\x15\x07");
        let key = prefix.stamped_key(b"a----------z", 1);
        assert_eq!(key, b"\x15\x07a----------z\x03\0\0\0");
        assert_eq!(stamped_value(b"a----------z", 1), b"a----------z\x01\0\0\0");
    }

    #[test]
    #[should_panic(expected = "stays within the directory")]
    fn a_foreign_key_is_never_taken_for_ours() {
        Prefix::new(b"\x15\x07").strip(b"\x15\x08k");
    }
}
