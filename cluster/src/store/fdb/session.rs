//! One transaction of the client library.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use foundationdb::{
    FdbError, FdbResult, KeySelector, RangeOption, Transaction,
    options::{ConflictRangeType, MutationType, StreamingMode},
};

use super::{
    connection::Connection,
    error,
    prefix::{Prefix, stamped_value},
};
use crate::store::{
    Commit, CommitError, Committed, KeyValue, Limits, Mutation, Page, RangeRead, ReadError, Session, Stamp,
    Version,
};

/// What the cluster counts for each pair of a page on top of its bytes.
const PAIR_OVERHEAD: usize = 8;

/// See the module.
pub(super) struct FdbSession {
    connection: Arc<Connection>,
    prefix: Prefix,
    limits: Limits,
    transaction: OnceLock<Transaction>,
}

impl FdbSession {
    pub(super) fn new(connection: Arc<Connection>, prefix: Prefix, limits: Limits) -> Self {
        Self { connection, prefix, limits, transaction: OnceLock::new() }
    }

    /// Begun at the first use.
    fn transaction(&self) -> FdbResult<&Transaction> {
        match self.transaction.get() {
            Some(transaction) => Ok(transaction),
            None => {
                let transaction = self.connection.begin()?;
                Ok(self.transaction.get_or_init(|| transaction))
            }
        }
    }

    async fn read_key(&self, key: &[u8]) -> FdbResult<Option<Bytes>> {
        let value = self.transaction()?.get(&self.prefix.key(key), true);
        let value = self.connection.wait(value).await?;
        Ok(value.map(|value| Bytes::copy_from_slice(&value)))
    }

    /// The cluster answers with what one of its servers has at hand. A page goes on until it is full or the
    /// range ends, so that its size does not depend on where the data happens to be.
    async fn read_range(&self, read: &RangeRead) -> FdbResult<Page> {
        let mut page = Page::default();
        if read.range.is_empty() || read.limit == 0 {
            return Ok(page);
        }
        let transaction = self.transaction()?;
        let (begin, end) = self.prefix.range(&read.range);
        let mut rest = RangeOption {
            begin: KeySelector::first_greater_or_equal(begin),
            end: KeySelector::first_greater_or_equal(end),
            limit: Some(read.limit),
            // Zero would mean that there is no bound.
            target_bytes: read.target_bytes.max(1),
            mode: StreamingMode::Exact,
            reverse: read.reverse,
            ..RangeOption::default()
        };
        loop {
            let values = self.connection.wait(transaction.get_range(&rest, 1, true)).await?;
            assert!(!values.more() || !values.is_empty(), "an empty answer ends a range");
            let mut bytes = 0;
            for value in &values {
                bytes += value.key().len() + value.value().len() + PAIR_OVERHEAD;
                page.pairs.push(KeyValue {
                    key: Bytes::copy_from_slice(self.prefix.strip(value.key())),
                    value: Bytes::copy_from_slice(value.value()),
                });
            }
            page.more = values.more();
            let left = rest.target_bytes.saturating_sub(bytes);
            rest = match rest.next_range(&values) {
                Some(next) if left > 0 => RangeOption { target_bytes: left, ..next },
                _ => return Ok(page),
            };
        }
    }

    /// Hands everything over and commits. The stamp has to be asked for before, and is known after.
    async fn write(mut self, commit: &Commit) -> FdbResult<Stamp> {
        let transaction = match self.transaction.take() {
            Some(transaction) => transaction,
            None => self.connection.begin()?,
        };
        for range in &commit.reads {
            let (begin, end) = self.prefix.range(range);
            transaction.add_conflict_range(&begin, &end, ConflictRangeType::Read)?;
        }
        for mutation in &commit.mutations {
            apply(&transaction, &self.prefix, mutation);
        }
        let stamp = transaction.get_versionstamp();
        self.connection.wait(transaction.commit()).await?;
        // Confirmed, but nobody can say as what: for the caller no different from not knowing.
        let unknown = |_| FdbError::from_code(error::COMMIT_UNKNOWN_RESULT);
        let stamp = self.connection.wait(stamp).await.map_err(unknown)?;
        let stamp: [u8; Stamp::LEN] = stamp[..].try_into().expect("a versionstamp has ten bytes");
        Ok(stamp.into())
    }
}

#[async_trait]
impl Session for FdbSession {
    async fn read_version(&self) -> Result<Version, ReadError> {
        let refused = |error| error::read(error, 0, &self.limits);
        let version = self.transaction().map_err(refused)?.get_read_version();
        let version = self.connection.wait(version).await.map_err(refused)?;
        Ok(Version(u64::try_from(version).expect("versions of a cluster are positive")))
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        self.read_key(key).await.map_err(|error| error::read(error, key.len(), &self.limits))
    }

    async fn range(&self, read: &RangeRead) -> Result<Page, ReadError> {
        let key_bytes = read.range.begin.len().max(read.range.end.len());
        self.read_range(read).await.map_err(|error| error::read(error, key_bytes, &self.limits))
    }

    async fn commit(self: Box<Self>, commit: Commit) -> Result<Committed, CommitError> {
        let limits = self.limits;
        let refused = |error: FdbError| error::commit(error, &commit, &limits);
        let stamp = self.write(&commit).await.map_err(refused)?;
        Ok(Committed { stamp })
    }
}

fn apply(transaction: &Transaction, prefix: &Prefix, mutation: &Mutation) {
    match mutation {
        Mutation::Set { key, value } => transaction.set(&prefix.key(key), value),
        Mutation::Clear { key } => transaction.clear(&prefix.key(key)),
        Mutation::ClearRange { range } => {
            let (begin, end) = prefix.range(range);
            transaction.clear_range(&begin, &end);
        }
        Mutation::Add { key, delta } => {
            transaction.atomic_op(&prefix.key(key), &delta.to_le_bytes(), MutationType::Add);
        }
        Mutation::SetStampedKey { key, offset, value } => {
            let key = prefix.stamped_key(key, *offset);
            transaction.atomic_op(&key, value, MutationType::SetVersionstampedKey);
        }
        Mutation::SetStampedValue { key, value, offset } => {
            let value = stamped_value(value, *offset);
            transaction.atomic_op(&prefix.key(key), &value, MutationType::SetVersionstampedValue);
        }
    }
}
