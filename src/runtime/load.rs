//! Reading what entities have stored, all at one moment.

use std::collections::BTreeMap;

use bytes::Bytes;
use cadre_cluster::{
    codec,
    host::{Entity, read_entity},
    keys,
    store::{KeyRange, KeyValue, RangeRead, Transaction, key_after},
};
use futures::TryStreamExt;
use serde::Serialize;

use super::{
    Caller, Request, Runtime,
    failure::{undecodable, unreadable},
};
use crate::{
    control::Error,
    entity::{Session, records, session},
    fact::id::{ActionId, SessionId},
};

/// Entries that a page of a list looks at, at most, in search of those with the right status.
const LOOKED_AT_MAX: usize = 2_000;
/// After so much, as JSON, a list that is served stops, and says where to go on (P9): one entry may be dozens of kilobytes.
pub(super) const SERVED_BYTES_MAX: usize = 1024 * 1024;
/// More than there are statuses of anything.
const STATUSES_MAX: usize = 64;

impl Runtime {
    /// The state of an entity, if there is one.
    pub(super) async fn load<E: Entity>(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        id: &str,
    ) -> Result<Option<E::State>, Error> {
        let address = request.address(E::KIND, id);
        let stored = tx.snapshot_get(&keys::state(&address)).await.map_err(unreadable)?;
        stored
            .map(|stored| read_entity::<E>(&stored).map(|(_, state)| state).map_err(undecodable))
            .transpose()
    }

    /// A session that exists.
    pub(super) async fn session(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        id: &SessionId,
    ) -> Result<(session::State, session::Work), Error> {
        let state = self.load::<Session>(tx, request, id.as_str()).await?;
        let mut state = state.ok_or_else(|| Error::not_found("session", id))?;
        let work = state.work.take().ok_or_else(|| Error::not_found("session", id))?;
        Ok((state, work))
    }

    /// A session that takes new work.
    pub(super) async fn open_session(&self, request: &Request<'_>, id: &SessionId) -> Result<(), Error> {
        let (_, work) = self.session(&self.store.begin(), request, id).await?;
        // What was asked for before the session was archived may have been done then.
        if work.archived && !request.repeated {
            let message = format!("the session {id} is archived and takes no new work");
            return Err(Error::conflict("archived", message));
        }
        Ok(())
    }

    /// Which entity asks.
    pub(super) async fn owner(
        &self,
        request: &Request<'_>,
        action: &ActionId,
    ) -> Result<records::Owner, Error> {
        let key = keys::data(&request.caller.tenant, &records::action(action));
        let stored = self.store.begin().snapshot_get(&key).await.map_err(unreadable)?;
        let stored = stored.ok_or_else(|| Error::not_found("action", action))?;
        codec::decode(&stored).map_err(undecodable)
    }

    /// A page of a list as it is served: it ends, too, when there is enough to read.
    pub(super) async fn served_page<T, F>(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        list: List<'_>,
        limit: usize,
        look: impl Fn(String) -> F,
    ) -> Result<(Vec<T>, Option<String>), Error>
    where
        T: Serialize,
        F: Future<Output = Result<Option<T>, Error>>,
    {
        let mut room = Room(SERVED_BYTES_MAX);
        self.page_while(tx, request, list, limit, look, |entry| room.take(entry)).await
    }

    /// Whether somebody is waited for to decide that.
    pub async fn is_pending(&self, caller: &Caller, action: &ActionId) -> bool {
        let key = keys::data(&caller.tenant, &records::action(action));
        let Ok(Some(stored)) = self.store.begin().snapshot_get(&key).await else { return false };
        codec::decode::<records::Owner>(&stored).is_ok_and(|owner| owner.status.is_none())
    }

    /// The ids of a list, from after a position, with what `look` makes of each: `None` leaves it out. Where to go on,
    /// when there is more.
    pub(super) async fn page<T, F>(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        list: List<'_>,
        limit: usize,
        look: impl Fn(String) -> F,
    ) -> Result<(Vec<T>, Option<String>), Error>
    where
        F: Future<Output = Result<Option<T>, Error>>,
    {
        self.page_while(tx, request, list, limit, look, |_| true).await
    }

    /// A page that ends after the entry with which there is no more room.
    async fn page_while<T, F>(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        list: List<'_>,
        limit: usize,
        look: impl Fn(String) -> F,
        mut has_room: impl FnMut(&T) -> bool,
    ) -> Result<(Vec<T>, Option<String>), Error>
    where
        F: Future<Output = Result<Option<T>, Error>>,
    {
        let data = keys::data(&request.caller.tenant, &[]).len();
        let prefix = keys::data(&request.caller.tenant, &list.prefix);
        let mut range = KeyRange::prefix(prefix.to_vec());
        if let Some(after) = list.after {
            let rest =
                unhex(after).ok_or_else(|| Error::invalid(list.field, "is not a position in this list"))?;
            let at: Bytes = [&prefix[..], &rest].concat().into();
            range = if list.newest_first {
                KeyRange::new(range.begin, at)
            } else {
                KeyRange::new(key_after(&at), range.end)
            };
        }
        let (mut found, mut looked, mut last, mut is_full) = (Vec::new(), 0, None, false);
        loop {
            let mut read = RangeRead::new(range.clone()).limit(limit.min(256) + 1);
            if list.newest_first {
                read = read.reverse();
            }
            let page = tx.snapshot_range(&read).await.map_err(unreadable)?;
            for pair in &page.pairs {
                if is_full || found.len() >= limit || looked >= LOOKED_AT_MAX {
                    return Ok((found, last));
                }
                looked += 1;
                if let Some(id) = records::last_id(&pair.key[data..])
                    && let Some(entry) = look(id).await?
                {
                    is_full = !has_room(&entry);
                    found.push(entry);
                }
                last = Some(hex(&pair.key[prefix.len()..]));
                range = if list.newest_first {
                    KeyRange::new(range.begin, pair.key.clone())
                } else {
                    KeyRange::new(key_after(&pair.key), range.end)
                };
            }
            if !page.more {
                return Ok((found, None));
            }
        }
    }

    /// Counts of a session, by status.
    pub(super) async fn counts(
        &self,
        tx: &Transaction,
        request: &Request<'_>,
        session: &SessionId,
        what: &str,
    ) -> Result<BTreeMap<String, i64>, Error> {
        let tenant = &request.caller.tenant;
        let data = keys::data(tenant, &[]).len();
        let range = KeyRange::prefix(keys::data(tenant, &records::counts(session, what)).to_vec());
        // A page may be shorter than was asked for.
        let read = RangeRead::new(range).limit(STATUSES_MAX);
        let pairs: Vec<KeyValue> = tx.snapshot_stream(read).try_collect().await.map_err(unreadable)?;
        let counts = pairs.iter().filter_map(|pair| {
            let status = records::last_id(&pair.key[data..])?;
            let count = i64::from_le_bytes(pair.value[..].try_into().ok()?);
            (count != 0).then_some((status, count))
        });
        Ok(counts.collect())
    }
}

/// How much more an answer may carry; at `usize::MAX` as much as there is.
pub(super) struct Room(pub usize);

impl Room {
    /// Takes what an entry is as JSON. Whether there is room for another one.
    pub(super) fn take<T: Serialize>(&mut self, entry: &T) -> bool {
        if self.0 == usize::MAX {
            return true;
        }
        let mut bytes = Count(0);
        serde_json::to_writer(&mut bytes, entry).expect("views serialize into memory without fail");
        self.0 = self.0.saturating_sub(bytes.0);
        self.0 > 0
    }
}

/// Counts what is written.
struct Count(usize);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A list of records.
pub(super) struct List<'a> {
    /// What all entries start with.
    pub prefix: Vec<u8>,
    /// Where to begin.
    pub after: Option<&'a str>,
    /// What the caller calls that.
    pub field: &'static str,
    /// Whether to begin at the end.
    pub newest_first: bool,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
