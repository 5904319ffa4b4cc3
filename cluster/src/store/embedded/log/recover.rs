//! Reading the log back after a stop, clean or not.
//!
//! Only the last write before a crash can be incomplete, and it was never answered. So the log ends at the
//! first place where no valid record follows; and a valid record that does not continue the versions before
//! it shows that something acknowledged is missing, which is reported and never skipped, as is a segment that the
//! manifest knows and that is not there. What cannot be told from a write cut short is damage to the end of the
//! newest segment, with nothing valid after it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use super::{
    super::{
        files,
        folder::{cannot, corrupt},
        manifest::StoreId,
    },
    record::{self, ALIGN, Found, Operation},
    segment::{self, set_aside},
};
use crate::store::OpenError;

/// The records of one segment, in order.
#[derive(Debug)]
struct Scanned {
    path: PathBuf,
    sequence: u64,
    bytes: Bytes,
    records: Vec<Found>,
    /// Where valid records ended for the first time, if something else than the next record follows.
    gap: Option<usize>,
    /// Whether the gap looks like the record that should come next.
    torn: bool,
}

/// What a log holds.
#[derive(Debug)]
pub(in super::super) struct Recovered {
    segments: Vec<Scanned>,
    /// Files that hold no records: left over from reuse.
    spares: Vec<PathBuf>,
}

/// Reads every segment. Changes nothing.
pub(in super::super) fn recover(folder: &Path, store: StoreId) -> Result<Recovered, OpenError> {
    let (mut named, mut spares) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder).map_err(cannot("list", folder))? {
        let path = entry.map_err(cannot("list", folder))?.path();
        match segment::sequence_of(&path) {
            Some(sequence) => named.push((sequence, path)),
            None if segment::is_spare(&path) => spares.push(path),
            None => tracing::warn!(path = %path.display(), "unknown file among the log segments"),
        }
    }
    named.sort_unstable();
    let mut segments: Vec<Scanned> = Vec::with_capacity(named.len());
    let mut last = 0;
    for (sequence, path) in named {
        let scanned = scan(path, store, sequence, last)?;
        last = scanned.records.last().map_or(last, |record| record.version);
        segments.push(scanned);
    }
    Ok(Recovered { segments, spares })
}

fn scan(path: PathBuf, store: StoreId, sequence: u64, before: u64) -> Result<Scanned, OpenError> {
    let bytes = Bytes::from(fs::read(&path).map_err(cannot("read", &path))?);
    segment::check_header(&bytes, &path, store, sequence)?;
    let seed = segment::seed(store, sequence);
    let (mut records, mut gap, mut torn) = (Vec::new(), None, false);
    let (mut at, mut last) = (segment::HEADER_LEN, before);
    loop {
        while let Some(found) = record::find(&bytes, at, seed) {
            at = found.end();
            last = found.version;
            records.push(found);
        }
        if gap.is_none() && at < bytes.len() {
            gap = Some(at);
            torn = record::claim(&bytes, at, seed).is_some_and(|version| version == last + 1);
        }
        match search(&bytes, at + ALIGN, seed) {
            Some(later) => at = later,
            None => return Ok(Scanned { path, sequence, bytes, records, gap, torn }),
        }
    }
}

/// Looks for a valid record of this life of the segment after a place where there is none.
fn search(bytes: &[u8], from: usize, seed: u32) -> Option<usize> {
    (from.next_multiple_of(ALIGN)..bytes.len())
        .step_by(ALIGN)
        .find(|at| record::find(bytes, *at, seed).is_some())
}

impl Recovered {
    /// Hands out, in order, the operations of every record after `applied`, and gives the last version.
    pub(in super::super) fn replay(
        &self,
        applied: u64,
        mut apply: impl FnMut(u64, Vec<Operation>),
    ) -> Result<u64, OpenError> {
        let mut last = applied;
        let mut gap: Option<(&Scanned, usize)> = None;
        let mut before: Option<&Scanned> = None;
        for segment in &self.segments {
            if let Some(before) = before.filter(|before| before.sequence + 1 != segment.sequence)
                && before.records.last().is_some_and(|record| record.version > applied)
            {
                let reason = format!("log segment {} is missing after this one", before.sequence + 1);
                return Err(corrupt(&before.path, reason));
            }
            before = Some(segment);
            for found in segment.records.iter().filter(|found| found.version > applied) {
                if found.version != last + 1 {
                    return Err(Self::missing(segment, found, last, gap));
                }
                let Some(operations) = record::operations(&found.payload(&segment.bytes)) else {
                    let reason = format!("the record at byte {} has unknown operations", found.offset);
                    return Err(corrupt(&segment.path, reason));
                };
                apply(found.version, operations);
                last = found.version;
            }
            gap = segment.gap.map(|offset| (segment, offset)).or(gap);
        }
        if let Some((segment, offset)) = gap.filter(|(segment, _)| segment.torn) {
            let path = segment.path.display();
            tracing::warn!(%path, offset, version = last + 1, "log ends in an unfinished write; dropped it");
        }
        Ok(last)
    }

    fn missing(segment: &Scanned, found: &Found, last: u64, gap: Option<(&Scanned, usize)>) -> OpenError {
        // The damage is where valid records ended before, in this segment or an earlier one.
        let own = segment.gap.filter(|offset| *offset < found.offset).map(|offset| (segment, offset));
        let (segment, offset) = own.or(gap).unwrap_or((segment, found.offset));
        let (next, found) = (last + 1, found.version);
        let reason = if found <= last {
            format!("version {found} follows version {last} at byte {offset}")
        } else {
            format!("no valid record of version {next} at byte {offset}, and version {found} comes later")
        };
        corrupt(&segment.path, reason)
    }

    /// Makes durable what was read: a record that only the operating system had must not be shown to anyone
    /// before it is certain to stay.
    pub(in super::super) fn sync(&self) -> io::Result<()> {
        self.segments.iter().filter(|segment| !segment.records.is_empty()).try_for_each(|segment| {
            // Opened for writing: not every system syncs through a file opened for reading.
            files::sync_all(&files::open(&segment.path)?)
        })
    }

    /// The sequence after all that were found. Without any segment, after those that the spares had: none may
    /// come twice, because it tells what a file still holds of its former life from the present one.
    pub(in super::super) fn next_sequence(&self) -> u64 {
        let named = self.segments.last().map(|segment| segment.sequence);
        named.or_else(|| self.newest_spare()).map_or(1, |newest| newest + 1)
    }

    fn newest_spare(&self) -> Option<u64> {
        self.spares.iter().filter_map(|path| segment::spare_sequence_of(path)).max()
    }

    /// Fails when a segment is missing that is known to have been there. One that became a spare is not missing:
    /// on a full disk it may be all there is to make the next segment of.
    pub(in super::super) fn check_newest(&self, known: u64, folder: &Path) -> Result<(), OpenError> {
        let newest = self.segments.last().map_or(0, |segment| segment.sequence);
        if newest.max(self.newest_spare().unwrap_or(0)) >= known {
            return Ok(());
        }
        Err(corrupt(folder, format!("log segment {known} is missing, the newest is {newest}")))
    }

    /// The segments that are still needed when everything up to `applied` is in the engine, and the files that
    /// can be used for something else.
    pub(in super::super) fn into_files(self, applied: u64) -> (Vec<(PathBuf, u64)>, Vec<PathBuf>) {
        let mut spares = self.spares;
        let mut sealed = Vec::new();
        for segment in self.segments {
            let last = segment.records.last().map_or(0, |record| record.version);
            // One without records that follows a needed one stays with it, so that their row has no gap.
            match sealed.last() {
                Some((_, before)) => sealed.push((segment.path, last.max(*before))),
                None if last > applied => sealed.push((segment.path, last)),
                None => spares.push(set_aside(segment.path)),
            }
        }
        // The last is used first: one that was about to become the next segment still does.
        spares.sort_by_key(|path| segment::spare_sequence_of(path));
        (sealed, spares)
    }
}
