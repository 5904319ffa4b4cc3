//! A replay case, read from a file.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    export::{KnownGap, Scope, replay},
    fact::{Cursor, Event, id::SessionId},
};

/// The largest file that is read: no export is larger.
pub const BYTES_MAX: u64 = 128 * 1024 * 1024;

/// A replay case, as `export_replay` makes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayCase {
    /// What the file is, and which version of that.
    pub format: String,
    /// The version of the schemas of its events.
    pub schema_version: String,
    /// The installation that made it.
    pub runtime_id: String,
    /// The session.
    pub session_id: SessionId,
    /// Up to where it is true.
    pub cursor: Cursor,
    /// What of the session it is of.
    #[serde(default)]
    pub scope: Scope,
    /// What happened, in order.
    pub events: Vec<Event>,
    /// What was served.
    pub models: replay::Models,
    /// What is missing.
    #[serde(default)]
    pub known_gaps: Vec<KnownGap>,
}

/// Why a file is not a case that can be replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Name another file.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Export less.
    #[error("{} has {actual} bytes, over the limit of {limit}", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// The bound.
        limit: u64,
        /// What it has.
        actual: u64,
    },
    /// Name another file.
    #[error("this is no replay case: {reason}; `cadre export replay` makes one")]
    Malformed {
        /// What is wrong.
        reason: String,
    },
    /// Use another version.
    #[error("this is a {found:?} and not a {known:?}; `cadre export replay` of this version makes one")]
    Format {
        /// What it says it is.
        found: String,
        /// What this version reads.
        known: &'static str,
    },
}

impl ReplayCase {
    /// Reads a case from a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let unreadable = |source| Error::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let actual = file.metadata().map_err(unreadable)?.len();
        if actual > BYTES_MAX {
            return Err(Error::TooLarge { path: path.to_owned(), limit: BYTES_MAX, actual });
        }
        let mut text = Vec::with_capacity(actual as usize);
        BufReader::new(file).take(BYTES_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
        Self::parse(&text)
    }

    /// Reads a case from its text.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Format {
            format: String,
        }
        let malformed = |error: serde_json::Error| Error::Malformed { reason: error.to_string() };
        let Format { format } = serde_json::from_slice(text).map_err(malformed)?;
        if format != replay::FORMAT {
            let found = format.chars().take(40).collect();
            return Err(Error::Format { found, known: replay::FORMAT });
        }
        let case: Self = serde_json::from_slice(text).map_err(malformed)?;
        if let Some(stranger) = case.events.iter().find(|event| event.session != case.session_id) {
            let (session, event) = (&stranger.session, stranger.event_id());
            let reason = format!("the event {event} is of the session {session}, not of {}", case.session_id);
            return Err(Error::Malformed { reason });
        }
        Ok(case)
    }
}
