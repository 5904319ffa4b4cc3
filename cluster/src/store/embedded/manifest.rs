//! The file that says what the folder is: the first thing written into it, the first thing read.
//!
//! ```text
//! cadre embedded store
//! format 2
//! store 6f1d…            32 hex digits, also in every log file and in the engine
//! state ready            `creating` until the engine and the log exist
//! log 12                 the newest log segment: if it is not there, something acknowledged is missing
//! check 1a2b3c4d         CRC-32 of the lines above
//! ```

use std::{fs, io};

use rand::{TryRngCore, rngs::OsRng};

use super::{
    files::replace,
    folder::{Folder, cannot, corrupt},
};
use crate::store::OpenError;

const MAGIC: &str = "cadre embedded store";
/// What this version writes, and the newest it reads. 1: without `log`.
const FORMAT: u32 = 2;

/// What tells one store's files from another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoreId(pub(super) [u8; 16]);

impl StoreId {
    fn generate() -> io::Result<Self> {
        let mut id = [0; 16];
        OsRng.try_fill_bytes(&mut id).map_err(io::Error::other)?;
        Ok(Self(id))
    }
}

impl std::fmt::Display for StoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The first opening did not finish: nothing was ever committed here.
    Creating,
    Ready,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) store: StoreId,
    pub(super) state: State,
    /// The newest log segment; zero before the first, or when an older version wrote it.
    pub(super) log: u64,
}

impl Manifest {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { store: StoreId::generate()?, state: State::Creating, log: 0 })
    }

    /// Reads the manifest of a folder. `None` for a folder that is empty or was never made ours. Changes
    /// nothing.
    pub(super) fn read(folder: &Folder) -> Result<Option<Self>, OpenError> {
        let path = folder.manifest();
        match fs::read(&path) {
            Ok(bytes) => Self::decode(&bytes, folder).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::refuse_strangers(folder)?;
                Ok(None)
            }
            Err(error) => Err(cannot("read", &path)(error)),
        }
    }

    pub(super) fn write(&self, folder: &Folder) -> Result<(), OpenError> {
        self.replace(folder).map_err(cannot("write", &folder.manifest()))
    }

    pub(super) fn replace(&self, folder: &Folder) -> io::Result<()> {
        replace(&folder.manifest(), &folder.manifest_draft(), self.encode().as_bytes())
    }

    /// Without a manifest, only what the very first step leaves behind may be here.
    fn refuse_strangers(folder: &Folder) -> Result<(), OpenError> {
        let ours = [folder.lock(), folder.manifest_draft()];
        let entries = fs::read_dir(folder.root()).map_err(cannot("list", folder.root()))?;
        for entry in entries {
            let path = entry.map_err(cannot("list", folder.root()))?.path();
            if !ours.contains(&path) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let reason = format!("it has no `format` file and holds `{name}`; choose an empty folder");
                return Err(OpenError::Foreign { path: folder.root().to_owned(), reason });
            }
        }
        Ok(())
    }

    fn encode(&self) -> String {
        let state = match self.state {
            State::Creating => "creating",
            State::Ready => "ready",
        };
        checked(format!("{MAGIC}\nformat {FORMAT}\nstore {}\nstate {state}\nlog {}\n", self.store, self.log))
    }

    fn decode(bytes: &[u8], folder: &Folder) -> Result<Self, OpenError> {
        let path = folder.manifest();
        let foreign = |reason| OpenError::Foreign { path: folder.root().to_owned(), reason };
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let mut lines = text.lines();
        if lines.next() != Some(MAGIC) {
            return Err(foreign("its `format` file is not one of ours".to_owned()));
        }
        let mut field = |name: &str| {
            lines
                .next()
                .and_then(|line| line.strip_prefix(name)?.strip_prefix(' '))
                .ok_or_else(|| corrupt(&path, format!("line `{name} …` is missing")))
        };
        let format = field("format")?;
        let format = match format.parse::<u32>() {
            Ok(found @ 1..=FORMAT) => found,
            Ok(found) => {
                let reason = format!("it has format {found}, this version reads format {FORMAT}");
                return Err(foreign(reason));
            }
            Err(_) => return Err(corrupt(&path, format!("format `{format}` is not a number"))),
        };
        let (store, state) = (field("store")?, field("state")?);
        let log = if format == 1 { "0" } else { field("log")? };
        let check = field("check")?;
        let manifest = Self {
            store: parse_id(store).ok_or_else(|| corrupt(&path, "the store's id is unreadable"))?,
            state: match state {
                "creating" => State::Creating,
                "ready" => State::Ready,
                _ => return Err(corrupt(&path, format!("state `{state}` is unknown"))),
            },
            log: log.parse().map_err(|_| corrupt(&path, format!("log `{log}` is not a number")))?,
        };
        let is_whole = text.find("check ").is_some_and(|at| checked(text[..at].to_owned()) == text);
        if !is_whole {
            return Err(corrupt(&path, format!("check {check} does not fit its contents")));
        }
        Ok(manifest)
    }
}

/// The lines with their check.
fn checked(lines: String) -> String {
    let check = crc32fast::hash(lines.as_bytes());
    format!("{lines}check {check:08x}\n")
}

fn parse_id(hex: &str) -> Option<StoreId> {
    let mut id = [0; 16];
    if hex.len() != 32 || !hex.is_ascii() {
        return None;
    }
    for (index, byte) in id.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(StoreId(id))
}
