//! redb: one table, one write transaction per commit.

use super::{
    CACHE, Engine, Result, Visit,
    own::{Base, Overlay},
};
use crate::load::Batch;
use ::redb::{Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};
use std::path::Path;

const DATA: TableDefinition<&[u8], &[u8]> = TableDefinition::new("data");

pub struct Redb {
    db: Database,
    quick_repair: bool,
}

impl Redb {
    /// `quick_repair`: two-phase commits that also store the allocator state.
    pub fn open(dir: &Path, quick_repair: bool) -> Result<Redb> {
        let db = Database::builder().set_cache_size(CACHE).create(dir.join("data.redb"))?;
        let txn = db.begin_write()?;
        txn.open_table(DATA)?;
        txn.commit()?;
        Ok(Redb { db, quick_repair })
    }

    fn begin(&self, durability: Durability) -> Result<WriteTransaction> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(durability)?;
        txn.set_quick_repair(self.quick_repair && matches!(durability, Durability::Immediate));
        Ok(txn)
    }

    fn write(&self, batch: &mut Batch, durability: Durability) -> Result<()> {
        batch.sort();
        let txn = self.begin(durability)?;
        {
            let mut table = txn.open_table(DATA)?;
            for op in batch.net() {
                match batch.value(op) {
                    Some(value) => drop(table.insert(batch.key(op), value)?),
                    None => drop(table.remove(batch.key(op))?),
                }
            }
        }
        Ok(txn.commit()?)
    }
}

impl Engine for Redb {
    fn commit(&mut self, batch: &mut Batch) -> Result<()> {
        self.write(batch, Durability::Immediate)
    }

    fn commit_relaxed(&mut self, batch: &mut Batch) -> Result<()> {
        self.write(batch, Durability::None)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = self.db.begin_read()?.open_table(DATA)?;
        Ok(table.get(key)?.map(|value| value.value().to_vec()))
    }

    fn scan(&self, low: &[u8], high: &[u8], visit: Visit) -> Result<()> {
        let table = self.db.begin_read()?.open_table(DATA)?;
        for pair in table.range(low..high)? {
            let (key, value) = pair?;
            if !visit(key.value(), value.value()) {
                break;
            }
        }
        Ok(())
    }
}

impl Base for Redb {
    fn apply(&self, overlay: &Overlay) -> Result<()> {
        let txn = self.begin(Durability::Immediate)?;
        {
            let mut table = txn.open_table(DATA)?;
            for (key, entry) in overlay {
                match &entry.value {
                    Some(value) => drop(table.insert(&key[..], &value[..])?),
                    None => drop(table.remove(&key[..])?),
                }
            }
        }
        Ok(txn.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Engine::get(self, key)
    }

    fn scan(&self, low: &[u8], high: &[u8], visit: Visit) -> Result<()> {
        Engine::scan(self, low, high, visit)
    }
}
