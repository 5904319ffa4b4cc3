//! What can go wrong, named by what the caller does next.

use std::{path::PathBuf, sync::Arc};

/// A cause that several waiting callers share.
pub type SharedCause = Arc<dyn std::error::Error + Send + Sync>;

/// Why a read did not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// Begin again: the version this transaction reads at is no longer kept.
    #[error("transaction is too old to read")]
    TooOld,
    /// Try again later: the store cannot be reached now.
    #[error("store is unavailable: {reason}")]
    Unavailable {
        /// What the driver saw.
        reason: String,
    },
    /// Correct the request: a key is longer than any stored key can be.
    #[error("{what} of {actual} bytes is over the limit of {limit}")]
    TooLarge {
        /// `key`, `value` or `transaction`.
        what: &'static str,
        /// The bound.
        limit: usize,
        /// What was asked for.
        actual: usize,
    },
    /// Report: the store is damaged or its driver failed.
    #[error("store failed")]
    Failed(#[source] SharedCause),
}

/// Why a commit was not confirmed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Begin again: something this transaction read has changed. Nothing was written.
    #[error("transaction conflicts with another")]
    Conflict,
    /// Begin again: the transaction took too long. Nothing was written.
    #[error("transaction is too old to commit")]
    TooOld,
    /// Find out: it may have been written or not, and may still be on its way.
    #[error("transaction may have committed")]
    OutcomeUnknown,
    /// Correct the request. Nothing was written.
    #[error("{what} of {actual} bytes is over the limit of {limit}")]
    TooLarge {
        /// `key`, `value` or `transaction`.
        what: &'static str,
        /// The bound.
        limit: usize,
        /// What was asked for.
        actual: usize,
    },
    /// Try again later. Nothing was written.
    #[error("store is unavailable: {reason}")]
    Unavailable {
        /// What the driver saw.
        reason: String,
    },
    /// Make room: the disk is full. Nothing was written, reads still work.
    #[error("store has no space left: {reason}")]
    Full {
        /// What the driver saw.
        reason: String,
    },
    /// Report: the store is damaged or its driver failed. Nothing more will commit.
    #[error("store failed")]
    Failed(#[source] SharedCause),
}

impl CommitError {
    /// Whether running the whole transaction again from its first read is safe and may help.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict | Self::TooOld | Self::Unavailable { .. } | Self::Full { .. })
    }
}

impl From<ReadError> for CommitError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TooOld => Self::TooOld,
            ReadError::Unavailable { reason } => Self::Unavailable { reason },
            ReadError::TooLarge { what, limit, actual } => Self::TooLarge { what, limit, actual },
            ReadError::Failed(cause) => Self::Failed(cause),
        }
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("{path} is in use by another process; stop it, or choose another data folder")]
    Locked {
        /// The data folder.
        path: PathBuf,
    },
    /// The folder holds something that is not ours, or of a version we cannot read.
    #[error("{path} is not a data folder that this version can open: {reason}")]
    Foreign {
        /// The data folder.
        path: PathBuf,
        /// What was found there.
        reason: String,
    },
    /// The folder is ours and damaged. Nothing was changed.
    #[error("{path} is damaged: {reason}; restore it from a backup, nothing in it was changed")]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// The client library or the cluster is missing or unreachable.
    #[error("cannot reach the store: {reason}")]
    Unreachable {
        /// What was missing, and what to do.
        reason: String,
    },
    /// The operating system refused.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The operating system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The engine underneath failed.
    #[error("storage engine failed while opening {path}")]
    Engine {
        /// The file of the engine.
        path: PathBuf,
        /// Its answer.
        #[source]
        source: SharedCause,
    },
}
