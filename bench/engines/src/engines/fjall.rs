//! fjall: one keyspace, a `WriteBatch` per commit, `SyncData`.

use super::{
    CACHE, Engine, Result, Visit,
    own::{Base, Overlay},
};
use crate::load::Batch;
use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

pub struct Fjall {
    db: Database,
    data: Keyspace,
    weak: bool,
}

impl Fjall {
    /// `weak`: clear with weak tombstones (keys are written only once).
    pub fn open(dir: &Path, memtable: u64, weak: bool) -> Result<Fjall> {
        let db = Database::builder(dir.join("fjall")).cache_size(CACHE as u64).open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable);
        let data = db.keyspace("data", options)?;
        Ok(Fjall { db, data, weak })
    }

    fn write(&self, batch: &mut Batch, mode: PersistMode) -> Result<()> {
        batch.sort();
        let mut write = self.db.batch().durability(Some(mode));
        for op in batch.net() {
            match batch.value(op) {
                Some(value) => write.insert(&self.data, batch.key(op), value),
                None if self.weak => write.remove_weak(&self.data, batch.key(op)),
                None => write.remove(&self.data, batch.key(op)),
            }
        }
        Ok(write.commit()?)
    }
}

impl Engine for Fjall {
    fn commit(&mut self, batch: &mut Batch) -> Result<()> {
        self.write(batch, PersistMode::SyncData)
    }

    fn commit_relaxed(&mut self, batch: &mut Batch) -> Result<()> {
        self.write(batch, PersistMode::Buffer)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.data.get(key)?.map(|value| value.to_vec()))
    }

    fn scan(&self, low: &[u8], high: &[u8], visit: Visit) -> Result<()> {
        for guard in self.data.range(low..high) {
            let (key, value) = guard.into_inner()?;
            if !visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn note(&self) -> String {
        let tables = self.data.table_count();
        let done = self.db.compactions_completed();
        let journals = self.db.journal_count();
        format!("{tables} tables, {done} compactions, {journals} journals")
    }
}

impl Base for Fjall {
    fn apply(&self, overlay: &Overlay) -> Result<()> {
        let mut write = self.db.batch().durability(Some(PersistMode::SyncData));
        for (key, entry) in overlay {
            match &entry.value {
                Some(value) => write.insert(&self.data, &key[..], &value[..]),
                // Bloom filters make this cheap; it keeps tombstones out.
                None if !self.data.contains_key(key)? => {}
                None => write.remove(&self.data, &key[..]),
            }
        }
        Ok(write.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Engine::get(self, key)
    }

    fn scan(&self, low: &[u8], high: &[u8], visit: Visit) -> Result<()> {
        Engine::scan(self, low, high, visit)
    }
}
