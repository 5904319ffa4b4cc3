//! Every change to the store's files and to their names: one place, so that a test can cut the power between
//! any two of them.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::Path,
};

#[cfg(test)]
use super::power;

/// Makes a file, or empties the one that is there.
pub(super) fn create(path: &Path) -> io::Result<File> {
    #[cfg(test)]
    let _on = power::create(path);
    OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)
}

/// Opens a file for writing.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Writes at an offset.
pub(super) fn write_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    #[cfg(test)]
    let _on = power::write(file, offset, bytes.len());
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}

pub(super) fn set_len(file: &File, len: u64) -> io::Result<()> {
    #[cfg(test)]
    let _on = power::resize(file, len);
    file.set_len(len)
}

/// Makes the contents of a file durable.
pub(super) fn sync_data(file: &File) -> io::Result<()> {
    #[cfg(test)]
    if power::sync(file) {
        return Ok(());
    }
    file.sync_data()
}

/// Makes a file durable with all that the system knows about it.
pub(super) fn sync_all(file: &File) -> io::Result<()> {
    #[cfg(test)]
    if power::sync(file) {
        return Ok(());
    }
    file.sync_all()
}

pub(super) fn create_folder(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    let _on = power::create(path);
    fs::create_dir(path)
}

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(test)]
    let _on = power::rename(from, to);
    fs::rename(from, to)
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    let _on = power::remove(path);
    fs::remove_file(path)
}

/// Removes a folder and what is in it.
pub(super) fn remove_folder(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    let _on = power::remove(path);
    fs::remove_dir_all(path)
}

/// Makes the names in a folder durable: a new, renamed or removed file is only certain after this.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    #[cfg(test)]
    if power::sync_folder(path) {
        return Ok(());
    }
    // Elsewhere a folder cannot be opened as a file, and its journal takes care of names.
    if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
}

/// Replaces a file by a complete and durable new one, or leaves it alone.
pub(super) fn replace(path: &Path, draft: &Path, contents: &[u8]) -> io::Result<()> {
    let file = create(draft)?;
    write_at(&file, contents, 0)?;
    sync_all(&file)?;
    rename(draft, path)?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Fills a new file with zeros up to `bytes`, so that later writes change no metadata and sync faster.
pub(super) fn fill_with_zeros(file: &File, bytes: u64) -> io::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let zeros = vec![0; usize::try_from(bytes.min(CHUNK)).unwrap_or(0)];
    let mut at = 0;
    while at < bytes {
        let step = (bytes - at).min(CHUNK);
        write_at(file, &zeros[..usize::try_from(step).unwrap_or(0)], at)?;
        at += step;
    }
    Ok(())
}
