//! The engines behind one small interface.

mod fjall;
mod own;
mod raw;
mod redb;

use crate::load::Batch;
use std::path::Path;

pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;

/// Cache given to every engine.
pub const CACHE: usize = 256 << 20;

/// Called with each pair of a scan; `false` ends it.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> bool;

pub trait Engine {
    /// Commits one batch; it is durable when this returns.
    fn commit(&mut self, batch: &mut Batch) -> Result<()>;

    /// Commits one batch without waiting for the disk.
    fn commit_relaxed(&mut self, batch: &mut Batch) -> Result<()> {
        self.commit(batch)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Visits `low..high` in order.
    fn scan(&self, low: &[u8], high: &[u8], visit: Visit) -> Result<()>;

    /// Engine-specific remarks for the report.
    fn note(&self) -> String {
        String::new()
    }
}

/// Opens the engine called `name` in `dir`.
pub fn open(name: &str, dir: &Path) -> Result<Box<dyn Engine>> {
    std::fs::create_dir_all(dir)?;
    Ok(match name {
        "raw" => Box::new(raw::Raw::open(dir, raw::Space::Grow)?),
        "raw-falloc" => Box::new(raw::Raw::open(dir, raw::Space::Reserve)?),
        "raw-zeroed" => Box::new(raw::Raw::open(dir, raw::Space::Zero)?),
        "fjall" => Box::new(fjall::Fjall::open(dir, 64 << 20, false)?),
        "fjall-8m" => Box::new(fjall::Fjall::open(dir, 8 << 20, false)?),
        "fjall-weak" => Box::new(fjall::Fjall::open(dir, 64 << 20, true)?),
        "redb" => Box::new(redb::Redb::open(dir, false)?),
        "redb-2pc" => Box::new(redb::Redb::open(dir, true)?),
        "own-redb" => Box::new(own::Own::open(dir, redb::Redb::open(dir, true)?)?),
        "own-fjall" => {
            let base = fjall::Fjall::open(&dir.join("base"), 64 << 20, false)?;
            Box::new(own::Own::open(dir, base)?)
        }
        _ => return Err(format!("no engine {name}").into()),
    })
}
