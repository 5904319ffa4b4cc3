//! Removing items: those of a job that ended long ago, and those of one that never began.
//!
//! Which inputs are kept apart, and which attempts were made, stands in the records, so an effect looks first. It removes
//! what is kept apart, under names that are never used again; the records themselves go in the step that follows, some at a
//! time, and with them the entities of the attempts.

use bytes::Bytes;
use cadre_cluster::{
    host::{EffectError, EffectPolicy, EffectResult},
    store::Store,
};

use super::{ItemRecord, decode_view, load, run_id};
use crate::{
    blob::Blobs,
    entity::{Message, kind, records},
    exec::{Draft, Effect, Outcome},
    fact::id::JobId,
};

/// How many items go with one step: their keys and messages come to less than a tenth of what a step may write.
pub const ITEMS_AT_ONCE: u32 = 250;
/// When to look again after the store could not be read for long.
const PAUSE_MS: u64 = 60_000;

/// What the effect is called.
pub(super) fn name(below: u32) -> String {
    format!("remove/{below}")
}

/// Has the next ones looked at.
pub(super) fn look(draft: &mut Draft<'_>, job: &JobId, below: u32, items: u32) {
    let to = items.min(below.saturating_add(ITEMS_AT_ONCE));
    let policy = EffectPolicy { attempts_max: 10, ..EffectPolicy::default() };
    draft.start_effect(name(below), Effect::Remove { job: job.clone(), from: below, to }, policy);
}

/// Removes those that were looked at, and has the next ones looked at. Says how many are gone in all.
pub(super) fn clear(
    draft: &mut Draft<'_>,
    (job, base): (&JobId, &str),
    below: u32,
    items: u32,
    result: EffectResult<Outcome>,
) -> u32 {
    let EffectResult::Done(Outcome::Removed { to, attempts }) = result else {
        draft.set_timer("expire", draft.now.in_ms(PAUSE_MS));
        return below;
    };
    for index in below..to {
        draft.clear_record(records::item(job, index));
        draft.clear_record(records::item_view(job, index));
    }
    for (index, attempt) in attempts {
        forget(draft, base, index, attempt);
    }
    if to < items {
        look(draft, job, to, items);
    }
    to
}

/// Tells an attempt that nobody needs it any more.
pub(super) fn forget(draft: &mut Draft<'_>, base: &str, index: u32, attempt: u32) {
    let to = draft.peer(kind::ITEM, run_id(base, index, attempt).as_str());
    draft.send(to, Message::Forget);
}

/// Looks at items, and removes what is kept apart for them.
pub(super) async fn remove(
    store: &Store,
    blobs: Option<&Blobs>,
    tenant: &str,
    job: &JobId,
    (from, to): (u32, u32),
) -> Result<Outcome, EffectError> {
    let tx = store.begin();
    let (inputs, known) = load::read(&tx, tenant, records::item, job, (from, to)).await?;
    let (views, known) = load::read(&tx, tenant, records::item_view, job, (from, known)).await?;
    let kept_apart = inputs.range(..known).filter_map(|(_, record)| ItemRecord::decode(record).ok()?.blob);
    if let Some(blobs) = blobs {
        for blob in kept_apart {
            blobs.remove(tenant, &blob).await.map_err(|error| EffectError::transient(error.to_string()))?;
        }
    }
    let last = |(index, view): (&u32, &Bytes)| Some((*index, decode_view(view).ok()?.attempts_total));
    let attempts = views.range(..known).filter_map(last).filter(|(_, attempt)| *attempt > 0).collect();
    Ok(Outcome::Removed { to: known, attempts })
}
