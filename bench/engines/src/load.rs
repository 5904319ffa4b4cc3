//! The load: deterministic small transactions, encoded once per batch.
//!
//! Transaction `n` writes four keys and clears the inbox key of `n - LAG`:
//! everything about it can be recomputed from `n`, so a reopened database can
//! be checked without remembering what was written.

use std::ops::Range;

/// How many transactions later an inbox key is cleared.
pub const LAG: u64 = 2_000;
/// Number of hot state keys.
pub const HOT: u64 = 1_024;
/// Bytes reserved in front of a batch for a log record's header.
pub const HEADER: usize = 16;

const UNIQUE: u16 = 1 << 15;
const CLEAR: u32 = u32::MAX;

/// SplitMix64.
pub fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// One operation, as ranges into [`Batch::buf`].
pub struct Op {
    key: Range<u32>,
    value: Option<Range<u32>>,
    /// The key is written only once, ever (appends).
    pub unique: bool,
}

/// A group of transactions; `buf` is at the same time the encoding for a log.
#[derive(Default)]
pub struct Batch {
    pub buf: Vec<u8>,
    pub ops: Vec<Op>,
    order: Vec<u32>,
}

impl Batch {
    pub fn clear(&mut self) {
        self.buf.clear();
        self.buf.resize(HEADER, 0);
        self.ops.clear();
    }

    pub fn key(&self, op: &Op) -> &[u8] {
        &self.buf[op.key.start as usize..op.key.end as usize]
    }

    pub fn value(&self, op: &Op) -> Option<&[u8]> {
        let range = op.value.as_ref()?;
        Some(&self.buf[range.start as usize..range.end as usize])
    }

    /// Starts an operation; the caller appends the key to `buf`.
    fn begin(&mut self) -> usize {
        let at = self.buf.len();
        self.buf.extend_from_slice(&[0; 6]);
        at
    }

    fn finish(&mut self, at: usize, value: Option<&[u8]>, unique: bool) {
        let (start, end) = (at + 6, self.buf.len());
        let flag = if unique { UNIQUE } else { 0 };
        let key_len = (end - start) as u16 | flag;
        let value_len = value.map_or(CLEAR, |v| v.len() as u32);
        self.buf[at..at + 2].copy_from_slice(&key_len.to_le_bytes());
        self.buf[at + 2..at + 6].copy_from_slice(&value_len.to_le_bytes());
        let value = value.map(|v| {
            self.buf.extend_from_slice(v);
            end as u32..self.buf.len() as u32
        });
        self.ops.push(Op { key: start as u32..end as u32, value, unique });
    }

    pub fn set(&mut self, unique: bool, key: impl FnOnce(&mut Vec<u8>), value: &[u8]) {
        let at = self.begin();
        key(&mut self.buf);
        self.finish(at, Some(value), unique);
    }

    pub fn unset(&mut self, key: impl FnOnce(&mut Vec<u8>)) {
        let at = self.begin();
        key(&mut self.buf);
        self.finish(at, None, false);
    }

    /// Appends transaction `n`.
    pub fn push(&mut self, n: u64, pool: &Pool) {
        self.set(false, |b| state_key(b, mix(n) % HOT), pool.slice(n, 400));
        self.set(true, |b| feed_key(b, 7, n), pool.slice(n + 1, 250));
        self.set(true, |b| inbox_key(b, n), pool.slice(n + 2, 120));
        self.set(true, |b| idem_key(b, n), pool.slice(n + 3, 60));
        if n >= LAG {
            self.unset(|b| inbox_key(b, n - LAG));
        }
    }

    /// Rebuilds `ops` from an encoded payload (everything after the header).
    pub fn decode(payload: &[u8]) -> Batch {
        let mut batch = Batch::default();
        batch.clear();
        batch.buf.extend_from_slice(payload);
        let mut at = HEADER;
        while at < batch.buf.len() {
            let raw = u16::from_le_bytes(batch.buf[at..at + 2].try_into().unwrap());
            let len = u32::from_le_bytes(batch.buf[at + 2..at + 6].try_into().unwrap());
            let key = (at + 6) as u32..(at + 6) as u32 + (raw & !UNIQUE) as u32;
            let value = (len != CLEAR).then(|| key.end..key.end + len);
            at = value.as_ref().map_or(key.end, |v| v.end) as usize;
            batch.ops.push(Op { key, value, unique: raw & UNIQUE != 0 });
        }
        batch
    }

    /// Sorts the operations by key, for [`Batch::net`].
    pub fn sort(&mut self) {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend(0..self.ops.len() as u32);
        order.sort_by(|&a, &b| {
            let (x, y) = (&self.ops[a as usize], &self.ops[b as usize]);
            self.key(x).cmp(self.key(y)).then(a.cmp(&b))
        });
        self.order = order;
    }

    /// The net effect: the last operation of each key, in key order.
    pub fn net(&self) -> impl Iterator<Item = &Op> {
        self.order.iter().enumerate().filter_map(|(i, &at)| {
            let op = &self.ops[at as usize];
            match self.order.get(i + 1) {
                Some(&next) if self.key(&self.ops[next as usize]) == self.key(op) => None,
                _ => Some(op),
            }
        })
    }
}

/// A pool of incompressible bytes from which values are cut.
pub struct Pool(Vec<u8>);

impl Pool {
    pub fn new() -> Pool {
        let words = (0..1u64 << 17).flat_map(|n| mix(n).to_le_bytes());
        Pool(words.collect())
    }

    pub fn slice(&self, n: u64, len: usize) -> &[u8] {
        let at = mix(n) as usize % (self.0.len() - len);
        &self.0[at..at + len]
    }
}

fn hex(buf: &mut Vec<u8>, value: u64, digits: u32) {
    for i in (0..digits).rev() {
        let digit = if i < 16 { (value >> (4 * i)) & 15 } else { 0 };
        buf.push(b"0123456789abcdef"[digit as usize]);
    }
}

/// 43 bytes.
pub fn state_key(buf: &mut Vec<u8>, entity: u64) {
    buf.extend_from_slice(b"state/");
    hex(buf, entity >> 6, 4);
    buf.push(b'/');
    hex(buf, mix(entity), 16);
    hex(buf, entity, 16);
}

/// 42 bytes.
pub fn feed_key(buf: &mut Vec<u8>, feed: u64, seq: u64) {
    buf.extend_from_slice(b"feed/");
    hex(buf, feed, 16);
    buf.push(b'/');
    hex(buf, seq, 20);
}

/// 48 bytes: `inbox/<shard>/<entity>/<stamp>`.
pub fn inbox_key(buf: &mut Vec<u8>, n: u64) {
    let entity = mix(n) % HOT;
    buf.extend_from_slice(b"inbox/");
    hex(buf, entity >> 6, 4);
    buf.push(b'/');
    hex(buf, mix(entity), 16);
    buf.push(b'/');
    hex(buf, n, 20);
}

/// 45 bytes, random.
pub fn idem_key(buf: &mut Vec<u8>, n: u64) {
    buf.extend_from_slice(b"idem/");
    hex(buf, mix(n), 16);
    hex(buf, mix(!n), 16);
    hex(buf, mix(n ^ 0x55), 8);
}
