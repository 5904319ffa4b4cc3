//! One process per data folder: an exclusive lock of the operating system, gone when the process is.

use std::fs::{File, OpenOptions, TryLockError};

use super::folder::{Folder, cannot};
use crate::store::OpenError;

/// Held for as long as the store is open.
#[derive(Debug)]
pub(super) struct FolderLock {
    file: File,
}

impl FolderLock {
    pub(super) fn take(folder: &Folder) -> Result<Self, OpenError> {
        let path = folder.lock();
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(cannot("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: folder.root().to_owned() }),
            Err(TryLockError::Error(error)) => Err(cannot("lock", &path)(error)),
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Closing is not enough: a child process that was just forked holds the same open file until it runs
        // its own program.
        self.file.unlock().ok();
    }
}
