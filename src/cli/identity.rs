//! Which installation this is: an id that is made once and kept beside the data, so that facts of two servers can be told
//! apart and those of one, however often it was started, are of one.

use std::{fs, io::ErrorKind, path::Path};

use anyhow::Context;
use cadre::fact::id::SessionId;
use rand::TryRngCore;

/// Where it is kept, in the data folder.
const FILE: &str = "runtime-id";

/// The id of the installation whose data this folder has. Whoever asks owns the folder.
pub fn of(data: &Path) -> anyhow::Result<String> {
    let path = data.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => {
            valid(text.trim()).map_err(anyhow::Error::msg).with_context(|| path.display().to_string())
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let made = format!("cadre_{:016x}", rand::rngs::OsRng.try_next_u64()?);
            // As a whole or not at all: half an id would be another one.
            let whole = data.join(format!("{FILE}.new"));
            fs::write(&whole, format!("{made}\n")).with_context(|| whole.display().to_string())?;
            fs::rename(&whole, &path).with_context(|| path.display().to_string())?;
            Ok(made)
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// An id of an installation, or the version of a schema: of the letters that ids have.
pub fn valid(text: &str) -> Result<String, String> {
    SessionId::parse(text).map(|_| text.to_owned()).map_err(|_| format!("{text:?} is not an id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_is_named_once_and_two_are_not_named_alike() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = of(one.path()).unwrap();
        assert_eq!(of(one.path()).unwrap(), first);
        assert_ne!(of(two.path()).unwrap(), first);
        assert!(valid(&first).is_ok() && valid("lime-profile-0.5.0").is_ok());
    }

    #[test]
    fn what_is_no_id_is_refused_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "two words", "a/b", "é"] {
            assert!(valid(text).is_err(), "{text}");
            fs::write(folder.path().join(FILE), text).unwrap();
            assert!(of(folder.path()).is_err(), "{text}");
            assert_eq!(fs::read_to_string(folder.path().join(FILE)).unwrap(), text);
        }
    }
}
