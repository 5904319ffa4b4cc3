//! Fetching items: what they are given, how they stand, and what their last attempt left.

use std::{collections::BTreeMap, fmt::Display};

use bytes::Bytes;
use cadre_cluster::{
    address::Address,
    host::{EffectError, read_entity},
    keys,
    store::{KeyRange, RangeRead, Store, Transaction},
};

use super::{ItemRecord, JobItem, Loaded, Named, decode_view, kind, run_id};
use crate::{
    entity::{Session, records},
    exec::{Outcome, Run, Source},
    fact::{
        Failure,
        id::{Id, ItemId, JobId, SessionId},
    },
    view::ItemView,
};

/// How many items are fetched at once.
pub const ITEMS_MAX: u32 = 64;
/// What they may take in the state of the job, which holds up to a thousand slots and an instruction beside.
pub const BYTES_MAX: usize = 20 * 1024;
/// What is read at a time.
const PAGE_BYTES: usize = 128 * 1024;
/// What is kept of a former attempt; one that left more is forgotten.
const FORMER_BYTES_MAX: usize = 4 * 1024;

/// The first items of `ranges`: at least one, then as many as fit.
pub async fn load(
    store: &Store,
    tenant: &str,
    (job, base): (&JobId, &str),
    ranges: &[(u32, u32)],
    again: bool,
) -> Result<Outcome, EffectError> {
    let tx = store.begin();
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (from, to) in ranges {
        let (inputs, known) = read(&tx, tenant, records::item, job, (*from, *to)).await?;
        let (views, known) = read(&tx, tenant, records::item_view, job, (*from, known)).await?;
        for index in *from..known {
            let view = match views.get(&index) {
                Some(value) => {
                    Some(decode_view(value).map_err(|error| EffectError::fatal(error.to_string()))?)
                }
                None => None,
            };
            let former = match &view {
                Some(view) if again => former(&tx, tenant, base, index, view).await?,
                _ => None,
            };
            let (item, input) = input(inputs.get(&index), index);
            let loaded = Loaded { index, item, input, view: Named(view.map(Box::new)), former };
            bytes += loaded.size();
            if !found.is_empty() && (bytes > BYTES_MAX || found.len() >= ITEMS_MAX as usize) {
                return Ok(Outcome::Items(found));
            }
            found.push(loaded);
        }
        if known < *to {
            break;
        }
    }
    Ok(Outcome::Items(found))
}

/// Whether a session takes new work.
pub async fn is_open(store: &Store, tenant: &str, session: &SessionId) -> Result<Outcome, EffectError> {
    let address = Address::new(tenant, kind::SESSION, session.as_str()).map_err(unreadable)?;
    let stored = store.begin().snapshot_get(&keys::state(&address)).await.map_err(unreadable)?;
    let read = |stored: Bytes| read_entity::<Session>(&stored).map(|(_, state)| state);
    let state = stored.map(read).transpose().map_err(|error| EffectError::fatal(error.to_string()))?;
    let is_archived = state.and_then(|state| state.work).is_some_and(|work| work.archived);
    Ok(Outcome::IsOpen { open: !is_archived })
}

/// What an item is given.
fn input(stored: Option<&Bytes>, index: u32) -> (ItemId, Result<Source, Failure>) {
    let unnamed = || ItemId::with_suffix(&index.to_string());
    let record = match stored.map(|stored| ItemRecord::decode(stored)) {
        Some(Ok(record)) => record,
        Some(Err(error)) => return (unnamed(), Err(Failure::new("internal", error.to_string()))),
        None => return (unnamed(), Err(Failure::new("not_found", format!("there is no item {index}")))),
    };
    let source = match record.blob {
        Some(blob) => Source::Stored(blob),
        None => Source::Inline(record.input),
    };
    if source.size() > Source::INLINE_BYTES_MAX {
        let message =
            format!("{} bytes are more than the limit of {}", source.size(), Source::INLINE_BYTES_MAX);
        return (record.item_id, Err(Failure::new("payload_too_large", message)));
    }
    (record.item_id, Ok(source))
}

/// What the last attempt left, without what it was given.
async fn former(
    tx: &Transaction,
    tenant: &str,
    base: &str,
    index: u32,
    view: &ItemView,
) -> Result<Option<Box<Run>>, EffectError> {
    let run = run_id(base, index, view.attempts_total);
    let address = Address::new(tenant, kind::ITEM, run.as_str()).map_err(unreadable)?;
    let Some(stored) = tx.snapshot_get(&keys::state(&address)).await.map_err(unreadable)? else {
        return Ok(None);
    };
    let (_, state) =
        read_entity::<JobItem>(&stored).map_err(|error| EffectError::fatal(error.to_string()))?;
    let run = state.work.map(|work| work.run.without_source());
    let fits = |run: &Run| rmp_serde::to_vec(run).is_ok_and(|bytes| bytes.len() <= FORMER_BYTES_MAX);
    Ok(run.filter(fits).map(Box::new))
}

/// A range of records by index, and up to where they are known: a page ends where it is large enough.
pub(super) async fn read(
    tx: &Transaction,
    tenant: &str,
    path: fn(&JobId, u32) -> Vec<u8>,
    job: &JobId,
    (from, to): (u32, u32),
) -> Result<(BTreeMap<u32, Bytes>, u32), EffectError> {
    let range = KeyRange::new(keys::data(tenant, &path(job, from)), keys::data(tenant, &path(job, to)));
    let read = RangeRead::new(range).limit((to - from) as usize).target_bytes(PAGE_BYTES);
    let page = tx.snapshot_range(&read).await.map_err(unreadable)?;
    let index = |key: &[u8]| records::item_index(keys::data_path(key, tenant)?);
    let found: BTreeMap<u32, Bytes> =
        page.pairs.into_iter().filter_map(|pair| Some((index(&pair.key)?, pair.value))).collect();
    let known = found.last_key_value().filter(|_| page.more).map_or(to, |(last, _)| last + 1);
    Ok((found, known))
}

fn unreadable(error: impl Display) -> EffectError {
    EffectError::transient(error.to_string())
}
