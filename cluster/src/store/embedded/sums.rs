//! A checksum for every block of the engine's file.
//!
//! The engine verifies its pages only when it repairs itself, so a damaged page would be read as if nothing
//! were wrong: a key not found, a value of noise. Here every block is verified when it is read from the file.
//! Blocks are never overwritten while a committed tree refers to them, so it is enough that the sums of a
//! transaction are durable before the engine's header points to it; the header itself, the first block, has
//! checksums of its own.
//!
//! The file holds one little-endian CRC-32 per block; zero means that the block was never written.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io,
    path::Path,
    sync::{PoisonError, RwLock, RwLockWriteGuard},
};

use super::files;

const BLOCK: usize = 4096;
/// Sums are written in pieces of so many.
const PIECE: usize = 1024;
const UNKNOWN: u32 = 0;

#[derive(Debug)]
pub(super) struct Sums {
    file: File,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    sums: Vec<u32>,
    /// Pieces that differ from what is in the file.
    dirty: BTreeSet<usize>,
}

impl Sums {
    pub(super) fn open(path: &Path, create: bool) -> io::Result<Self> {
        let file = if create { files::create(path)? } else { files::open(path)? };
        let bytes = fs::read(path)?;
        let sums = bytes.chunks_exact(4).map(|sum| u32::from_le_bytes([sum[0], sum[1], sum[2], sum[3]]));
        Ok(Self { file, state: RwLock::new(State { sums: sums.collect(), dirty: BTreeSet::new() }) })
    }

    /// Verifies what was read at `offset`.
    pub(super) fn check(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        for (index, block) in blocks(offset, bytes) {
            let expected = state.sums.get(index).copied().unwrap_or(UNKNOWN);
            if expected != UNKNOWN && block.is_none_or(|block| sum(block) != expected) {
                let at = index * BLOCK;
                let reason = format!("the block at byte {at} does not fit its checksum");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        }
        Ok(())
    }

    /// Remembers what was written at `offset`.
    pub(super) fn update(&self, offset: u64, bytes: &[u8]) {
        let mut state = self.write();
        for (index, block) in blocks(offset, bytes) {
            if state.sums.len() <= index {
                state.sums.resize(index + 1, UNKNOWN);
            }
            state.sums[index] = block.map_or(UNKNOWN, sum);
            state.dirty.insert(index / PIECE);
        }
    }

    /// Follows a change of the file's length.
    pub(super) fn resize(&self, len: u64) {
        let blocks = usize::try_from(len / BLOCK as u64).unwrap_or(usize::MAX);
        let mut state = self.write();
        let before = state.sums.len();
        state.sums.resize(blocks, UNKNOWN);
        let (from, to) = (before.min(blocks), before.max(blocks));
        state.dirty.extend(from / PIECE..to.div_ceil(PIECE));
    }

    /// Writes the sums that changed. True when there were any.
    pub(super) fn flush(&self) -> io::Result<bool> {
        let mut state = self.write();
        let changed = !state.dirty.is_empty();
        while let Some(piece) = state.dirty.first().copied() {
            let sums = state.sums.iter().skip(piece * PIECE).take(PIECE);
            let mut bytes: Vec<u8> = sums.flat_map(|sum| sum.to_le_bytes()).collect();
            bytes.resize(PIECE * 4, 0);
            files::write_at(&self.file, &bytes, (piece * PIECE * 4) as u64)?;
            state.dirty.remove(&piece);
        }
        Ok(changed)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        files::sync_data(&self.file)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The blocks that `bytes` at `offset` touch, except the first of the file; `None` for one that they touch
/// only in part.
fn blocks(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (usize, Option<&[u8]>)> {
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let end = offset.saturating_add(bytes.len());
    (offset / BLOCK..end.div_ceil(BLOCK)).filter(|index| *index > 0).map(move |index| {
        let begin = (index * BLOCK).checked_sub(offset);
        (index, begin.and_then(|begin| bytes.get(begin..begin + BLOCK)))
    })
}

fn sum(block: &[u8]) -> u32 {
    crc32fast::hash(block).max(UNKNOWN + 1)
}
