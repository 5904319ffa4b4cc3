//! The names inside a data folder, and errors that say what was tried there.

use std::{
    io,
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

/// Whether the disk, or the share of it that we may use, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
