//! The engine's file.
//!
//! The engine gives up for good, reads included, after any failed write. A full disk is no reason for that:
//! here a write that finds no room first gives up the reserve and then waits for room, in the checkpoint's
//! thread, while reads go on. Everything read is verified ([`Sums`]).

use std::{io, sync::Arc, time::Duration};

use redb::{StorageBackend, backends::FileBackend};

#[cfg(test)]
use super::power;
use super::{
    disk::Disk,
    files,
    folder::{Folder, is_full},
    room::Room,
    sums::Sums,
};

/// How often a write that found the disk full looks again.
const FULL_RETRY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Backend {
    file: FileBackend,
    sums: Sums,
    room: Arc<Room>,
    disk: Arc<Disk>,
    /// The engine's file once more, to look at.
    #[cfg(test)]
    view: std::fs::File,
}

impl Backend {
    pub(super) fn open(folder: &Folder, create: bool, disk: Arc<Disk>, room: Arc<Room>) -> io::Result<Self> {
        let file = if create { files::create(&folder.base())? } else { files::open(&folder.base())? };
        Ok(Self {
            #[cfg(test)]
            view: file.try_clone()?,
            file: FileBackend::new(file).map_err(io::Error::other)?,
            sums: Sums::open(&folder.sums(), create)?,
            room,
            disk,
        })
    }

    /// Tries until it succeeds, fails for another reason than a full disk, or the store closes.
    fn insist<T>(&self, attempt: impl Fn() -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if is_full(&error) => {
                    if !self.room.give_up_reserve() && !self.room.wait(FULL_RETRY) {
                        return Err(error);
                    }
                }
                result => {
                    self.room.found();
                    return result;
                }
            }
        }
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)?;
        self.sums.check(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.insist(|| {
            #[cfg(test)]
            let _on = power::resize(&self.view, len);
            self.file.set_len(len)
        })?;
        self.sums.resize(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.insist(|| self.sums.flush())? {
            self.disk.sync_engine(|| self.sums.sync())?;
        }
        self.disk.sync_engine(|| {
            #[cfg(test)]
            if power::sync(&self.view) {
                return Ok(());
            }
            self.file.sync_data()
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.insist(|| {
            #[cfg(test)]
            let _on = power::write(&self.view, offset, data.len());
            self.file.write(offset, data)
        })?;
        self.sums.update(offset, data);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
