//! The write-ahead log: what makes a group of commits durable with one write and one sync.
//!
//! The committer owns the end of it ([`Log`]); a thread of its own keeps the next segment ready and takes back
//! those that a checkpoint made superfluous ([`Supply`]). Versions in the log have no gaps, which is how a
//! missing or damaged stretch is told from a write that a crash cut short.
//!
//! After a failed write nothing is believed: if the disk was full the segment is cut back to the last good
//! record, durably, and the log goes on; after anything else it is broken for good, because a second sync
//! may succeed without having written what the first one lost.

mod record;
mod recover;
mod segment;
mod supply;

use std::{io, sync::Arc};

pub(super) use record::{Operation, RecordBuffer};
pub(super) use recover::recover;
pub(super) use segment::Segment;
pub(super) use supply::{Mold, Supply, run as run_supply};

use super::{disk::Disk, folder::is_full};

/// Why a record was not appended.
#[derive(Debug)]
pub(super) enum AppendError {
    /// There was no room. Nothing of the record is left.
    Full(io::Error),
    /// The log can no longer be trusted. `attempted`: the record may or may not be on the disk.
    Broken { source: io::Error, attempted: bool },
}

/// The writing end of the log.
#[derive(Debug)]
pub(super) struct Log {
    current: Option<Segment>,
    /// The version of the last record.
    last: u64,
    capacity: u64,
    supply: Arc<Supply>,
    disk: Arc<Disk>,
}

impl Log {
    pub(super) fn new(
        current: Option<Segment>,
        last: u64,
        capacity: usize,
        supply: Arc<Supply>,
        disk: Arc<Disk>,
    ) -> Self {
        Self { current, last, capacity: capacity as u64, supply, disk }
    }

    /// Writes one record and syncs it.
    pub(super) fn append(&mut self, version: u64, record: &mut RecordBuffer) -> Result<u64, AppendError> {
        assert_eq!(version, self.last + 1, "versions in the log have no gaps");
        self.turn_over(record.len())?;
        let segment = self.current.as_mut().expect("there is a segment to write to");
        let bytes = record.finish(segment.seed, version);
        let written = self.disk.write(&segment.file, bytes, segment.end);
        if let Err(error) = written.and_then(|()| self.disk.sync(&segment.file)) {
            return Err(self.give_up(error));
        }
        segment.end += bytes.len() as u64;
        self.last = version;
        Ok(bytes.len() as u64)
    }

    /// Goes on to the next segment when the current one has no room for `len` bytes.
    fn turn_over(&mut self, len: usize) -> Result<(), AppendError> {
        let is_full_up = |segment: &mut Segment| {
            let end = segment.end + len as u64;
            let is_used = segment.end > segment::HEADER_LEN as u64;
            is_used && (end > self.capacity || end > segment.prepared && self.supply.is_ready())
        };
        if let Some(full) = self.current.take_if(is_full_up) {
            self.supply.seal(full, self.last);
        }
        if self.current.is_none() {
            let next = self.supply.take().map_err(|source| {
                if is_full(&source) {
                    AppendError::Full(source)
                } else {
                    AppendError::Broken { source, attempted: false }
                }
            })?;
            self.current = Some(next);
        }
        Ok(())
    }

    /// After a failed write or sync: leaves either nothing of the record or a broken log.
    fn give_up(&mut self, error: io::Error) -> AppendError {
        let Some(segment) = self.current.take_if(|_| is_full(&error)) else {
            return AppendError::Broken { source: error, attempted: true };
        };
        match self.disk.cut(&segment.file, segment.end) {
            Ok(()) => {
                self.supply.seal(segment, self.last);
                AppendError::Full(error)
            }
            Err(source) => AppendError::Broken { source, attempted: true },
        }
    }
}
