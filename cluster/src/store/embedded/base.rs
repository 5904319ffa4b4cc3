//! The engine underneath: everything up to the last checkpoint, as one sorted map with snapshots.
//!
//! This file is all that knows the engine (redb, a copy-on-write B-tree in one file). It is written to in one
//! big transaction per checkpoint, with its two-phase commit and the allocator's state stored along, so that
//! it opens as fast after a crash as after a clean stop.

use std::{
    cell::{Cell, RefCell},
    io,
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use redb::{Database, Range, ReadOnlyTable, ReadableDatabase, TableDefinition};

use super::{
    backend::Backend,
    files::sync_folder,
    folder::{cannot, corrupt},
    manifest::StoreId,
    overlay::Generation,
};
use crate::store::{KeyRange, OpenError};

const DATA: TableDefinition<&[u8], &[u8]> = TableDefinition::new("data");
const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
const APPLIED: &str = "applied";
const STORE: &str = "store";

/// The engine refused or failed.
#[derive(Debug, thiserror::Error)]
#[error("storage engine failed")]
pub(super) struct BaseError(#[source] redb::Error);

impl<E: Into<redb::Error>> From<E> for BaseError {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

/// The engine, open for writing. Only one thread writes.
#[derive(Debug)]
pub(super) struct Base {
    database: Database,
}

/// The contents at one checkpoint, for as long as it is held.
pub(super) struct Snapshot {
    data: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Base {
    /// Makes a new, empty engine file.
    pub(super) fn create(
        path: &Path,
        store: StoreId,
        cache_bytes: usize,
        backend: Backend,
    ) -> Result<Self, OpenError> {
        let base = Self::start(path, cache_bytes, backend)?;
        base.init(store).map_err(engine(path))?;
        path.parent().map_or(Ok(()), sync_folder).map_err(cannot("sync", path))?;
        Ok(base)
    }

    /// Opens the engine file of `store`.
    pub(super) fn open(
        path: &Path,
        store: StoreId,
        cache_bytes: usize,
        backend: Backend,
    ) -> Result<Self, OpenError> {
        let base = Self::start(path, cache_bytes, backend)?;
        match base.meta(STORE).map_err(engine(path))? {
            Some(found) if found[..] == store.0 => Ok(base),
            Some(_) => Err(corrupt(path, "it belongs to another store")),
            None => Err(corrupt(path, "it does not say which store it belongs to")),
        }
    }

    fn start(path: &Path, cache_bytes: usize, backend: Backend) -> Result<Self, OpenError> {
        // The header is the one part that the engine reads before anything has verified it, and it believes
        // some of it.
        let open = || Database::builder().set_cache_size(cache_bytes).create_with_backend(backend);
        match panic::catch_unwind(AssertUnwindSafe(open)) {
            Ok(Ok(database)) => Ok(Self { database }),
            Ok(Err(error)) => Err(engine(path)(BaseError(error.into()))),
            Err(_) => Err(corrupt(path, "the engine cannot read its header")),
        }
    }

    fn init(&self, store: StoreId) -> Result<(), BaseError> {
        let mut write = self.database.begin_write()?;
        write.set_quick_repair(true);
        write.open_table(DATA)?;
        write.open_table(META)?.insert(STORE, &store.0[..])?;
        Ok(write.commit()?)
    }

    /// The version of the last checkpoint; zero when there was none.
    pub(super) fn applied(&self) -> Result<u64, BaseError> {
        let applied = self.meta(APPLIED)?;
        let applied = applied.and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?)));
        Ok(applied.unwrap_or(0))
    }

    fn meta(&self, name: &str) -> Result<Option<Bytes>, BaseError> {
        match self.database.begin_read()?.open_table(META) {
            Ok(meta) => Ok(meta.get(name)?.map(|value| Bytes::copy_from_slice(value.value()))),
            Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the net effect of a frozen generation, and that everything up to its last version is in here.
    /// Gives the bytes of what was removed.
    pub(super) fn checkpoint(&self, generation: &Generation) -> Result<u64, BaseError> {
        let freed = Cell::new(0);
        let free = |key: &[u8], value: &[u8]| freed.set(freed.get() + (key.len() + value.len()) as u64);
        let mut write = self.database.begin_write()?;
        write.set_quick_repair(true);
        {
            // Both callbacks write to the same table, one after the other.
            let data = RefCell::new(write.open_table(DATA)?);
            generation.net::<BaseError>(
                |begin, end| {
                    let range = &begin[..]..&end[..];
                    Ok(data.borrow_mut().retain_in::<&[u8], _>(range, |key, value| {
                        free(key, value);
                        false
                    })?)
                },
                |key, value| {
                    let mut data = data.borrow_mut();
                    match value {
                        Some(value) => drop(data.insert(&key[..], &value[..])?),
                        None => {
                            data.remove(&key[..])?.inspect(|value| free(key, value.value()));
                        }
                    }
                    Ok(())
                },
            )?;
            write.open_table(META)?.insert(APPLIED, &generation.newest().to_le_bytes()[..])?;
        }
        write.commit()?;
        Ok(freed.get())
    }

    /// The contents now.
    pub(super) fn snapshot(&self) -> Result<Arc<Snapshot>, BaseError> {
        Ok(Arc::new(Snapshot { data: self.database.begin_read()?.open_table(DATA)? }))
    }
}

impl Snapshot {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BaseError> {
        Ok(self.data.get(key)?.map(|value| Bytes::copy_from_slice(value.value())))
    }

    pub(super) fn range(&self, range: &KeyRange) -> Result<Pairs, BaseError> {
        Ok(Pairs(self.data.range::<&[u8]>(&range.begin[..]..&range.end[..])?))
    }
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}

/// The pairs of a range, from either end.
pub(super) struct Pairs(Range<'static, &'static [u8], &'static [u8]>);

impl Pairs {
    pub(super) fn next(&mut self, reverse: bool) -> Result<Option<(Bytes, Bytes)>, BaseError> {
        let next = if reverse { self.0.next_back() } else { self.0.next() };
        let Some((key, value)) = next.transpose()? else { return Ok(None) };
        Ok(Some((Bytes::copy_from_slice(key.value()), Bytes::copy_from_slice(value.value()))))
    }
}

/// Says what an engine's error means for opening.
pub(super) fn engine(path: &Path) -> impl FnOnce(BaseError) -> OpenError {
    let path = path.to_owned();
    move |BaseError(error)| match error {
        redb::Error::Corrupted(reason) => OpenError::Corrupt { path, reason },
        redb::Error::Io(source) if source.kind() == io::ErrorKind::InvalidData => {
            OpenError::Corrupt { path, reason: source.to_string() }
        }
        redb::Error::Io(source) => OpenError::Io { action: "read", path, source },
        error => OpenError::Engine { path, source: Arc::new(error) },
    }
}
