//! One record per group of commits, and the operations in it.
//!
//! ```text
//! record     length u32 · mark u32 · version u64 · check u32 · zeros 4 · payload · zeros up to a multiple of 8
//! mark       CRC-32 of the segment's seed, the length and the version: tells a header from anything else
//! check      CRC-32 of the segment's seed, the version and the payload
//! payload    operations in commit order
//! operation  tag u8 · key length u16 · value length u32 · key · value
//! ```
//!
//! All little-endian. Everything is resolved before it is written (sums, stamps), so reading a log back needs
//! nothing but the log. The seed differs for every segment: what a reused file still holds of its former life
//! never passes for a record of the present one.

use bytes::Bytes;

use crate::store::{KEY_BYTES_MAX, KeyRange};

/// Records begin at multiples of this, so that damage can be searched past.
pub(super) const ALIGN: usize = 8;
pub(super) const HEADER_LEN: usize = 24;

/// What one operation does to the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `fresh`: the key holds the stamp of its own commit, so it cannot have existed before.
    Set {
        key: Bytes,
        value: Bytes,
        fresh: bool,
    },
    Clear {
        key: Bytes,
    },
    ClearRange {
        range: KeyRange,
    },
}

impl Operation {
    /// About how many bytes it takes in the log.
    pub(crate) fn bytes(&self) -> usize {
        OPERATION_HEADER_LEN
            + match self {
                Self::Set { key, value, .. } => key.len() + value.len(),
                Self::Clear { key } => key.len(),
                Self::ClearRange { range } => range.begin.len() + range.end.len(),
            }
    }
}

const SET: u8 = 1;
const SET_FRESH: u8 = 2;
const CLEAR: u8 = 3;
const CLEAR_RANGE: u8 = 4;
const OPERATION_HEADER_LEN: usize = 7;

/// Builds one record. Reused from group to group.
#[derive(Debug, Default)]
pub(crate) struct RecordBuffer {
    bytes: Vec<u8>,
}

impl RecordBuffer {
    /// A group that needed more than this gives the memory back.
    const KEPT_BYTES_MAX: usize = 8 << 20;

    pub(crate) fn start(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(Self::KEPT_BYTES_MAX);
        self.bytes.resize(HEADER_LEN, 0);
    }

    pub(crate) fn push(&mut self, operation: &Operation) {
        match operation {
            Operation::Set { key, value, fresh: false } => self.put(SET, key, value),
            Operation::Set { key, value, fresh: true } => self.put(SET_FRESH, key, value),
            Operation::Clear { key } => self.put(CLEAR, key, &[]),
            Operation::ClearRange { range } => self.put(CLEAR_RANGE, &range.begin, &range.end),
        }
    }

    /// How many bytes the record takes so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The finished record.
    pub(crate) fn finish(&mut self, seed: u32, version: u64) -> &[u8] {
        let length = self.bytes.len() - HEADER_LEN;
        let length = u32::try_from(length).expect("a group is bounded far below 4 GiB");
        let check = check(seed, version, &self.bytes[HEADER_LEN..]);
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&mark(seed, version, length).to_le_bytes());
        self.bytes[8..16].copy_from_slice(&version.to_le_bytes());
        self.bytes[16..20].copy_from_slice(&check.to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        &self.bytes
    }

    fn put(&mut self, tag: u8, key: &[u8], value: &[u8]) {
        let key_len = u16::try_from(key.len()).expect("a transaction refuses keys over its limit");
        let value_len = u32::try_from(value.len()).expect("a transaction refuses values over its limit");
        let mut header = [0; OPERATION_HEADER_LEN];
        header[0] = tag;
        header[1..3].copy_from_slice(&key_len.to_le_bytes());
        header[3..7].copy_from_slice(&value_len.to_le_bytes());
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }
}

fn check(seed: u32, version: u64, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&version.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

fn mark(seed: u32, version: u64, length: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&length.to_le_bytes());
    hasher.update(&version.to_le_bytes());
    hasher.finalize()
}

/// A record found in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) version: u64,
    /// Where it begins.
    pub(super) offset: usize,
    payload_len: usize,
}

impl Found {
    pub(super) fn end(&self) -> usize {
        (self.offset + HEADER_LEN + self.payload_len).next_multiple_of(ALIGN)
    }

    pub(super) fn payload(&self, segment: &Bytes) -> Bytes {
        let begin = self.offset + HEADER_LEN;
        segment.slice(begin..begin + self.payload_len)
    }
}

/// The version that a header at `offset` claims, valid or not what follows it.
pub(super) fn claim(segment: &[u8], offset: usize, seed: u32) -> Option<u64> {
    Header::parse(segment, offset, seed).map(|header| header.version)
}

/// The valid record at `offset`, if there is one.
pub(super) fn find(segment: &[u8], offset: usize, seed: u32) -> Option<Found> {
    let Header { length, version, check: expected } = Header::parse(segment, offset, seed)?;
    let begin = offset + HEADER_LEN;
    let payload_len = length as usize;
    let payload = segment.get(begin..begin.checked_add(payload_len)?)?;
    (check(seed, version, payload) == expected).then_some(Found { version, offset, payload_len })
}

struct Header {
    length: u32,
    version: u64,
    check: u32,
}

impl Header {
    fn parse(segment: &[u8], offset: usize, seed: u32) -> Option<Self> {
        let bytes: &[u8; HEADER_LEN] = segment.get(offset..)?.first_chunk()?;
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let version = u64::from(number(8)) | u64::from(number(12)) << 32;
        let header = Self { length: number(0), version, check: number(16) };
        (header.length > 0 && mark(seed, version, header.length) == number(4)).then_some(header)
    }
}

/// The operations of a payload whose check was right. `None` when they do not parse: then it was not this
/// program that wrote them.
pub(super) fn operations(payload: &Bytes) -> Option<Vec<Operation>> {
    let mut operations = Vec::new();
    let mut at = 0;
    while at < payload.len() {
        let header: &[u8; OPERATION_HEADER_LEN] = payload.get(at..)?.first_chunk()?;
        let key_len = usize::from(u16::from_le_bytes([header[1], header[2]]));
        let value_len = u32::from_le_bytes([header[3], header[4], header[5], header[6]]) as usize;
        let key_begin = at + OPERATION_HEADER_LEN;
        let value_begin = key_begin + key_len;
        at = value_begin.checked_add(value_len)?;
        if at > payload.len() || key_len > KEY_BYTES_MAX {
            return None;
        }
        let key = payload.slice(key_begin..value_begin);
        let value = payload.slice(value_begin..at);
        operations.push(match header[0] {
            SET => Operation::Set { key, value, fresh: false },
            SET_FRESH => Operation::Set { key, value, fresh: true },
            CLEAR => Operation::Clear { key },
            CLEAR_RANGE => Operation::ClearRange { range: KeyRange { begin: key, end: value } },
            _ => return None,
        });
    }
    Some(operations)
}
