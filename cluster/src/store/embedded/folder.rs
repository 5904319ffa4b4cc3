//! Small steps on files and folders, each with the error that says what was tried.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::store::OpenError;

/// The names inside a data folder.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    pub(super) fn manifest(&self) -> PathBuf {
        self.root.join("format")
    }

    pub(super) fn manifest_draft(&self) -> PathBuf {
        self.root.join("format.new")
    }

    pub(super) fn base(&self) -> PathBuf {
        self.root.join("base")
    }

    pub(super) fn sums(&self) -> PathBuf {
        self.root.join("base.sums")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    pub(super) fn reserve(&self) -> PathBuf {
        self.root.join("reserve")
    }
}

/// Adds what was tried to an operating system's error.
pub(super) fn cannot(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { action, path, source }
}

pub(super) fn corrupt(path: &Path, reason: impl Into<String>) -> OpenError {
    OpenError::Corrupt { path: path.to_owned(), reason: reason.into() }
}

/// Makes the names in a folder durable: a new, renamed or removed file is only certain after this.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    // Elsewhere a folder cannot be opened as a file, and its journal takes care of names.
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

/// Writes at an offset.
pub(super) fn write_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

/// Replaces a file by a complete and durable new one, or leaves it alone.
pub(super) fn replace(path: &Path, draft: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(draft)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(draft, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Fills the file with zeros up to `bytes`, so that later writes change no metadata and sync faster.
pub(super) fn fill_with_zeros(file: &mut File, bytes: u64) -> io::Result<()> {
    const CHUNK: usize = 1 << 20;
    let zeros = vec![0; CHUNK.min(usize::try_from(bytes).unwrap_or(CHUNK))];
    let mut left = bytes;
    while left > 0 {
        let step = left.min(zeros.len() as u64);
        file.write_all(&zeros[..usize::try_from(step).unwrap_or(CHUNK)])?;
        left -= step;
    }
    Ok(())
}

/// Whether the disk, or the share of it that we may use, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
