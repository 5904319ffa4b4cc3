//! The floor: append the batch's bytes to a file, `fdatasync`.

use super::{Engine, Result, Visit};
use crate::load::Batch;
use std::{
    fs::File,
    os::{fd::AsRawFd, unix::fs::FileExt},
    path::Path,
};

const SEGMENT: u64 = 256 << 20;

/// Where the file's space comes from.
pub enum Space {
    /// The file grows with each write.
    Grow,
    /// `fallocate` in advance (ext4: unwritten extents).
    Reserve,
    /// Zeros written in advance, so that a commit changes no metadata.
    Zero,
}

pub struct Raw {
    file: File,
    at: u64,
    wrap: bool,
}

impl Raw {
    pub fn open(dir: &Path, space: Space) -> Result<Raw> {
        let file = File::create(dir.join("raw.log"))?;
        match space {
            Space::Grow => {}
            Space::Reserve => {
                // SAFETY: a plain system call on an open file.
                let code = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, SEGMENT as i64) };
                if code != 0 {
                    return Err(std::io::Error::last_os_error().into());
                }
            }
            Space::Zero => {
                let zeros = vec![0; 1 << 20];
                for at in (0..SEGMENT).step_by(zeros.len()) {
                    file.write_all_at(&zeros, at)?;
                }
            }
        }
        file.sync_all()?;
        Ok(Raw { file, at: 0, wrap: !matches!(space, Space::Grow) })
    }
}

impl Engine for Raw {
    fn commit(&mut self, batch: &mut Batch) -> Result<()> {
        let len = batch.buf.len() as u64;
        if self.wrap && self.at + len > SEGMENT {
            self.at = 0;
        }
        self.file.write_all_at(&batch.buf, self.at)?;
        self.file.sync_data()?;
        self.at += len;
        Ok(())
    }

    fn get(&self, _: &[u8]) -> Result<Option<Vec<u8>>> {
        Err("raw cannot read".into())
    }

    fn scan(&self, _: &[u8], _: &[u8], _: Visit) -> Result<()> {
        Err("raw cannot scan".into())
    }
}
