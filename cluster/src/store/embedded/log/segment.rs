//! One log file: a header and the records of a stretch of commits.
//!
//! ```text
//! magic 8 · format u32 · check u32 · store id 16 · sequence u64 · zeros up to 64
//! ```
//!
//! A segment gets its final name only once its header is durable, and a file that is used again has durably
//! lost its old name before a byte of it changes: a named segment with a bad header is damage, never a crash.
//! Until then it is a spare, named after the sequence it had or will have, so that none is ever given twice.
//! The room for records is written before it is used (zeros, or the leftovers of a former life), because syncing
//! an overwrite costs about half of syncing an append.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
};

use super::super::{
    files::{self, fill_with_zeros, sync_folder, write_at},
    folder::corrupt,
    manifest::StoreId,
};
use crate::store::OpenError;

pub(super) const HEADER_LEN: usize = 64;
const MAGIC: &[u8; 8] = b"CADRELOG";
const FORMAT: u32 = 1;
const SUFFIX: &str = ".log";
const SPARE: &str = "spare-";
/// What a segment without a name was called before its sequence was in it.
const DRAFT: &str = "next";

/// An open segment, for writing.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Where the next record goes.
    pub(super) end: u64,
    /// Up to where the room is prepared; beyond it works too, slower.
    pub(super) prepared: u64,
    pub(super) seed: u32,
}

impl Segment {
    /// Makes the segment `sequence` from a file that is no longer needed, or a new one with `zeroed` bytes of
    /// prepared room.
    pub(super) fn prepare(
        folder: &Path,
        store: StoreId,
        sequence: u64,
        old: Option<&Path>,
        zeroed: u64,
        durable: bool,
    ) -> io::Result<Self> {
        let draft = draft(folder, sequence);
        match old {
            Some(old) => {
                files::rename(old, &draft)?;
                if durable {
                    sync_folder(folder)?;
                }
            }
            None => Self::zeroed(&draft, zeroed)?,
        }
        let file = files::open(&draft)?;
        write_at(&file, &header(store, sequence), 0)?;
        if durable {
            files::sync_all(&file)?;
        }
        let path = folder.join(name(sequence));
        files::rename(&draft, &path)?;
        if durable {
            sync_folder(folder)?;
        }
        let prepared = file.metadata()?.len();
        Ok(Self { path, file, end: HEADER_LEN as u64, prepared, seed: seed(store, sequence) })
    }

    fn zeroed(path: &Path, bytes: u64) -> io::Result<()> {
        let file = files::create(path)?;
        let filled = fill_with_zeros(&file, bytes.max(HEADER_LEN as u64));
        if filled.is_err() {
            // Half a file would hold on to the little room there is.
            files::remove(path).ok();
        }
        filled
    }
}

fn name(sequence: u64) -> String {
    format!("{sequence:016x}{SUFFIX}")
}

/// Where the segment `sequence` is while it is made.
pub(super) fn draft(folder: &Path, sequence: u64) -> PathBuf {
    folder.join(spare_name(sequence))
}

fn spare_name(sequence: u64) -> String {
    format!("{SPARE}{sequence:016x}")
}

/// Renames a segment whose records are no longer needed, so that recovery does not look at it. Done oldest
/// first, so that the segments that keep their names are always a row without a gap.
pub(super) fn set_aside(path: PathBuf) -> PathBuf {
    let Some(sequence) = sequence_of(&path) else { return path };
    let spare = path.with_file_name(spare_name(sequence));
    match files::rename(&path, &spare) {
        Ok(()) => spare,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot set an old log segment aside");
            path
        }
    }
}

/// Whether a file among the segments is one that can be used again.
pub(super) fn is_spare(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name == DRAFT || name.starts_with(SPARE)
}

/// The sequence in a segment's file name.
pub(super) fn sequence_of(path: &Path) -> Option<u64> {
    parse(path.file_name()?.to_str()?.strip_suffix(SUFFIX)?)
}

/// The sequence in a spare's file name.
pub(super) fn spare_sequence_of(path: &Path) -> Option<u64> {
    parse(path.file_name()?.to_str()?.strip_prefix(SPARE)?)
}

fn parse(sequence: &str) -> Option<u64> {
    (sequence.len() == 16).then(|| u64::from_str_radix(sequence, 16).ok())?
}

/// What the checks of a segment's records start from.
pub(super) fn seed(store: StoreId, sequence: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&store.0);
    hasher.update(&sequence.to_le_bytes());
    hasher.finalize()
}

fn header(store: StoreId, sequence: u64) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    header[16..32].copy_from_slice(&store.0);
    header[32..40].copy_from_slice(&sequence.to_le_bytes());
    let check = crc32fast::hash(&header);
    header[12..16].copy_from_slice(&check.to_le_bytes());
    header
}

/// Checks the header of a segment that was read from `path`.
pub(super) fn check_header(
    bytes: &[u8],
    path: &Path,
    store: StoreId,
    sequence: u64,
) -> Result<(), OpenError> {
    let expected = header(store, sequence);
    let found = bytes.get(..HEADER_LEN).unwrap_or(bytes);
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    let at = at.unwrap_or(found.len());
    let reason = format!("the header of log segment {sequence} is wrong at byte {at}");
    Err(corrupt(path, reason))
}
