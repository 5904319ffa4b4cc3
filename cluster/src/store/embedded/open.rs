//! Opening: from a folder to a running store.

use std::{
    fs, io,
    path::Path,
    sync::{Arc, OnceLock},
};

use tokio::sync::watch;

use super::{
    EmbeddedConfig,
    backend::Backend,
    base::{Base, engine},
    checkpoint::Checkpoints,
    committer::Committer,
    disk::Disk,
    files::{self, sync_folder},
    folder::{Folder, cannot, corrupt, is_full},
    lock::FolderLock,
    log::{self, Log, Mold, Supply},
    manifest::{Manifest, State},
    overlay::Generation,
    queue::Queue,
    readers::Readers,
    room::Room,
    shared::{Closing, Shared},
    stats::Stats,
    threads::{self, Threads},
    view::View,
};
use crate::store::OpenError;

pub(super) fn open(
    config: EmbeddedConfig,
) -> Result<(Arc<Shared>, Threads, watch::Receiver<bool>), OpenError> {
    let folder = Folder::new(config.path.clone());
    make_folder(folder.root())?;
    Manifest::read(&folder)?;
    let lock = FolderLock::take(&folder)?;
    // Read again: whoever held the lock before may have made it.
    let manifest = match Manifest::read(&folder)? {
        Some(manifest) => manifest,
        None => {
            let manifest = Manifest::new().map_err(cannot("make an id for", folder.root()))?;
            manifest.write(&folder)?;
            manifest
        }
    };
    let room = Arc::new(Room::new(folder.reserve(), config.reserve_bytes));
    if manifest.state == State::Creating {
        create(&folder, &manifest, &config, &room)?;
    }
    start(config, folder, manifest, room, lock)
}

fn make_folder(path: &Path) -> Result<(), OpenError> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => {
            let reason = "it is a file, not a folder".to_owned();
            return Err(OpenError::Foreign { path: path.to_owned(), reason });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot("look at", path)(error)),
    }
    let named = path.ancestors().filter(|path| !path.as_os_str().is_empty());
    let missing: Vec<_> = named.take_while(|path| !path.exists()).collect();
    for made in missing.into_iter().rev() {
        match files::create_folder(made) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made.map_err(cannot("make", path))?,
        }
        // Each is a name in the one above.
        if let Some(parent) = made.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_folder(parent).map_err(cannot("sync", parent))?;
        }
    }
    Ok(())
}

/// Makes the engine and the log from nothing. What a crash left of an earlier attempt is thrown away: nobody
/// can have committed to it.
fn create(
    folder: &Folder,
    manifest: &Manifest,
    config: &EmbeddedConfig,
    room: &Arc<Room>,
) -> Result<(), OpenError> {
    let (log, base) = (folder.log(), folder.base());
    match files::remove_folder(&log) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot("remove", &log)(error)),
        _ => {}
    }
    files::create_folder(&log).map_err(cannot("make", &log))?;
    let disk = Arc::new(Disk::new(config.is_durable(), Arc::new(Stats::new())));
    let backend = Backend::open(folder, true, disk, Arc::clone(room));
    Base::create(&base, manifest.store, config.cache_bytes, backend.map_err(cannot("make", &base))?)?;
    sync_folder(folder.root()).map_err(cannot("sync", folder.root()))?;
    Manifest { state: State::Ready, ..*manifest }.write(folder)
}

fn start(
    config: EmbeddedConfig,
    folder: Folder,
    manifest: Manifest,
    room: Arc<Room>,
    lock: FolderLock,
) -> Result<(Arc<Shared>, Threads, watch::Receiver<bool>), OpenError> {
    let (log_path, base_path) = (folder.log(), folder.base());
    for path in [&log_path, &base_path, &folder.sums()] {
        if !path.exists() {
            return Err(corrupt(path, "it is missing"));
        }
    }
    let durable = config.is_durable();
    let stats = Arc::new(Stats::new());
    let disk = Arc::new(Disk::new(durable, Arc::clone(&stats)));
    let recovered = log::recover(&log_path, manifest.store)?;
    recovered.check_newest(manifest.log, &log_path)?;
    let backend = Backend::open(&folder, false, Arc::clone(&disk), Arc::clone(&room));
    let backend = backend.map_err(cannot("open", &base_path))?;
    let base = Base::open(&base_path, manifest.store, config.cache_bytes, backend)?;
    let applied = base.applied().map_err(engine(&base_path))?;
    let active = Arc::new(Generation::new(applied));
    let last = recovered.replay(applied, |version, operations| {
        for operation in operations {
            active.add_bytes(operation.bytes());
            active.apply(operation, version, version);
        }
    })?;
    if durable {
        recovered.sync().map_err(cannot("sync", &log_path))?;
    }

    let spares_max = 3 * config.checkpoint_bytes / config.segment_bytes + 2;
    let sequence = recovered.next_sequence();
    let (sealed, spares) = recovered.into_files(applied);
    let mold = Mold {
        folder: folder.clone(),
        manifest: Manifest { state: State::Ready, ..manifest },
        segment_bytes: config.segment_bytes as u64,
        spares_max,
        durable,
    };
    let supply = Arc::new(Supply::new(mold, sequence, sealed, spares));
    let segment = match supply.first() {
        Ok(segment) => Some(segment),
        // Reads work, and the first commit will say so.
        Err(error) if is_full(&error) => None,
        Err(error) => return Err(cannot("make a segment in", &log_path)(error)),
    };
    let log = Log::new(segment, last, config.segment_bytes, Arc::clone(&supply), Arc::clone(&disk));
    let snapshot = base.snapshot().map_err(engine(&base_path))?;
    let view = View { active: Arc::clone(&active), frozen: None, base: snapshot };
    let shared = Arc::new(Shared {
        queue: Queue::new(config.queue_bytes),
        readers: Readers::new(last, view),
        checkpoints: Checkpoints::default(),
        supply,
        room,
        #[cfg(test)]
        disk,
        stats,
        failed: OnceLock::new(),
        closing: Closing::default(),
        config,
    });
    let committer = Committer::new(Arc::clone(&shared), log, active, last);
    let started = threads::start(&shared, committer, base, lock);
    let (threads, closed) = started.map_err(cannot("start a thread for", folder.root()))?;
    Ok((shared, threads, closed))
}
