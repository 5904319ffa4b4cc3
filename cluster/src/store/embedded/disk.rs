//! Writing and syncing, and, in tests, failing to.

use std::{fs::File, io, sync::Arc};

use super::{files, stats::Stats};

#[derive(Debug)]
pub(super) struct Disk {
    durable: bool,
    stats: Arc<Stats>,
    #[cfg(test)]
    pub(super) faults: Faults,
}

impl Disk {
    pub(super) fn new(durable: bool, stats: Arc<Stats>) -> Self {
        Self {
            durable,
            stats,
            #[cfg(test)]
            faults: Faults::default(),
        }
    }

    pub(super) fn write(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        #[cfg(test)]
        if let Some((error, kept)) = self.faults.next(Step::Write) {
            files::write_at(file, &bytes[..kept.min(bytes.len())], offset)?;
            return Err(error);
        }
        files::write_at(file, bytes, offset)
    }

    /// Makes what was written durable.
    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        #[cfg(test)]
        if let Some((error, _)) = self.faults.next(Step::Sync) {
            return Err(error);
        }
        if self.durable { self.stats.sync(|| files::sync_data(file)) } else { Ok(()) }
    }

    /// Syncs a file of the engine.
    pub(super) fn sync_engine(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        #[cfg(test)]
        if let Some((error, _)) = self.faults.next(Step::SyncEngine) {
            return Err(error);
        }
        if self.durable { sync() } else { Ok(()) }
    }

    /// Cuts a file off, durably.
    pub(super) fn cut(&self, file: &File, len: u64) -> io::Result<()> {
        #[cfg(test)]
        if let Some((error, _)) = self.faults.next(Step::Cut) {
            return Err(error);
        }
        files::set_len(file, len)?;
        if self.durable { files::sync_all(file) } else { Ok(()) }
    }
}

#[cfg(test)]
pub(super) use faults::{Faults, Step};

#[cfg(test)]
mod faults {
    use std::{collections::VecDeque, io, sync::Mutex};

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Step {
        Write,
        Sync,
        SyncEngine,
        Cut,
    }

    /// What is to fail, and with what.
    #[derive(Debug, Default)]
    pub(crate) struct Faults(Mutex<VecDeque<(Step, io::ErrorKind, usize)>>);

    impl Faults {
        /// The next `step` fails, the next one after that which is asked for fails after it, and so on. A
        /// failing write leaves `kept` bytes behind.
        pub(crate) fn plan(&self, step: Step, error: io::ErrorKind, kept: usize) {
            self.0.lock().unwrap().push_back((step, error, kept));
        }

        pub(super) fn next(&self, step: Step) -> Option<(io::Error, usize)> {
            let mut plan = self.0.lock().unwrap();
            let (planned, error, kept) = *plan.front()?;
            (planned == step).then(|| {
                plan.pop_front();
                (error.into(), kept)
            })
        }
    }
}
